package doctor

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// jwt is a token that says its end.
func jwt(end time.Time) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":"forebay","exp":%d}`, end.Unix())) + ".c2lnbmF0dXJl"
}

// TestExpiry has certificates and tokens that end soon, that have ended, and that do not.
func TestExpiry(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.apply()
	ca := rig.NewAuthority(t)
	lasting, ending := ca.Issue("lasting", 300*24*time.Hour), ca.Issue("ending", 47*time.Hour)
	auth := func(of rig.Issued) string {
		return fmt.Sprintf("operator: {auth: tokens, public_url: https://127.0.0.1, tls: {cert_file: %q, key_file: %q}}\n", of.Cert, of.Key)
	}
	longToken, ended := jwt(time.Now().Add(1000*time.Hour)), jwt(time.Now().Add(-time.Hour))
	i.text += auth(lasting)
	i.replace("{type: log}", `{type: http, allow_networks: [127.0.0.0/8], url: "https://127.0.0.1:1/hook", headers: {Authorization: "Bearer `+longToken+`"}}`)
	want(t, i.look(), "expiry", OK, "", "2 certificates and tokens with an end", "")

	i.replace(lasting.Cert, ending.Cert)
	i.replace(lasting.Key, ending.Key)
	i.replace(longToken, ended)
	cfg := i.load()
	lc, err := app.LedgerConfig(cfg.Ledger(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), lc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, life := range map[string]time.Duration{"ann": 100 * 24 * time.Hour, "bob": 24 * time.Hour, "for-a-day": 24 * time.Hour} {
		kept, _, err := access.Make(access.Request{Name: name, Role: "viewer", ExpiresAt: time.Now().Add(life), By: "test", Reason: "test"}, time.Now())
		if err == nil {
			_, err = l.CreateToken(t.Context(), kept)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, i.dbURL, `UPDATE `+i.schema+`.tokens SET created_at = now() - interval '90 days' WHERE name = 'bob'`)
	r := i.look()
	want(t, r, "expiry", Warning, "operator.tls.cert_file", "ends at ", "have the certificate of operator.tls.cert_file renewed")
	want(t, r, "expiry", Problem, "teams.acme.destinations.agent.headers.Authorization", "the token has ended at ", "teams.acme.destinations.agent.headers.Authorization")
	want(t, r, "expiry", Warning, "token bob", "ends at ", "forebay tokens create NEW-NAME --role viewer")
	for _, f := range r.Findings {
		if strings.Contains(f.Subject, "ann") || strings.Contains(f.Subject, "for-a-day") || strings.Contains(f.Evidence+f.Fix, "eyJ") {
			t.Errorf("unexpected: %+v", f)
		}
	}
}

// TestPostgres has a role with too few connections, and settings that lose what was acknowledged.
func TestPostgres(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.apply()
	i.replace("postgres: {url", "postgres: {connections: 600, url")
	want(t, i.look(), "connections", Problem, "postgres", "a process makes up to 614 connections", "postgres: {connections: ")
	with := "?"
	if strings.Contains(i.dbURL, with) {
		with = "&"
	}
	i.replace(i.dbURL, i.dbURL+with+"synchronous_commit=off")
	want(t, i.look(), "postgres", Problem, "postgres", "synchronous_commit is off: a crash would forget", "SET synchronous_commit = on")
}

// TestClock judges clocks by how far they are off for certain.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ahead, within time.Duration
		want          Severity
	}{
		{0, 0, OK}, {-time.Second, 0, OK}, {3 * time.Second, 0, Warning}, {-3 * time.Second, 0, Warning}, {3 * time.Second, 2 * time.Second, OK},
		{2 * time.Minute, time.Second, Problem}, {-2 * time.Minute, time.Second, Problem}, {2 * time.Minute, 2 * time.Minute, OK},
	} {
		if f := skew("x", tt.ahead, tt.within); f.Severity != tt.want || f.Severity != OK && f.Fix == "" {
			t.Errorf("%s ahead within %s: %+v, want %s", tt.ahead, tt.within, f, tt.want)
		}
	}
}
