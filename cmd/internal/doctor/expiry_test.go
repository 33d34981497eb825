package doctor

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger"
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
	want(t, i.look(), "expiry", OK, "", "ends within 14d", "")

	i.replace(lasting.Cert, ending.Cert)
	i.replace(lasting.Key, ending.Key)
	i.replace(longToken, ended)
	r := i.look()
	want(t, r, "expiry", Warning, "operator.tls.cert_file", "ends at ", "have the certificate of operator.tls.cert_file (")
	want(t, r, "expiry", Problem, "teams.acme.destinations.agent.headers.Authorization", "has ended at ", "teams.acme.destinations.agent.headers.Authorization")
	if strings.Contains(told(r), "eyJ") {
		t.Error("a token is shown")
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
	want(t, i.look(), "postgres", Problem, "postgres", "synchronous_commit is off: a crash would forget", "set it on (ALTER ROLE")
}

// TestClocks: the ledger's clock is an hour off, either way.
func TestClocks(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, time.Second} {
		x := examined{found: &ledger.Examined{Ahead: ahead}}
		x.Path = "postgres"
		d := &doctor{examine: func() []examined { return []examined{x} }}
		told := slices.ContainsFunc(d.servers(t.Context()), func(f Finding) bool { return f.Severity == Warning && f.Subject == "postgres" })
		if told != (ahead.Abs() == time.Hour) {
			t.Errorf("%s ahead: told %v", ahead, told)
		}
	}
}
