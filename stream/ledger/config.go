package ledger

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Config opens a ledger.
type Config struct {
	// URL is a Postgres connection URL or key=value string. It never appears in an error or a log.
	URL schemas.Secret
	// Key says where the URL is configured, for messages; default "postgres.url".
	Key string
	// Now returns URL as it is now, which leads to the same place and may name another user and password: new connections log in as it says, and
	// those that are open stay as they are. Nil: as URL says. The files that it names are read for each connection.
	Now func() (schemas.Secret, error)
	// Schema is the Postgres schema; default "forebay".
	Schema string
	// MaxConns bounds the pool of the hot path; default 8. Beside it and StatementConns at most ten are made: four for what
	// operators look at and ask, four for what must not wait behind them, one for sweeps, one that listens for commands.
	MaxConns int32
	// StatementConns bounds the pool of the statements of actions (Commit); default 4. More calls at once wait for a connection, in
	// the time of their contexts: set it to how many may run at once.
	StatementConns int32
	// TxTimeout is how long a transaction may take, and how long an answer of the server is waited for; default 20 s. The
	// session's own timeouts follow from it. A batch that takes longer is written in parts.
	TxTimeout time.Duration
	// May is asked before each connection for the address that it leads to, as the Control of a net.Dialer is; an error refuses it. Nil: any.
	May func(network, address string) error
	// Logger gets one line per retry, quarantine and rotation; default discards.
	Logger *slog.Logger
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = "forebay"
	}
	if c.Key == "" {
		c.Key = "postgres.url"
	}
	if c.MaxConns == 0 {
		c.MaxConns = 8
	}
	if c.StatementConns == 0 {
		c.StatementConns = 4
	}
	if c.TxTimeout == 0 {
		c.TxTimeout = 20 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	const op = "open the ledger"
	if c.URL.IsZero() {
		return schemas.Errorf(schemas.Invalid, op, "postgres url is missing")
	}
	if !schemaName.MatchString(c.Schema) {
		return schemas.Errorf(schemas.Invalid, op, "schema %q is not a plain lower-case name of at most 40 characters", c.Schema)
	}
	if c.MaxConns < 1 || c.MaxConns > 1000 {
		return schemas.Errorf(schemas.Invalid, op, "max conns %d is not in 1..1000", c.MaxConns)
	}
	if c.StatementConns < 1 || c.StatementConns > 1000 {
		return schemas.Errorf(schemas.Invalid, op, "statement conns %d is not in 1..1000", c.StatementConns)
	}
	if c.TxTimeout < 100*time.Millisecond || c.TxTimeout > time.Hour {
		return schemas.Errorf(schemas.Invalid, op, "transaction timeout %s is not in 100ms..1h", c.TxTimeout)
	}
	if _, err := pgconn.ParseConfig(c.URL.Reveal()); err != nil {
		// pgx repeats the URL, with the password cut out where it can be found: where it cannot, all of it would leak.
		return schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	return nil
}

// settings returns the settings of a pool's sessions.
//
// With hot, those of the hot path: its statements join arrays with indexed tables and nothing else, so their one right plan is a
// nested loop over an index. Without these settings the plan would depend on the statistics at the moment when the generic plan is
// made, and a plan made on empty tables would read them from end to end ever after (5,000/s). Forcing the generic plan
// saves planning on every execution (half the rate at batch 500).
func (c Config) settings(hot bool) map[string]string {
	s := map[string]string{
		"search_path":                   pgx.Identifier{c.Schema}.Sanitize(),
		"application_name":              "forebay",
		"timezone":                      "UTC",
		"jit":                           "off",
		"default_transaction_isolation": "read committed",
	}
	maps.Copy(s, pg.Deadlines{Tx: c.TxTimeout}.Settings())
	if !hot {
		return s
	}
	s["plan_cache_mode"], s["max_parallel_workers_per_gather"] = "force_generic_plan", "0"
	// What counts is how many rows are looked at: with these costs a probe by key wins from the second row on.
	s["random_page_cost"], s["seq_page_cost"], s["cpu_operator_cost"], s["cpu_tuple_cost"] = "0.0001", "0.0001", "0.0001", "1"
	for _, method := range []string{"seqscan", "bitmapscan", "hashjoin", "mergejoin", "material", "memoize"} {
		s["enable_"+method] = "off"
	}
	return s
}

// pools makes the pools. A statement of a slow one may read much, and nothing that runs waits for it; one of a probe is by key, and somebody
// waits for it.
func (l *Ledger) pools(ctx context.Context) (err error) {
	tx := l.cfg.TxTimeout
	within := func(limit time.Duration, also map[string]string) map[string]string {
		settings := l.cfg.settings(false)
		settings["statement_timeout"] = pg.Milliseconds(limit)
		maps.Copy(settings, also)
		return settings
	}
	slow, probe := tx*5/4, tx/4
	sinks := l.cfg.settings(false)
	sinks["plan_cache_mode"] = "force_custom_plan"
	for _, p := range []struct {
		pool     **Pool
		settings map[string]string
		conns    int32
		limit    time.Duration
	}{
		{&l.hot, l.cfg.settings(true), l.cfg.MaxConns, tx},
		// For operators' lists and counts: a filter that finds little reads much. Of a table without statistics, as a new window is, Postgres
		// takes any range of time for so large that it reads all of the table. What people look at gets no workers of its own beside the
		// batches: a page of the newest events among 60,000/s took 35 ms with two of them.
		{&l.read, within(slow, map[string]string{"enable_seqscan": "off", "max_parallel_workers_per_gather": "0"}), 2, tx * 7 / 5},
		// For what sweeps find out and delete, one statement after another: windows are dropped whatever operators list meanwhile, and no list
		// waits for a sweep.
		{&l.sweep, within(slow, nil), 1, tx * 7 / 5},
		// For what operators look at and ask by key, their sessions among it. Its client waits for longer than any of them does: that they queue
		// for a connection must not be taken for a server that hangs, which costs what runs its idle connections.
		{&l.look, within(probe, nil), 2, tx * 7 / 5},
		// For probes by key of what runs, and for what is read every second.
		{&l.quick, within(probe, nil), 4, tx / 2},
		// For the statements of sinks, beside some of ours: each is planned when it is executed. A sink's statement has its own time limit,
		// see Commit.
		{&l.sinkConns, sinks, l.cfg.StatementConns, tx},
	} {
		if *p.pool, err = l.pool(ctx, p.settings, p.conns, p.limit); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) pool(ctx context.Context, settings map[string]string, conns int32, within time.Duration) (*Pool, error) {
	p, err := l.db.Pool(ctx, settings, conns, within)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: "open the ledger", Err: err}
	}
	return p, nil
}
