package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
)

// TestTokens: a token is kept by its hash, once by its name, until it is revoked, for every process that has the ledger open.
func TestTokens(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	expires := time.Now().Add(time.Hour).Round(time.Microsecond).UTC()
	want := Token{Hash: [32]byte{1, 2, 31: 9}, Name: "ann-laptop", Role: "responder", Teams: []string{"acme", "pay"}, Payloads: true, CreatedBy: "bob\x00", Reason: "on call", ExpiresAt: expires}
	made, err := l.CreateToken(t.Context(), want)
	if err != nil || time.Since(made.CreatedAt).Abs() > time.Minute {
		t.Fatalf("%+v %v", made, err)
	}
	all := Token{Hash: [32]byte{2}, Name: "root", Role: "admin", CreatedBy: "bob", Reason: "first", ExpiresAt: expires}
	if _, err := l.CreateToken(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	list := func() []Token {
		t.Helper()
		list, err := l.Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].CreatedAt, list[i].ExpiresAt = time.Time{}, list[i].ExpiresAt.UTC()
		}
		return list
	}
	want.CreatedBy = "bob\ufffd"
	if diff := cmp.Diff([]Token{want, all}, list()); diff != "" {
		t.Error(diff)
	}
	for name, bad := range map[string]struct {
		change func(*Token)
		kind   schemas.Kind
	}{
		"the same name":   {func(t *Token) { t.Hash[5] = 7 }, schemas.Conflict},
		"the same hash":   {func(t *Token) { t.Name = "other" }, schemas.Conflict},
		"without a name":  {func(t *Token) { t.Name, t.Hash[5] = "", 7 }, schemas.Unavailable},
		"an unknown role": {func(t *Token) { t.Name, t.Role, t.Hash[5] = "other", "root", 7 }, schemas.Unavailable},
		"of no team":      {func(t *Token) { t.Name, t.Teams, t.Hash[5] = "other", []string{}, 7 }, schemas.Unavailable},
		"for no reason":   {func(t *Token) { t.Name, t.Reason, t.Hash[5] = "other", "", 7 }, schemas.Invalid},
	} {
		token := want
		bad.change(&token)
		if _, err := l.CreateToken(t.Context(), token); schemas.KindOf(err) != bad.kind {
			t.Errorf("%s: %v, want %s", name, err, bad.kind)
		}
	}
	for range 2 {
		if err := l.UsedToken(t.Context(), "root"); err != nil {
			t.Fatal(err)
		}
	}
	used := list()[1].UsedAt
	if used == nil || time.Since(*used).Abs() > time.Minute {
		t.Errorf("used at %v", used)
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.tokens SET used_at = now() - interval '50 seconds'`)
	before := *list()[0].UsedAt
	if err := l.UsedToken(t.Context(), "ann-laptop"); err != nil || !list()[0].UsedAt.Equal(before) {
		t.Errorf("within a minute it is written again: %v", err)
	}
	admin(t, cfg.URL.Reveal(), `UPDATE `+cfg.Schema+`.tokens SET used_at = now() - interval '70 seconds'`)
	if err := l.UsedToken(t.Context(), "ann-laptop"); err != nil || time.Since(*list()[0].UsedAt).Abs() > 30*time.Second {
		t.Errorf("after a minute it is not: %v", err)
	}
	gone, err := l.RevokeToken(t.Context(), "ann-laptop", "bob", "she left")
	if err != nil || gone.RevokedAt == nil || gone.RevokedBy != "bob" || gone.RevokedReason != "she left" || gone.Hash != want.Hash {
		t.Errorf("%+v %v", gone, err)
	}
	if _, err := l.RevokeToken(t.Context(), "ann-laptop", "bob", "again"); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "revoked already") {
		t.Error(err)
	}
	if _, err := l.RevokeToken(t.Context(), "carl", "bob", "x"); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
	if _, err := l.RevokeToken(t.Context(), "root", "", "x"); schemas.KindOf(err) != schemas.Invalid {
		t.Error(err)
	}
	if _, err := l.CreateToken(t.Context(), want); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the name of a revoked one is free: %v", err)
	}
}
