package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/access"
)

// TestSessions: a session is kept by the hash of its id, for every process, until it ends: by itself, with its token, or by somebody.
func TestSessions(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	l := open(t, cfg)
	if _, err := l.CreateToken(t.Context(), Token{Hash: [32]byte{1}, Name: "ann", Role: "responder", Teams: []string{"acme"}, CreatedBy: "bob", Reason: "x", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	ofToken := Session{Hash: [32]byte{1, 31: 7}, Token: "ann", Name: "ann", Role: "responder", Teams: []string{"acme"}}
	ofProvider := Session{Hash: [32]byte{2}, Name: "oidc:sue@example.com", Role: "viewer", Payloads: true, Rules: make([]byte, 32)}
	open := func() {
		t.Helper()
		for _, n := range []Session{ofToken, ofProvider} {
			if err := l.CreateSession(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func(n Session) bool {
		t.Helper()
		got, err := l.Session(t.Context(), n.Hash)
		if schemas.KindOf(err) == schemas.NotFound {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n, got, cmpopts.IgnoreFields(Session{}, "ID", "CreatedAt", "UsedAt", "ExpiresAt")); diff != "" {
			t.Error(diff)
		}
		return true
	}
	open()
	if !there(ofToken) || !there(ofProvider) || there(Session{Hash: [32]byte{9}}) {
		t.Error("what was opened is not there, or what was not is")
	}
	kept, err := l.Session(t.Context(), ofToken.Hash)
	if err != nil || kept.ExpiresAt.Sub(kept.CreatedAt) != access.SessionLife {
		t.Errorf("%+v %v", kept, err)
	}
	if err := l.EndSession(t.Context(), kept.ID); err != nil || there(ofToken) {
		t.Errorf("ended, it is there: %v", err)
	}
	if err := l.EndSession(t.Context(), kept.ID); schemas.KindOf(err) != schemas.NotFound {
		t.Error(err)
	}
	for what, end := range map[string]string{
		"idle":       `UPDATE sessions SET used_at = now() - interval '61 minutes'`,
		"old":        `UPDATE sessions SET used_at = now(), expires_at = now()`,
		"of a token": `UPDATE tokens SET expires_at = now()`,
		"revoked":    `UPDATE tokens SET expires_at = now() + interval '1 hour', revoked_at = now(), revoked_by = 'bob', revoked_reason = 'x'`,
	} {
		admin(t, cfg.URL.Reveal(), `SET search_path = `+cfg.Schema+`; DELETE FROM sessions; UPDATE tokens SET expires_at = now() + interval '1 hour', revoked_at = NULL, revoked_by = NULL, revoked_reason = NULL`)
		open()
		if !there(ofToken) {
			t.Errorf("%s: not there before", what)
		}
		admin(t, cfg.URL.Reveal(), `SET search_path = `+cfg.Schema+`; `+end)
		if there(ofToken) || there(ofProvider) == (what == "idle" || what == "old") {
			t.Errorf("%s: one that has ended is there, or one that has not is gone", what)
		}
	}
	admin(t, cfg.URL.Reveal(), `SET search_path = `+cfg.Schema+`; DELETE FROM sessions; UPDATE tokens SET expires_at = now() + interval '1 hour', revoked_at = NULL, revoked_by = NULL, revoked_reason = NULL`)
	open()
	admin(t, cfg.URL.Reveal(), `SET search_path = `+cfg.Schema+`; UPDATE sessions SET used_at = now() - interval '59 minutes'`)
	if kept, err = l.Session(t.Context(), ofProvider.Hash); err != nil {
		t.Fatal(err)
	}
	if err := l.UsedSession(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	if used, err := l.Session(t.Context(), ofProvider.Hash); err != nil || time.Since(used.UsedAt).Abs() > time.Minute {
		t.Errorf("%+v %v", used, err)
	}
	admin(t, cfg.URL.Reveal(), `SET search_path = `+cfg.Schema+`; UPDATE sessions SET used_at = now() - interval '61 minutes'`)
	ofProvider.Hash[3] = 1
	if err := l.CreateSession(t.Context(), ofProvider); err != nil || !there(ofProvider) {
		t.Fatal(err)
	}
	var left int
	if err := l.quick.QueryRow(t.Context(), `SELECT count(*) FROM sessions`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d are kept: those that have ended are not deleted (%v)", left, err)
	}
}
