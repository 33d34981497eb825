package postgressink

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// target is a schema of the test's own, with a connection to it.
type target struct {
	t      testing.TB
	url    *url.URL // with the schema as search path
	schema string
	mu     sync.Mutex
	conn   *pgx.Conn
}

func newTarget(t testing.TB) *target {
	t.Helper()
	base, schema := pgtest.Schema(t)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	d := &target{t: t, url: u, schema: schema}
	if d.conn, err = pgx.Connect(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", d.schema)
	u.RawQuery = q.Encode()
	if _, asked := u.User.Password(); !asked { // a server that asks for none takes any
		u.User = url.UserPassword(u.User.Username(), "any-password")
	}
	d.do(`CREATE SCHEMA ` + d.schema)
	d.do(`SET search_path = ` + d.schema)
	d.do(`CREATE TABLE effects (n int GENERATED ALWAYS AS IDENTITY, event text NOT NULL, rev int CHECK (rev < 1000), note jsonb)`)
	t.Cleanup(func() { _ = d.conn.Close(context.Background()) })
	return d
}

func (d *target) do(sql string, args ...any) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.conn.Exec(context.Background(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](d *target, sql string, args ...any) (v T) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.conn.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// effects is how often the action's statement took effect.
func (d *target) effects(a sink.Action) int {
	return one[int](d, `SELECT count(*) FROM effects WHERE event = $1`, a.Event.ID)
}

const (
	insert = `INSERT INTO effects (event, rev, note) VALUES ($1, $2, $3)`
)

var inserted = []any{"{{event.id}}", "{{body.rev}}", map[string]any{"entity": "{{event.entity}}"}}

func params(t testing.TB, values ...any) *template.Set {
	t.Helper()
	given := map[string]any{}
	if values != nil {
		given["values"] = values
	}
	set, err := template.NewSet(Params(), given, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (d *target) must(change func(*Config)) *Sink {
	d.t.Helper()
	cfg := Config{Database: new(schemas.NewSecret(d.url.String())), Statement: insert, Params: params(d.t, inserted...), AllowNetworks: loopback}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{Make: func(t testing.TB, s sinktest.Target) sink.Sink {
		d := newTarget(t)
		u := *d.url
		if password, _ := u.User.Password(); password == "any-password" {
			u.User = url.UserPassword(u.User.Username(), s.Secret)
		}
		return d.must(func(c *Config) {
			c.Database, c.Params = new(schemas.NewSecret(u.String())), params(t, "{{event.id}}", 1, "{{null}}")
		})
	}})
}

func TestExecutesOncePerKey(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	s := d.must(nil)
	a := sinktest.Action(7)
	for i, want := range []string{"INSERT 0 1", "done by an earlier attempt"} {
		a.Attempt = i + 1
		out, err := s.Do(t.Context(), a)
		if err != nil || string(out.Response) != want {
			t.Fatalf("attempt %d: %q, %v", i+1, out.Response, err)
		}
	}
	if got := one[string](d, `SELECT concat_ws(' ', event, rev, note->>'entity') FROM effects`); got != "delivery-7 7 orders/7" {
		t.Error(got)
	}
	if got := one[string](d, `SELECT concat_ws(' ', action_id, destination, done_at > now() - interval '1 minute') FROM forebay_actions`); got != string(a.ID)+" acme/agent t" {
		t.Error(got)
	}
	if s.Idempotency() != sink.Idempotent {
		t.Error(s.Idempotency())
	}
}

func TestValuesAreParametersOfAnyType(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	d.do(`CREATE TABLE kinds (a text, b bigint, c numeric, d boolean, e jsonb, f timestamptz, g text, h text[])`)
	a := sinktest.Action(1)
	const evil = `'); DROP TABLE kinds; --`
	a.Event.Data = []byte(`{"text":"` + evil + `","n":9007199254740993,"d":12.50,"yes":true,"list":[1,{"x":null}],"none":null,"empty":""}`)
	s := d.must(func(c *Config) {
		c.Statement = `INSERT INTO kinds VALUES ($1, $2, $3, $4, $5, $6, $7, ARRAY(SELECT jsonb_array_elements_text($5::jsonb)))`
		c.Params = params(t, "{{body.text}}", "{{body.n}}", "{{body.d}}", "{{body.yes}}", "{{body.list}}", "{{event.time}}", "{{body.none}}")
	})
	if _, err := s.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := one[string](d, `SELECT concat_ws('|', a, b, c, d, e, f AT TIME ZONE 'UTC', g IS NULL, h[1]) FROM kinds`)
	if want := evil + `|9007199254740993|12.5|t|[1, {"x": null}]|2026-03-01 10:00:00|t|1`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s = d.must(func(c *Config) {
		c.Statement, c.Params = `INSERT INTO kinds (a, g) VALUES ($1, $2)`, params(t, "{{body.empty}}", "n={{body.n}}")
	})
	a.ID = "another"
	if _, err := s.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := one[string](d, `SELECT concat_ws('|', a IS NOT NULL, g) FROM kinds WHERE a = ''`); got != "t|n=9007199254740993" {
		t.Error(got)
	}
}

// TestNULIsReplaced: a text and jsonb without NUL are written, where Postgres would refuse them with it; in the ledger's transaction, too.
func TestNULIsReplaced(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	a := sinktest.Action(1)
	a.Event.Data = []byte(`{"title":"a\u0000b","deep":[{"k\u0000":["\u0000x",null,7]}]}`)
	s := d.must(func(c *Config) {
		c.Statement, c.Params = `INSERT INTO effects (event, note) VALUES ($1, $2)`, params(t, "{{body.title}}", "{{body.deep}}")
	})
	if _, err := s.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got, want := one[string](d, `SELECT concat_ws('|', event, note) FROM effects`), "a\ufffdb|[{\"k\ufffd\": [\"\ufffdx\", null, 7]}]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// states are errors of statements, said here on their own, with what must follow.
var states = []struct {
	name, statement string
	values          []any
	class           sink.Class
}{
	{"no number", `INSERT INTO effects (event, rev) VALUES ('x', $1)`, []any{"many"}, sink.ClassRejected},
	{"a check", `INSERT INTO effects (event, rev) VALUES ('x', $1)`, []any{1000}, sink.ClassRejected},
	{"null", `INSERT INTO effects (event) VALUES ($1)`, []any{"{{null}}"}, sink.ClassRejected},
	{"division by zero", `SELECT 1 / $1::int`, []any{0}, sink.ClassRejected},
	{"a rule of the database's own", `DO $$ BEGIN RAISE EXCEPTION 'not on Sundays'; END $$`, nil, sink.ClassRejected},
	{"a constraint at the end", `INSERT INTO later VALUES (1), (1)`, nil, sink.ClassRejected},
	{"no table", `INSERT INTO nothing VALUES (1)`, nil, sink.ClassBusy},
	{"no syntax", `INSERT 1`, nil, sink.ClassBusy},
	{"too few values", `INSERT INTO effects (event, rev) VALUES ($1, $2)`, []any{"x"}, sink.ClassBusy},
	{"a lock that is not waited for", `SELECT event FROM locked FOR UPDATE NOWAIT`, nil, sink.ClassBusy},
	{"no permission", `SELECT pg_read_file('/etc/hostname')`, nil, sink.ClassDenied},
	{"too slow", `SELECT pg_sleep(60)`, nil, sink.ClassTimeout},
}

// readyForStates makes what the statements of states are about.
func readyForStates(d *target) {
	d.do(`CREATE TABLE later (n int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`)
	d.do(`CREATE TABLE locked (event text)`)
	d.do(`INSERT INTO locked VALUES ('x')`)
	holder, err := pgx.Connect(d.t.Context(), d.url.String())
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := holder.Exec(d.t.Context(), `BEGIN; SELECT event FROM locked FOR UPDATE`); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = holder.Close(context.Background()) })
}

// signed returns a statement by which timeFor knows it.
func (d *target) signed(statement string) string { return statement + " -- " + d.schema }

// timeFor returns the context of an attempt; where it is to time out, its time is over once the statement is at work.
func (d *target) timeFor(class sink.Class) context.Context {
	if class != sink.ClassTimeout {
		return d.t.Context()
	}
	ctx, end := context.WithCancelCause(d.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		const atWork = `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.02) WHERE state = 'active' AND query LIKE '%pg_sleep(60) -- ' || $1`
		for ctx.Err() == nil {
			if one[int](d, atWork, d.schema) > 0 {
				end(context.DeadlineExceeded)
			}
		}
	})
	d.t.Cleanup(wg.Wait)
	return ctx
}

// A statement that fails leaves no key, and its class says what follows.
func TestErrors(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	readyForStates(d)
	role := d.role()
	for _, tt := range states {
		s := d.must(func(c *Config) {
			c.Statement, c.Params = d.signed(tt.statement), params(t, tt.values...)
			u := *d.url
			u.User = url.UserPassword(role, rolePassword)
			c.Database = new(schemas.NewSecret(u.String()))
		})
		out, err := s.Do(d.timeFor(tt.class), sinktest.Action(1))
		if got := sink.ClassOf(err); got != tt.class || sink.Untouched(err) {
			t.Errorf("%s: class %q, want %q: %v", tt.name, got, tt.class, err)
		}
		wordsAreTheAnswer(t, tt.name, out, err)
		if n := one[int](d, `SELECT count(*) FROM forebay_actions`); n != 0 {
			t.Errorf("%s: %d keys", tt.name, n)
		}
	}
	for n := one[int](d, `SELECT 1`); n != 0; { // what nobody waits for any more has ended on the server, too
		n = one[int](d, `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.02) WHERE usename = $1 AND state = 'active'`, role)
	}
}

// values are what errors of states quote.
var values = map[string]string{"no number": "many", "a rule of the database's own": "not on Sundays", "a constraint at the end": "(n)=(1)", "a check": "1000"}

// wordsAreTheAnswer: an error quotes no value, which not everybody may see who may see errors; the answer does.
func wordsAreTheAnswer(t *testing.T, name string, out sink.Outcome, err error) {
	t.Helper()
	value, ok := values[name]
	if ok && (strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "SQLSTATE ") || !strings.Contains(string(out.Response), value)) {
		t.Errorf("%s: the error is %q, the answer %q", name, err, out.Response)
	}
}

// rolePassword is what roles of the tests have, for servers that ask.
const rolePassword = "of-a-role"

// role makes a role that may use the schema and nothing else.
func (d *target) role() string {
	role := d.schema + "_r"
	d.do(`CREATE ROLE ` + role + ` LOGIN PASSWORD '` + rolePassword + `'`)
	d.do(`GRANT ALL ON SCHEMA ` + d.schema + ` TO ` + role)
	d.do(`GRANT ALL ON ALL TABLES IN SCHEMA ` + d.schema + ` TO ` + role)
	d.t.Cleanup(func() {
		d.do(`DROP OWNED BY ` + role)
		d.do(`DROP ROLE ` + role)
	})
	return role
}

func TestSQLStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]sink.Class{
		"21000": sink.ClassRejected, "22P02": sink.ClassRejected, "23505": sink.ClassRejected, "27000": sink.ClassRejected,
		"44000": sink.ClassRejected, "54000": sink.ClassRejected, "P0001": sink.ClassRejected, "28P01": sink.ClassDenied,
		"42501": sink.ClassDenied, "57014": sink.ClassTimeout, "08006": sink.ClassNetwork, "08P01": sink.ClassBusy,
		"40001": sink.ClassBusy, "40P01": sink.ClassBusy, "53300": sink.ClassBusy, "55P03": sink.ClassBusy, "57P01": sink.ClassBusy,
		"25006": sink.ClassBusy, "42P01": sink.ClassBusy, "XX000": sink.ClassBusy, "": sink.ClassBusy,
	} {
		if got := classOf(state); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func TestTemplatesThatFail(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	for _, p := range []*template.Set{params(t, "{{body.nobody.here}}"), alone(t, "{{body.rev}}")} {
		_, err := d.must(func(c *Config) { c.Params = p }).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) {
			t.Error(err)
		}
	}
}

// alone is a parameter that is no list.
func alone(t *testing.T, value string) *template.Set {
	t.Helper()
	set, err := template.NewSet(Params(), map[string]any{"values": value}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestKeyTableIsMadeOnce(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	table := d.schema + ".done_by_forebay"
	var wg sync.WaitGroup
	for i := range 8 { // processes that begin at the same time
		s := d.must(func(c *Config) { c.KeyTable, c.MaxConns = table, 1 })
		wg.Go(func() {
			if _, err := s.Do(t.Context(), sinktest.Action(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := one[int](d, `SELECT count(*) FROM done_by_forebay`); n != 8 {
		t.Errorf("%d keys", n)
	}
}

// Without an index of its own the sweep of a table would read all of it.
func TestKeyTablesWithLongNamesHaveTheirIndexes(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	begin := strings.Repeat("k", 50)
	for i, name := range []string{"short", begin + "_of_one_team", begin + "_of_two_team", strings.Repeat("k", 63)} {
		s := d.must(func(c *Config) { c.KeyTable = d.schema + "." + name })
		if _, err := s.Do(t.Context(), sinktest.Action(i)); err != nil {
			t.Fatal(err)
		}
		if n := one[int](d, `SELECT count(*) FROM pg_indexes WHERE schemaname = '`+d.schema+`' AND tablename = '`+name+`' AND indexname LIKE '%_done_at'`); n != 1 {
			t.Errorf("%s has %d indexes on done_at", name, n)
		}
	}
}

func TestKeyTableThatMayNotBeMade(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	role := d.role()
	d.do(`REVOKE CREATE ON SCHEMA ` + d.schema + ` FROM ` + role)
	s := d.must(func(c *Config) {
		u := *d.url
		u.User = url.UserPassword(role, rolePassword)
		c.Database = new(schemas.NewSecret(u.String()))
	})
	_, err := s.Do(t.Context(), sinktest.Action(1))
	if sink.ClassOf(err) != sink.ClassDenied || !strings.Contains(err.Error(), "create it by hand: CREATE TABLE") {
		t.Fatal(err)
	}
	d.do(DDL(DefaultKeyTable)) // as it says
	d.do(`GRANT INSERT, SELECT ON forebay_actions TO ` + role)
	if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Error(err)
	}
}

// TestOldKeysAreForgotten: more keys grow old in an hour than one statement forgets, and all of them go without another hour's wait;
// what is not old stays, and what somebody else is at holds nobody up.
func TestOldKeysAreForgotten(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	now := time.Now()
	s := d.must(func(c *Config) {
		c.KeyRetention, c.Now = 48*time.Hour, func() time.Time { return now }
	})
	attempts := 0
	attempt := func() {
		t.Helper()
		attempts++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Do(ctx, sinktest.Action(attempts)); err != nil {
			t.Fatal(err)
		}
	}
	attempt()
	const old = 4*pruneBatch + 17
	d.do(`INSERT INTO forebay_actions SELECT 'old-' || n, 'acme/agent', now() - interval '49 hours' FROM generate_series(1, $1::int) n`, old)
	d.do(`INSERT INTO forebay_actions SELECT 'not-yet-' || n, 'acme/agent', now() - interval '47 hours' FROM generate_series(1, 3) n`)
	left := func() int { return one[int](d, `SELECT count(*) FROM forebay_actions WHERE action_id LIKE 'old-%'`) }
	if attempt(); left() != old {
		t.Errorf("%d of %d old keys are left before the hour is over", left(), old)
	}
	now = now.Add(61 * time.Minute)
	if attempt(); left() > old-pruneBatch {
		t.Errorf("%d of %d old keys are left after the first attempt behind it", left(), old)
	}
	for before := left(); before > 0; before = left() {
		if attempt(); left() >= before {
			t.Fatalf("%d old keys are left, and the next attempt forgets none", before)
		}
	}
	d.do(`INSERT INTO forebay_actions VALUES ('old-again', 'acme/agent', now() - interval '49 hours')`)
	if attempt(); left() != 1 {
		t.Error("old keys are looked for with every attempt")
	}
	if n := one[int](d, `SELECT count(*) FROM forebay_actions`); n != attempts+4 {
		t.Errorf("%d keys are left, want those of %d attempts, 3 that are not old, and the last", n, attempts)
	}
	now = now.Add(61 * time.Minute)
	d.do(`INSERT INTO forebay_actions VALUES ('old-free', 'acme/agent', now() - interval '49 hours')`)
	d.do(`BEGIN`)
	d.do(`SELECT FROM forebay_actions WHERE action_id = 'old-again' FOR UPDATE`)
	attempt()
	if n := left(); n != 1 {
		t.Errorf("%d old keys are left, want the one that somebody is at", n)
	}
	d.do(`COMMIT`)
}

// TestKeysThatCannotBeForgotten: what the server refuses to forget is asked of it once an hour, not with every attempt.
func TestKeysThatCannotBeForgotten(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	now := time.Now()
	s := d.must(func(c *Config) { c.Now = func() time.Time { return now } })
	n := 0
	attempts := func() {
		t.Helper()
		for range 5 {
			n++
			if _, err := s.Do(t.Context(), sinktest.Action(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	attempts() // makes the table
	// A sequence counts the refusals: nothing takes it back when the statement fails.
	d.do(`CREATE SEQUENCE refusals`)
	d.do(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM nextval('refusals'); RAISE insufficient_privilege USING MESSAGE = 'permission denied'; END $$`)
	d.do(`CREATE TRIGGER refuse BEFORE DELETE ON forebay_actions FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	refused := func() int { return one[int](d, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM refusals`) }
	for hour := 1; hour <= 2; hour++ {
		now = now.Add(61 * time.Minute)
		if attempts(); refused() != hour {
			t.Errorf("hour %d: %d refusals in all, want one an hour", hour, refused())
		}
	}
}

// A session that may only read, as one of before a failover, is not used again.
func TestReadOnlySessionIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	s := d.must(func(c *Config) { c.MaxConns = 1 })
	if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), sinktest.Action(2)); sink.ClassOf(err) != sink.ClassBusy {
		t.Errorf("where nothing can be written: %v", err)
	}
	if _, err := s.Do(t.Context(), sinktest.Action(2)); err != nil {
		t.Error(err)
	}
}

func TestACrashTakesNothingBack(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	s := d.must(func(c *Config) {
		u := *d.url
		q := u.Query()
		q.Set("synchronous_commit", "off")
		u.RawQuery = q.Encode()
		c.Database, c.Statement, c.Params = new(schemas.NewSecret(u.String())), `INSERT INTO effects (event) VALUES (current_setting('synchronous_commit'))`, params(t)
	})
	if _, err := s.Do(t.Context(), sinktest.Action(1)); err != nil {
		t.Fatal(err)
	}
	if got := one[string](d, `SELECT event FROM effects`); got != "on" {
		t.Errorf("synchronous_commit was %s", got)
	}
}

func TestGuardAndSecrets(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	const hush = "hush-hush-hush"
	with := func(change func(u *url.URL)) func(*Config) {
		return func(c *Config) {
			u := *d.url
			u.User = url.UserPassword("nobody-here", hush)
			change(&u)
			c.Database = new(schemas.NewSecret(u.String()))
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		class  sink.Class
	}{
		{"a role that is not there", with(func(*url.URL) {}), sink.ClassDenied},
		{"nobody listens", with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), sink.ClassNetwork},
		{"a network that is not listed", func(c *Config) { with(func(*url.URL) {})(c); c.AllowNetworks = nil }, sink.ClassForbidden},
		{"a socket of this machine", with(func(u *url.URL) { u.Host = ""; u.RawQuery = "host=/var/run/postgresql" }), sink.ClassForbidden},
	} {
		s := d.must(tt.change)
		_, err := s.Do(t.Context(), sinktest.Action(1))
		if got := sink.ClassOf(err); got != tt.class || !sink.Untouched(err) {
			t.Errorf("%s: class %q, want %q: %v", tt.name, got, tt.class, err)
		}
		check := s.Check(t.Context())
		if sink.ClassOf(check) != tt.class {
			t.Errorf("%s: check: %v", tt.name, check)
		}
		for _, text := range []string{fmt.Sprint(err), fmt.Sprint(check), fmt.Sprintf("%v %+v %#v", s, s, s)} {
			if strings.Contains(text, hush) {
				t.Errorf("%s: shows the password: %s", tt.name, text)
			}
		}
	}
	if err := d.must(nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := Config{Database: new(schemas.NewSecret("postgres://u:hush-hush@db.example/x")), Statement: "SELECT 1", Params: params(t)}
	for name, change := range map[string]func(*Config){
		"no database":  func(c *Config) { c.Database = nil },
		"no url":       func(c *Config) { c.Database = new(schemas.NewSecret("postgres://u:hush-hush@db.example:port/x")) },
		"no statement": func(c *Config) { c.Statement = " " },
		"no params":    func(c *Config) { c.Params = nil },
		"key table":    func(c *Config) { c.KeyTable = `x"; DROP TABLE y; --` },
		"three dots":   func(c *Config) { c.KeyTable = "a.b.c" },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		if schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close(t.Context())
	if _, err := NewInLedger("", params(t)); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("no statement: %v", err)
	}
}

// behind points a sink at the target through a proxy.
func (d *target) behind(p *pgtest.Proxy) func(*Config) {
	return func(c *Config) {
		u := *d.url
		u.Host = p.Addr().String()
		q := u.Query()
		q.Set("sslmode", "disable")
		u.RawQuery = q.Encode()
		c.Database = new(schemas.NewSecret(u.String()))
	}
}

// The connection breaks before or after each statement of the transaction, COMMIT among them, and the process may end
// with it. The next attempt finds the statement in effect with its key, or neither.
func TestCutAnywhereActsOnce(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	p := pgtest.NewProxy(t, d.url.Host)
	n, places := 0, map[string]int{}
	for _, killed := range []bool{false, true} {
		for _, before := range []bool{true, false} {
			s := d.must(d.behind(p))
			if _, err := s.Do(t.Context(), sinktest.Action(n)); err != nil { // connected, and the table of keys is there
				t.Fatal(err)
			}
			for skip := 0; ; skip++ {
				n++
				a, at := sinktest.Action(n), int(p.Cuts.Load())
				p.Cut.Store(&pgtest.Cut{Skip: skip, Before: before})
				_, err := s.Do(t.Context(), a)
				if int(p.Cuts.Load()) == at {
					p.Cut.Store(nil)
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				where := fmt.Sprintf("statement %d, before %v, killed %v", skip, before, killed)
				places[fmt.Sprint(before)]++
				effects, keys := d.effects(a), one[int](d, `SELECT count(*) FROM forebay_actions WHERE action_id = $1`, a.ID)
				if effects != keys || effects > 1 {
					t.Fatalf("%s: %d effects, %d keys", where, effects, keys)
				}
				if err == nil && effects == 0 {
					t.Fatalf("%s: said to be done and is not", where)
				}
				if err != nil && sink.ClassOf(err) != sink.ClassNetwork {
					t.Errorf("%s: class %q", where, sink.ClassOf(err))
				}
				if effects == 1 && sink.Untouched(err) {
					t.Errorf("%s: said to be untouched and is not", where)
				}
				if killed {
					s = d.must(d.behind(p))
				}
				a.Attempt++
				if _, err := s.Do(t.Context(), a); err != nil {
					t.Fatalf("%s: again: %v", where, err)
				}
				if got := d.effects(a); got != 1 {
					t.Fatalf("%s: in the end %d effects", where, got)
				}
			}
		}
	}
	// BEGIN, the session, the key, the statement, COMMIT
	if diff := cmp.Diff(map[string]int{"true": 10, "false": 10}, places); diff != "" {
		t.Errorf("places that were cut:\n%s", diff)
	}
}

// The server, or a pooler before it, ends the session behind the COMMIT: what it has said stands, and what nobody has heard the next attempt finds.
func TestASessionEndsBehindTheCommit(t *testing.T) {
	t.Parallel()
	d := newTarget(t)
	p := pgtest.NewProxy(t, d.url.Host)
	s := d.must(d.behind(p))
	d.do(DDL(DefaultKeyTable))
	for i, cut := range []pgtest.Cut{{Fatal: "57P01", Told: true}, {Fatal: "08P01"}} {
		cut.Needle = []byte("COMMIT\x00")
		p.Cut.Store(&cut)
		a := sinktest.Action(i)
		if out, err := s.Do(t.Context(), a); cut.Told && (string(out.Response) != "INSERT 0 1" || err != nil) || !cut.Told && (err == nil || sink.Untouched(err)) {
			t.Errorf("%s: %q, %v", cut.Fatal, out.Response, err)
		}
		a.Attempt++
		if out, err := s.Do(t.Context(), a); string(out.Response) != "done by an earlier attempt" || err != nil || d.effects(a) != 1 {
			t.Errorf("%s, again: %q, %v, %d effects", cut.Fatal, out.Response, err, d.effects(a))
		}
	}
}

// A transaction in doubt may still be on its way when the action is attempted again: the second one waits for it.
func TestWaitsForTheOneInDoubt(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			d := newTarget(t)
			s, a := d.must(nil), sinktest.Action(1)
			d.do(DDL(DefaultKeyTable))
			first, err := pgx.Connect(t.Context(), d.url.String())
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close(context.Background())
			for _, sql := range []string{
				"BEGIN", "INSERT INTO forebay_actions VALUES ('" + string(a.ID) + "', 'acme/agent')", "INSERT INTO effects (event) VALUES ('" + a.Event.ID + "')",
			} {
				if _, err := first.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			second := make(chan error, 1)
			go func() {
				_, err := s.Do(t.Context(), a)
				second <- err
			}()
			for one[int](d, `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01) WHERE $1 = ANY (pg_blocking_pids(pid))`, int(first.PgConn().PID())) == 0 {
				select {
				case err := <-second:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
			}
			if _, err := first.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			if err := <-second; err != nil || d.effects(a) != 1 {
				t.Errorf("%v, %d effects", err, d.effects(a))
			}
		})
	}
}
