package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

// reopen opens the fixture's ledger again with another configuration.
func (f *fixture) reopen(change func(*Config), spec ...func(*Spec)) *fixture {
	f.t.Helper()
	g := &fixture{t: f.t, cfg: f.cfg}
	change(&g.cfg)
	g.l = open(f.t, g.cfg)
	g.n = g.namespace(spec...)
	return g
}

// trigger runs PL/pgSQL before each row of an event is written.
func (f *fixture) trigger(body string) {
	f.t.Helper()
	window := one[string](f, `SELECT 'events_w' || id FROM windows WHERE state = 'current'`)
	admin(f.t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+body+` RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON `+window+` FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

// What a role has by default neither ends our statements nor our transactions, nor leaves them without end: only the statement that sets ours has the
// role's.
func TestDefaultsOfTheRoleDoNotApply(t *testing.T) {
	t.Parallel()
	f := setup(t)
	role := "r_" + f.cfg.Schema
	url := f.cfg.URL.Reveal()
	admin(t, url, `CREATE ROLE `+role+` LOGIN SUPERUSER PASSWORD 'x'; ALTER ROLE `+role+` SET statement_timeout = '1s'; ALTER ROLE `+role+` SET lock_timeout = '1s';
		ALTER ROLE `+role+` SET idle_in_transaction_session_timeout = '1s'; ALTER ROLE `+role+` SET idle_session_timeout = '1s'`)
	t.Cleanup(func() { admin(t, url, `DROP ROLE `+role) })
	g := f.reopen(func(c *Config) { c.URL = asRole(t, c.URL, role) })
	for _, p := range g.l.db.Pools() {
		for name, least := range map[string]time.Duration{"statement_timeout": 5 * time.Second, "lock_timeout": 5 * time.Second,
			"idle_in_transaction_session_timeout": 5 * time.Second, "idle_session_timeout": 30 * time.Minute} {
			var ms int64
			if err := p.QueryRow(t.Context(), `SELECT extract(epoch FROM current_setting($1)::interval) * 1000`, name).Scan(&ms); err != nil {
				t.Fatal(err)
			}
			if d := time.Duration(ms) * time.Millisecond; d < least || d > time.Hour {
				t.Errorf("%s is %s", name, d)
			}
		}
	}
	c := g.claim(0)
	f.trigger(`PERFORM pg_sleep(0.6);`)
	if a := g.apply(c, seq(0, "e", 1), seq(1, "e", 2)); len(a.Actions) != 2 {
		t.Error(decisions(a))
	}
}

func asRole(t *testing.T, secret schemas.Secret, role string) schemas.Secret {
	t.Helper()
	u, err := url.Parse(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "x")
	return schemas.NewSecret(u.String())
}

// A batch for which there is not the time is written in parts. Nothing of it is quarantined.
func TestBatchThatTakesTooLongIsWrittenInParts(t *testing.T) {
	t.Parallel()
	f := setup(t).reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	c, d := f.claim(0), f.claim(1)
	f.trigger(`PERFORM pg_sleep(0.25);`)
	var records []Record
	for i := range int64(10) { // 2.5 s in one statement, which has 1.5
		records = append(records, seq(i, "e", i+1))
	}
	out, err := f.n.Apply(t.Context(), []Slice{slice(d, seq(0, "d", 1)), slice(c, records...)})
	if err != nil {
		t.Fatal(err)
	}
	if len(out[0].Actions) != 1 || len(out[1].Actions) != 10 || out[1].Quarantined != nil || out[1].Refused != nil {
		t.Errorf("%+v", out)
	}
	if d := cmp.Diff(int64(10), c.Next.Offset); d != "" {
		t.Error(d)
	}
}

// A single record for which there is never the time stops its partition, and no other. It is written as soon as there is.
func TestRecordThatTakesTooLongStopsItsPartition(t *testing.T) {
	t.Parallel()
	f := setup(t).reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	c, d := f.claim(0), f.claim(1)
	f.trigger(`IF NEW.entity = 'slow' THEN PERFORM pg_sleep(2); END IF;`)
	out, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(0, "c", 1), seq(1, "slow", 1), seq(2, "c", 2)), slice(d, seq(0, "d", 1), seq(1, "d", 2))})
	if err != nil {
		t.Fatal(err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](out[0].Refused); !ok || pg.Code != "57014" {
		t.Errorf("refused: %v", out[0].Refused)
	}
	if out[1].Refused != nil || len(out[1].Actions) != 2 {
		t.Errorf("the other: %+v", out[1])
	}
	got := one[string](f, `SELECT string_agg(f.partition || ':' || p.next_offset, ' ' ORDER BY f.partition) || ' ' || (SELECT count(*) FROM rejected_records) FROM fences f JOIN progress p ON p.fence = f.id`)
	if got != "0:1 1:2 0" {
		t.Error(got)
	}
	f.exec(`DROP FUNCTION refuse() CASCADE`)
	c = f.claim(0)
	if a := f.apply(c, seq(1, "slow", 1), seq(2, "c", 2)); len(a.Actions) != 2 {
		t.Error(decisions(a))
	}
}

// A row that somebody else keeps locked stops its partition, and no other.
func TestLockOfOthersStopsItsPartition(t *testing.T) {
	t.Parallel()
	f := setup(t).reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	c, d := f.claim(0), f.claim(1)
	hold := f.connect()
	if _, err := hold.Exec(t.Context(), `BEGIN; SELECT FROM progress WHERE fence = `+one[string](f, `SELECT id::text FROM fences WHERE partition = 0`)+` FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	out, err := f.n.Apply(t.Context(), []Slice{slice(c, seq(0, "c", 1), seq(1, "c", 2)), slice(d, seq(0, "d", 1), seq(1, "d", 2))})
	if err != nil {
		t.Fatal(err)
	}
	if !pg.Locked(out[0].Refused) {
		t.Errorf("refused: %v", out[0].Refused)
	}
	if out[1].Refused != nil || len(out[1].Actions) != 2 {
		t.Errorf("the other: %+v", out[1])
	}
}

// What the database refuses for good of one partition stops that, and the others of the batch are applied; of a slice that was
// bisected the beginning stands.
func TestRefusalIsThePartitions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, d, e := f.claim(0), f.claim(1), f.claim(2)
	f.trigger(`IF NEW.entity = 'forbidden' THEN RAISE insufficient_privilege; END IF;`)
	bad := seq(2, "c", 3)
	bad.Type = "a\x00b" // the batch is bisected for this one first
	slices := []Slice{
		slice(d, seq(0, "d", 1), seq(1, "d", 2)),
		slice(c, seq(0, "c", 1), seq(1, "c", 2), bad, seq(3, "c", 4), seq(4, "forbidden", 1), seq(5, "c", 5)),
		slice(e, seq(0, "e", 1)),
	}
	out, err := f.n.Apply(t.Context(), slices)
	if err != nil {
		t.Fatal(err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](out[1].Refused); !ok || pg.Code != "42501" || len(out[1].Actions) > 0 {
		t.Errorf("refused: %v, handed out: %v", out[1].Refused, lanes(out[1].Actions))
	}
	for _, i := range []int{0, 2} {
		if out[i].Refused != nil || out[i].Fenced || len(out[i].Actions) != len(slices[i].Records) {
			t.Errorf("slice %d: %+v", i, out[i])
		}
	}
	// The claim that has been refused is of no use; the next one reads what stands, and goes on there.
	c = f.claim(0)
	if n := one[int](f, `SELECT count(*) FROM events WHERE fence = (SELECT id FROM fences WHERE partition = 0)`) + one[int](f, `SELECT count(*) FROM rejected_records`); int64(n) != c.Next.Offset {
		t.Errorf("%d records are decided, and the next offset is %d", n, c.Next.Offset)
	}
	f.exec(`DROP FUNCTION refuse() CASCADE`)
	rest := slices[1].Records[c.Next.Offset:]
	if a := f.apply(c, rest...); a.Refused != nil || len(a.Outcomes) != len(rest) {
		t.Errorf("%+v", a)
	}
}

// Waits and commands are refused as slices are.
func TestRefusalOfWaitsAndCommands(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	f.overdue()
	admin(t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; END $$;
		CREATE TRIGGER keep BEFORE DELETE ON buffer FOR EACH ROW EXECUTE FUNCTION keep()`)
	refused := func(what string, a Applied, err error) {
		t.Helper()
		if pg, ok := errors.AsType[*pgconn.PgError](a.Refused); err != nil || !ok || pg.Code != "42501" || a.Claim != c {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	a, err := f.n.Expire(t.Context(), c)
	refused("waits", a, err)
	items, err := f.list("", "buffered")
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	if _, err := TestInbox.Ask(t.Context(), f.l, items[0].of, Release, "jo", "now"); err != nil {
		t.Fatal(err)
	}
	commands, err := f.n.Commands(t.Context(), []*Claim{c}, 0)
	if err != nil || len(commands) != 1 {
		t.Fatal(commands, err)
	}
	a, err = f.n.ApplyCommand(t.Context(), c, commands[0])
	refused("a command", a, err)
	f.exec(`DROP FUNCTION keep() CASCADE`)
	if a, err = f.n.Expire(t.Context(), c); err != nil || a.Refused != nil || len(a.Actions) != 1 {
		t.Errorf("once it may: %+v, %v", a, err)
	}
}

// Results for which there is not the time are recorded in parts.
func TestResultsThatTakeTooLongAreRecordedInParts(t *testing.T) {
	t.Parallel()
	f := setup(t).reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	c := f.claim(0)
	var records []Record
	var results []Result
	for i := range int64(10) {
		records = append(records, seq(i, "e", i+1))
		results = append(results, Result{Claim: c, LaneSeq: i + 1, Status: Failed, Attempt: 1, Class: "timeout"})
	}
	f.apply(c, records...)
	admin(t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.25); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON `+one[string](f, `SELECT 'attempts_w' || id FROM windows WHERE state = 'current'`)+` FOR EACH ROW EXECUTE FUNCTION slow()`)
	if fenced, err := f.n.Record(t.Context(), results); err != nil || len(fenced) > 0 {
		t.Fatal(fenced, err)
	}
	if got := one[string](f, `SELECT (SELECT count(*) FROM attempts) || ' ' || (SELECT count(*) FROM actions WHERE status = 'failed')`); got != "10 10" {
		t.Error(got)
	}
}

// Events are written in the order of their records, not of their keys. Where two batches have the same events in opposite order, which
// takes the same deliveries in two partitions, one of them may be chosen in a deadlock: it goes again, and each event runs once.
func TestTheSameEventsInOppositeOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	other := f.namespace() // of another process
	c := f.claim(0)
	d, err := other.Claim(t.Context(), ClaimRequest{Partition: partition(1), Partitions: 8, Confirm: at(0)})
	if err != nil {
		t.Fatal(err)
	}
	f.trigger(`PERFORM pg_sleep(0.02);`) // so that they meet
	const n = 10
	var up, down []Record
	for i := range int64(n) {
		up = append(up, seq(i, fmt.Sprint("e", i), 1))
		down = append(down, seq(i, fmt.Sprint("e", n-1-i), 1))
	}
	ran := make(chan int, 2)
	apply := func(ns *Namespace, c *Claim, records []Record) {
		out, err := ns.Apply(t.Context(), []Slice{slice(c, records...)})
		if err != nil || out[0].Refused != nil || len(out[0].Quarantined) > 0 {
			t.Error(out, err)
			ran <- 0
			return
		}
		ran <- len(out[0].Actions)
	}
	go apply(f.n, c, up)
	go apply(other, d, down)
	if all := <-ran + <-ran; all != n {
		t.Errorf("%d actions of %d events", all, n)
	}
	if got := one[int](f, `SELECT count(*) FROM events`); got != n {
		t.Errorf("%d events", got)
	}
}

// A claim has no time as a whole, only each of its statements has: Kafka may take longer than a transaction may.
func TestClaimWaitsForKafkaLongerThanATransaction(t *testing.T) {
	t.Parallel()
	f := setup(t)
	g := f.reopen(func(c *Config) { c.TxTimeout = 2 * time.Second })
	c, err := g.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: func(ctx context.Context, p *Position) (Start, error) {
		if _, err := f.l.hot.Exec(ctx, `SELECT pg_sleep(2.5)`); err != nil {
			return Start{}, err
		}
		return at(0)(ctx, p)
	}})
	if err != nil || c.Epoch != 1 {
		t.Fatal(c, err)
	}
	if a := g.apply(c, seq(0, "e", 1)); len(a.Actions) != 1 {
		t.Errorf("%+v", a)
	}
}

// From 17 on the server itself ends a transaction that takes too long in short statements, before the client gives up: its locks are
// free when the next try comes, which is in parts.
func TestServerEndsATransactionThatTakesTooLong(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if one[int](f, `SELECT current_setting('server_version_num')::int`) < 17*10_000 {
		t.Log("this server knows no transaction_timeout; .ci/run has a step with one that does")
		return
	}
	var said bytes.Buffer
	g := f.reopen(func(c *Config) { c.TxTimeout, c.Logger = 3*time.Second, slog.New(slog.NewTextHandler(&said, nil)) })
	c := g.claim(0)
	f.trigger(`PERFORM pg_sleep(0.8);`)
	admin(t, f.cfg.URL.Reveal(), `SET search_path = `+f.cfg.Schema+`; CREATE TRIGGER refuse BEFORE INSERT ON version_lines FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if a := g.apply(c, seq(0, "a", 1), seq(1, "b", 1)); len(a.Actions) != 2 {
		t.Errorf("%+v", a)
	}
	if n := strings.Count(said.String(), "SQLSTATE 25P04"); n == 0 {
		t.Errorf("the server has not ended it:\n%s", said.String())
	}
}
