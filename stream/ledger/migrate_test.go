package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

func TestMigrateIsIdempotentAndConcurrent(t *testing.T) {
	t.Parallel()
	cfg := emptySchema(t)
	var (
		g       errgroup.Group
		applied [4][]string
	)
	for i := range applied {
		g.Go(func() (err error) {
			applied[i], err = Migrate(t.Context(), cfg)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, a := range applied {
		total += len(a)
	}
	files, err := os.ReadDir("internal/migrate/migrations")
	if err != nil {
		t.Fatal(err)
	}
	if total != len(files) {
		t.Errorf("applied %v", applied)
	}
	open(t, cfg)
}

// A migration that waits with a running transaction for each other's locks is tried again, and told of.
func TestMigrateBesideADeadlock(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	again := make(chan struct{}, 100)
	cfg.Logger = slog.New(slog.NewTextHandler(tells(again), nil))
	conn, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	exec := func(sql string) (err error) {
		_, err = conn.Exec(t.Context(), `SET search_path = `+cfg.Schema+`; `+sql)
		return err
	}
	for told := false; !told; { // Postgres ends whose wait is the longer one, or the test's own
		if err := exec(`DROP INDEX IF EXISTS buffer_parked, buffer_parked_keys; DROP TABLE IF EXISTS moves; ALTER TABLE approvals DROP COLUMN IF EXISTS closed_at, DROP COLUMN IF EXISTS made; ALTER TABLE subscriptions DROP COLUMN IF EXISTS move_began; ALTER TABLE replays DROP COLUMN IF EXISTS was; ALTER TABLE alerts_told DROP COLUMN IF EXISTS ended_at; DELETE FROM migrations WHERE version_id >= 2`); err != nil {
			t.Fatal(err)
		}
		if err := exec(`BEGIN; LOCK TABLE migrations IN SHARE MODE`); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := Migrate(t.Context(), cfg)
			ended <- err
		}()
		for waits := false; !waits; { // it has made its table, and is to note that
			if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass)`, cfg.Schema+".migrations").Scan(&waits); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				t.Fatal("it has ended before: ", err)
			default:
			}
		}
		refused := exec(`CREATE TABLE moves ()`)
		if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil { // alone: what Postgres has ended takes nothing else
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		select {
		case <-again:
			told = true
		default:
			t.Log("the other one was ended:", refused)
		}
	}
	open(t, cfg)
}

// A migration that waits for a long transaction, such as a pg_dump's, keeps nobody else from the table, and goes on once that has ended.
func TestMigrateBesideALongTransaction(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	if _, err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	session := func(sql string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
		if _, err := conn.Exec(t.Context(), `SET search_path = `+cfg.Schema+`; `+sql); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	session(`DROP INDEX IF EXISTS buffer_parked, buffer_parked_keys; ALTER TABLE approvals DROP COLUMN made; ALTER TABLE subscriptions DROP COLUMN move_began; ALTER TABLE replays DROP COLUMN was; ALTER TABLE alerts_told DROP COLUMN ended_at; DELETE FROM migrations WHERE version_id >= 5`)
	long := session(`BEGIN; SELECT FROM approvals`)
	ended := make(chan error, 1)
	go func() {
		_, err := Migrate(t.Context(), cfg)
		ended <- err
	}()
	other := session(`SET lock_timeout = '30s'`)
	for waits := false; !waits; {
		if err := other.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'approvals'::regclass)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatal("it has ended before: ", err)
		default:
		}
	}
	if _, err := other.Exec(t.Context(), `SELECT FROM approvals`); err != nil {
		t.Error("a query behind the migration: ", err)
	}
	if _, err := long.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	open(t, cfg)
}

// tells is a log that says when it has a line.
type tells chan<- struct{}

func (c tells) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "trying again") {
		c <- struct{}{}
	}
	return len(b), nil
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	missing := emptySchema(t)
	behind, ahead := schemaFor(t), schemaFor(t)
	admin(t, behind.URL.Reveal(), `DELETE FROM `+behind.Schema+`.migrations WHERE version_id > 0`)
	admin(t, ahead.URL.Reveal(), `INSERT INTO `+ahead.Schema+`.migrations (version_id, is_applied) VALUES (9999, true)`)
	newer := func(cfg Config, version, serves int) { // as a newer binary's migrate leaves it
		admin(t, cfg.URL.Reveal(), `INSERT INTO `+cfg.Schema+`.migrations (version_id, is_applied) VALUES ($1, true)`, version)
		admin(t, cfg.URL.Reveal(), `INSERT INTO `+cfg.Schema+`.migration_files VALUES ($1, 'newer', $2)`, version, serves)
	}
	ours, err := os.ReadDir("internal/migrate/migrations")
	if err != nil {
		t.Fatal(err)
	}
	last := len(ours)
	expanded, contracted := schemaFor(t), schemaFor(t)
	newer(expanded, last+1, last)
	newer(expanded, last+2, last)
	open(t, expanded)
	if ran, err := Migrate(t.Context(), expanded); err != nil || len(ran) > 0 {
		t.Errorf("migrate of a binary that is older than the ledger: %q %v", ran, err)
	}
	newer(contracted, last+1, last+1)
	newer(contracted, last+2, last)            // one that serves this binary does not bring back what another has taken away
	old, changed := schemaFor(t), schemaFor(t) // of builds before a release: with 17 migrations, and with another first one
	admin(t, old.URL.Reveal(), `INSERT INTO `+old.Schema+`.migrations (version_id, is_applied) SELECT v, true FROM generate_series($1::int, 17) v`, last+1)
	admin(t, old.URL.Reveal(), `DROP TABLE `+old.Schema+`.migration_files`)
	admin(t, changed.URL.Reveal(), `UPDATE `+changed.Schema+`.migration_files SET sum = 'another'`)
	lazy := schemaFor(t)
	lazy.URL = withParam(t, lazy, "synchronous_commit", "off")
	local, written := lazy, lazy
	local.URL = withParam(t, local, "synchronous_commit", "local")
	written.URL = withParam(t, written, "synchronous_commit", "remote_write")
	applied := lazy
	applied.URL = withParam(t, applied, "synchronous_commit", "remote_apply")
	open(t, applied)
	secret := lazy
	secret.URL = schemas.NewSecret("postgres://hidden:hunter2@127.0.0.1:1/hidden")
	malformed := secret
	malformed.URL = schemas.NewSecret("postgres://hidden:hun%zzter2@host:abc/x")
	tests := map[string]struct {
		cfg  Config
		kind schemas.Kind
		text string
	}{
		"no schema":            {missing, schemas.NotFound, "forebay migrate"},
		"behind":               {behind, schemas.Conflict, "forebay migrate"},
		"ahead":                {ahead, schemas.Conflict, "ahead of this binary"},
		"contracted":           {contracted, schemas.Conflict, "ahead of this binary"},
		"an older build's":     {old, schemas.Conflict, "write postgres: {schema: NAME}"},
		"another build's":      {changed, schemas.Conflict, "was made by another build from before a release"},
		"synchronous_commit":   {lazy, schemas.Invalid, "synchronous_commit is off"},
		"no standby":           {local, schemas.Invalid, "synchronous_commit is local: a failover would forget"},
		"a standby's memory":   {written, schemas.Invalid, "synchronous_commit is remote_write: a standby that crashes"},
		"no time":              {Config{URL: secret.URL, TxTimeout: time.Millisecond}, schemas.Invalid, "transaction timeout"},
		"unreachable":          {secret, schemas.Unavailable, "connect to postgres at 127.0.0.1:1: connection refused"},
		"malformed url":        {malformed, schemas.Invalid, "cannot be parsed"},
		"no url":               {Config{}, schemas.Invalid, "url is missing"},
		"schema name":          {Config{URL: secret.URL, Schema: `a"; DROP`}, schemas.Invalid, "plain lower-case name"},
		"too many connections": {Config{URL: secret.URL, MaxConns: -1}, schemas.Invalid, "max conns"},
		"too many statements":  {Config{URL: secret.URL, StatementConns: 1001}, schemas.Invalid, "statement conns"},
	}
	for name, tt := range tests {
		l, err := Open(t.Context(), tt.cfg)
		if err == nil {
			l.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if schemas.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
		for _, leak := range []string{"hidden", "hunter2", "zzter2"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s: the error gives away %q: %v", name, leak, err)
			}
		}
		_, err = Migrate(t.Context(), tt.cfg)
		if strings.Contains(name, "build's") && (schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("migrate %s: %v", name, err)
		}
		if name == "unreachable" && (err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hidden")) {
			t.Errorf("migrate %s: %v", name, err)
		}
	}
}

// withParam is the config's URL with one more parameter.
func withParam(t *testing.T, cfg Config, key, value string) schemas.Secret {
	t.Helper()
	u, err := url.Parse(cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return schemas.NewSecret(u.String())
}

func TestNamespaceIsFoundAgainAndRefusesNonsense(t *testing.T) {
	t.Parallel()
	f := setup(t)
	again := f.namespace(func(s *Spec) { s.Window *= 2 })
	if again.id != f.n.id || again.effects[0] != f.n.effects[0] {
		t.Errorf("%d %v, %d %v", again.id, again.effects, f.n.id, f.n.effects)
	}
	if replay := f.namespace(func(s *Spec) { s.Generation = 1 }); replay.id == f.n.id {
		t.Error("a generation is not its own namespace")
	}
	if got := one[string](f, `SELECT string_agg(dedupe::text, ' ' ORDER BY id) FROM subscriptions`); got != "48:00:00 24:00:00" {
		t.Error(got)
	}
	for name, s := range map[string]Spec{
		"no name": {}, "negative window": {Name: "a.b", Window: -1}, "on_dead": {Name: "a.b", Actions: []ActionSpec{{Name: "x", Destination: "y"}}},
		"twice": {Name: "a.b", Actions: append(oneAction(), oneAction()...)}, "negative generation": {Name: "a.b", Generation: -1},
	} {
		if _, err := f.l.Namespace(t.Context(), s); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if err := f.l.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	// What may only read is no ledger, and is one again once that is over: what a session began with says nothing of that.
	if _, err := f.l.quick.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if err := f.l.Ping(t.Context()); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "default_transaction_read_only") {
		t.Errorf("where nothing can be written: %v", err)
	}
	if err := f.l.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A server that is too old is told before anything is written. PostgreSQL 12 itself was tried by hand: without the check, the migrations
// run on it, and nothing that comes after does.
func TestOldServer(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	cfg.Key = "teams.acme.subscriptions.triage.postgres.url"
	to, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if err := checkServer(t.Context(), cfg.withDefaults(), "migrate the ledger", minServer); err != nil {
		t.Errorf("this one: %v", err)
	}
	err = checkServer(t.Context(), cfg.withDefaults(), "migrate the ledger", 99*10_000)
	if schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), fmt.Sprintf("the server %s:%d, of teams.acme.subscriptions.triage.postgres.url, is PostgreSQL ", to.Host, to.Port)) ||
		!strings.Contains(err.Error(), ", and 99 is the oldest that works: upgrade it, or name another one") {
		t.Errorf("one from before 99: %v", err)
	}
}

// What is said of a server that is too old names each that it may be, and the port of an IPv6 address can be told from it.
func TestHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"postgres://u:p@db.example/forebay":                       {"db.example:5432"},
		"postgres://u:p@[2001:db8::1]:6432/forebay":               {"[2001:db8::1]:6432"},
		"postgres://u:p@a.example:1,b.example:2/x?sslmode=prefer": {"a.example:1", "b.example:2"},
		"postgres://u:p@a.example:port/forebay":                   nil,
	} {
		if got := (Config{URL: schemas.NewSecret(url)}).hosts(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
