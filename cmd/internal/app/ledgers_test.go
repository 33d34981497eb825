package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// A team's file names a ledger on this machine, with the process's own certificates and options in its environment: it is reached only where
// the main file lets teams' files lead, and nothing of the environment goes there.
func TestLedgerOfATeamsFile(t *testing.T) {
	db, schema := pgtest.Schema(t)
	for name, value := range map[string]string{"PGSSLCERT": "/nobody/cert", "PGSSLKEY": "/nobody/key", "PGSSLROOTCERT": "/nobody/ca", "PGOPTIONS": "-c nothing=is", "PGAPPNAME": "of-the-process"} {
		t.Setenv(name, value)
	}
	l := config.Ledger{OfTeam: true, Path: "teams.acme.subscriptions.billing.postgres",
		Postgres: config.Postgres{URL: schemas.NewSecret(db), Schema: schema, Connections: 2, TransactionTimeout: config.Duration(20e9)}}
	cfg, err := LedgerConfig(l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const refused = "is refused (loopback): teams.acme.subscriptions.billing.postgres.url is in a team's file"
	if _, err = ledger.Migrate(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("migrate: %v", err)
	}
	if opened, err := ledger.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("open: %v, %v", opened, err)
	}
	l.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if cfg, err = LedgerConfig(l, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err = ledger.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	opened, err := ledger.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
	t.Setenv("PGSERVICE", "of-the-process")
	if _, err = LedgerConfig(l, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "PGSERVICE") {
		t.Errorf("with PGSERVICE: %v", err)
	}
}

// What opens a ledger logs in by the URL with which it began to; each connection that is made then, by what the files say by that time.
func TestLedgerLogsInByWhatWasReadLast(t *testing.T) {
	t.Parallel()
	place := newLedger(t)
	with := func(url string) *deployment {
		return &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", fmt.Sprintf("postgres: {url: %q, schema: %q}", url, place.schema), "http://127.0.0.1:1")}
	}
	right := with(place.url)
	a := right.app(config.RoleStream)
	cfg, err := a.ledgerConfig(a.file().Ledger())
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(place.url)
	if err != nil {
		t.Fatal(err)
	}
	to.User = url.UserPassword("nobody", "another") // whom a server that trusts everybody refuses, too
	for _, tt := range []struct {
		of  *deployment
		err string
	}{{with(to.String()), `"nobody"`}, {right, ""}} {
		if err := a.Reload(tt.of.load(config.RoleStream)); err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(t.Context(), cfg)
		if err == nil {
			l.Close()
		}
		if (err == nil) != (tt.err == "") || !strings.Contains(fmt.Sprint(err), tt.err) {
			t.Errorf("opened with %v, want %q", err, tt.err)
		}
	}
}

// What waited when a subscription was moved to another ledger waits for nobody in this one: no owner takes up what is said of it. What the file
// does not have at all is listed as ever.
func TestWhatWaitsIsOfThisLedger(t *testing.T) {
	t.Parallel()
	text := strings.Replace(rankedFile, "version: 1\n", "version: 1\npostgres: {url: \"postgres://u:p@db/main\"}\nkafka: {brokers: [\"127.0.0.1:9092\"]}\n", 1)
	text = strings.Replace(text, "equal: first,", "equal: first, postgres: {url: \"postgres://u:p@db/own\"},", 1)
	var of []string
	for _, chosen := range [][]string{nil, {"acme.*"}} {
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Roles: []config.Role{config.RoleMigrate}, Subscriptions: chosen})
		if err != nil {
			t.Fatal(err)
		}
		name := sortedKeys(c.Teams["acme"].Subscriptions)[0]
		counts, dead := ofThisLedger(c, []inbox.AttentionCount{{Team: "acme", Subscription: name, Count: 1}, {Team: "acme", Subscription: "gone", Count: 1}},
			[]inbox.DeadFacts{{Team: "acme", Subscription: name}, {Team: "acme", Subscription: "gone"}})
		for n := range counts {
			if of = append(of, counts[n].Subscription); len(dead) != len(counts) || dead[n].Subscription != counts[n].Subscription {
				t.Errorf("dead letters of %+v, and what waits of %+v", dead, counts)
			}
		}
	}
	if len(of) != 3 || of[0] != "gone" || of[2] != "gone" {
		t.Errorf("what waits: %v", of)
	}
}

// besideOthers is a process whose ledger is acme.triage's; acme.fulfil and pay.bills have another.
func besideOthers(t *testing.T) *App {
	t.Helper()
	place := newLedger(t)
	l, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	const own = `postgres: {url: "postgres://u:p@db/own"}, `
	r := deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {"+place.String()+"}", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "fulfil: {", "fulfil: {"+own, 1) + "  pay:\n    subscriptions:\n      bills: {" + own + "sources: [acme/orders], begin: all, actions: [{name: run, to: log}]}\n    destinations: {log: {type: log}}\n"
	r.text = strings.Replace(r.text, "        secrets: [orders-secret]\n", "        secrets: [orders-secret]\n        share: [pay]\n", 1)
	a := &App{stream: &streams{ledger: l}}
	a.stream.a = a
	a.current.Store(r.load(config.RoleStream))
	return a
}

// A list of approvals says what another ledger has of it, and refuses a team that is none or is all in that ledger: an empty one would say that
// nothing waits. So does the answer that there is no approval of an id.
func TestApprovalsOfAnotherLedger(t *testing.T) {
	t.Parallel()
	s := &approvalsAPI{besideOthers(t)}
	for team, want := range map[string]string{"": "[acme.fulfil pay.bills]", "acme": "[acme.fulfil]"} {
		if page, err := s.Approvals(t.Context(), api.ApprovalFilter{Team: team}); err != nil || fmt.Sprint(page.Elsewhere) != want {
			t.Errorf("team %q: without %v, %v, want %s", team, page.Elsewhere, err, want)
		}
	}
	for team, want := range map[string]schemas.Kind{"acmee": schemas.NotFound, "pay": schemas.Conflict} {
		if page, err := s.Approvals(t.Context(), api.ApprovalFilter{Team: team}); schemas.KindOf(err) != want {
			t.Errorf("team %s: %+v, %v", team, page, err)
		}
	}
	_, err := s.Approval(t.Context(), 7)
	_, answered := s.AnswerApproval(t.Context(), 7, true, api.ApprovalRequest{DryRun: true})
	for _, err := range []error{err, answered} {
		if schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "there is no approval 7") || !strings.Contains(err.Error(), "another process has the ledger of acme.fulfil, pay.bills") {
			t.Errorf("of no id of this ledger: %v", err)
		}
	}
}
