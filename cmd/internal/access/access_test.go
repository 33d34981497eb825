package access

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a store in memory that counts what it is asked.
type table struct {
	mu          sync.Mutex
	tokens      []ledger.Token
	reads, uses int
	err         error
}

func (s *table) Tokens(context.Context) ([]ledger.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return slices.Clone(s.tokens), s.err
}

func (s *table) UsedToken(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	return s.err
}

func (s *table) counts() (reads, uses int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.uses
}

func (s *table) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func keeperOf(s *table) *Keeper {
	return NewKeeper(func() (Store, error) { return s, nil }, slog.New(slog.DiscardHandler))
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if schemas.KindOf(err) != schemas.Unauthenticated || !strings.Contains(err.Error(), "forebay tokens create") {
		t.Errorf("%s: %v", what, err)
	}
}

// A burst of questions is one query; a revoked token opens for Fresh at most, one that was just made opens.
func TestTokensAreReadSeldomAndSoonEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known, later := NewToken(), NewToken()
		s := &table{tokens: []ledger.Token{{Hash: Hash(known), Name: "ann", Role: "viewer", Teams: []string{"acme"}, ExpiresAt: time.Now().Add(time.Hour)}}}
		k := keeperOf(s)
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if who, err := k.Who(t.Context(), known); err != nil || who.Name != "ann" || who.All() || !who.Of("acme") || who.May(Content) {
					t.Errorf("%+v %v", who, err)
				}
				if _, err := k.Who(t.Context(), NewToken()); err == nil {
					t.Error("a token that nobody made opens")
				}
			})
		}
		all.Wait()
		if reads, uses := s.counts(); reads != 2 || uses != 1 {
			t.Errorf("%d reads and %d notes of 400 questions, want 2, for those that nobody knew at first, and 1", reads, uses)
		}
		s.change(func() {
			s.tokens[0].RevokedAt = new(time.Now())
			s.tokens = append(s.tokens, ledger.Token{Hash: Hash(later), Name: "bob", Role: "admin", ExpiresAt: time.Now().Add(time.Hour)})
		})
		asked := time.Now()
		if who, err := k.Who(t.Context(), later); err != nil || !who.All() || time.Since(asked) > rereadAfter {
			t.Errorf("just made: %+v %v after %s", who, err, time.Since(asked))
		}
		_, err := k.Who(t.Context(), known)
		refused(t, "revoked, and read again for another", err)
	})
}

// Without any other question, too, a revoked token opens for Fresh at most; and an expired one not at all.
func TestRevokedAndExpiredTokensOpenNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		token, brief := NewToken(), NewToken()
		s := &table{tokens: []ledger.Token{{Hash: Hash(token), Name: "ann", ExpiresAt: time.Now().Add(time.Hour)}, {Hash: Hash(brief), Name: "bob", ExpiresAt: time.Now().Add(time.Second)}}}
		k := keeperOf(s)
		for _, text := range []string{token, brief} {
			if _, err := k.Who(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		s.change(func() { s.tokens[0].RevokedAt = new(time.Now()) })
		time.Sleep(time.Second)
		_, err := k.Who(t.Context(), brief)
		refused(t, "expired", err)
		if _, err := k.Who(t.Context(), token); err != nil {
			t.Errorf("within %s it may still open, or each question is a query: %v", Fresh, err)
		}
		time.Sleep(Fresh - time.Second)
		_, err = k.Who(t.Context(), token)
		refused(t, "revoked", err)
	})
}

// hanging is a store that answers nobody.
type hanging struct{ table }

func (s *hanging) Tokens(ctx context.Context) ([]ledger.Token, error) {
	s.table.Tokens(ctx)
	<-ctx.Done()
	return nil, ctx.Err()
}

// While the ledger answers nobody, those who ask wait for one read, and not in turn for one each.
func TestQuestionsShareAReadThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{}
		k := NewKeeper(func() (Store, error) { return s, nil }, slog.New(slog.DiscardHandler))
		asked := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := k.Who(t.Context(), NewToken()); err == nil {
					t.Error("opens")
				}
			})
		}
		all.Wait()
		if reads, _ := s.counts(); reads != 1 || time.Since(asked) > readWithin {
			t.Errorf("%d reads in %s", reads, time.Since(asked))
		}
		time.Sleep(rereadAfter)
		if _, err := k.Who(t.Context(), NewToken()); err == nil {
			t.Error("opens")
		}
		if reads, _ := s.counts(); reads != 2 {
			t.Errorf("%d reads: it is not tried again", reads)
		}
	})
}

// Tokens that cannot be read open nothing once those that were read are old.
func TestNothingOpensWhileTokensCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		token := NewToken()
		s := &table{tokens: []ledger.Token{{Hash: Hash(token), Name: "ann", ExpiresAt: time.Now().Add(time.Hour)}}}
		k := keeperOf(s)
		if _, err := k.Who(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.err = schemas.Errorf(schemas.Unavailable, "read the tokens", "postgres is away") })
		time.Sleep(Fresh)
		if _, err := k.Who(t.Context(), token); schemas.KindOf(err) != schemas.Unavailable {
			t.Error(err)
		}
	})
	closed := NewKeeper(func() (Store, error) { return nil, errors.New("not open yet") }, slog.New(slog.DiscardHandler))
	if _, err := closed.Who(t.Context(), NewToken()); err == nil {
		t.Error("opens without a ledger")
	}
	for _, text := range []string{"", "fbo_", "fbo_short", strings.Repeat("x", 47), "Bearer " + NewToken()} {
		_, err := closed.Who(t.Context(), text)
		refused(t, text, err)
	}
}

func TestTokensAreRandomAndRecognizable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken()
		if seen[token] || !strings.HasPrefix(token, "fbo_") || len(token) != 47 || !looksLikeOne(token) {
			t.Fatal(token)
		}
		seen[token] = true
	}
}

// Every role may see metadata, none what events carry; who may do more is a role above.
func TestRolesHaveTheirRights(t *testing.T) {
	t.Parallel()
	for right, roles := range map[Right]string{
		See: "viewer responder operator source-admin approver auditor admin", Content: "", Respond: "responder operator admin",
		Operate: "operator admin", Sources: "responder operator source-admin admin", Audit: "auditor admin", Tokens: "admin",
	} {
		if got := strings.Join(RolesWith(right), " "); got != roles {
			t.Errorf("%s: %s, want %s", right, got, roles)
		}
		for _, role := range Roles() {
			who := &Who{Role: role, Sees: right == Content}
			if who.May(right) != (right == Content || strings.Contains(" "+roles+" ", " "+role+" ")) {
				t.Errorf("%s and %s", role, right)
			}
		}
	}
	if len(Roles()) != len(rights) || !Anybody.All() || !Anybody.May(Content) || !Anybody.May(Tokens) {
		t.Error(Roles(), Anybody)
	}
	who := &Who{Teams: []string{"acme"}}
	if who.OfAny([]string{"pay"}) || !who.OfAny([]string{"pay", "*"}) || !slices.Equal(who.Only([]string{"pay", "acme"}), []string{"acme"}) {
		t.Error("teams")
	}
}

func TestMakingTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	good := Request{Name: "ann-laptop", Role: "responder", Teams: []string{"acme"}, ExpiresAt: now.Add(time.Hour), By: "bob", Reason: "on call"}
	kept, token, err := Make(good, now)
	if err != nil || kept.Hash != Hash(token) || !looksLikeOne(token) || kept.Name != "ann-laptop" || kept.CreatedBy != "bob" {
		t.Errorf("%+v %v", kept, err)
	}
	for what, change := range map[string]func(*Request){
		"loopback is in the": func(r *Request) { r.Name = "loopback" },
		"forebay is in the":  func(r *Request) { r.Name = "forebay" }, // it voids approvals
		"nobody is in the":   func(r *Request) { r.Name = Nobody },
		"name of a token":    func(r *Request) { r.Name = "Ann" },
		"viewer, responder":  func(r *Request) { r.Role = "root" },
		"of one team":        func(r *Request) { r.Teams = []string{} },
		"no name of a team":  func(r *Request) { r.Teams = []string{"acme", "a/b"} },
		"not before now":     func(r *Request) { r.ExpiresAt = now },
		"within a year":      func(r *Request) { r.ExpiresAt = now.Add(MaxLife + 1) },
		"concerns all teams": func(r *Request) { r.Role = "admin" },
	} {
		bad := good
		change(&bad)
		if _, token, err := Make(bad, now); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), what) || token != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A ledger that is not open yet is asked for with every question: the first one behind its opening is answered.
func TestTokensAreThereOnceTheLedgerIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		token, open := NewToken(), false
		s := &table{tokens: []ledger.Token{{Hash: Hash(token), Name: "ann", Role: "viewer", ExpiresAt: time.Now().Add(time.Hour)}}}
		k := NewKeeper(func() (Store, error) {
			if !open {
				return nil, errors.New("not open yet")
			}
			return s, nil
		}, slog.New(slog.DiscardHandler))
		if _, err := k.Who(t.Context(), token); err == nil {
			t.Error("a token opens without a ledger")
		}
		open = true
		if who, err := k.Who(t.Context(), token); err != nil || who.Name != "ann" {
			t.Errorf("%+v %v", who, err)
		}
	})
}
