package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config opens a ledger.
type Config struct {
	// URL is a Postgres connection URL or key=value string. It never appears in an error or a log.
	URL schemas.Secret
	// Schema is the Postgres schema; default "forebay".
	Schema string
	// MaxConns bounds the pool of the hot path; default 8. Beside it and StatementConns at most seven are made: two for what
	// people ask, four for what must not wait behind that, one that listens for commands.
	MaxConns int32
	// StatementConns bounds the pool of the statements of actions (Commit); default 4. More at once wait for each other, in
	// the time of their contexts: it is to be as many as there may be.
	StatementConns int32
	// Logger gets one line per retry, quarantine and rotation; default discards.
	Logger *slog.Logger
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = "forebay"
	}
	if c.MaxConns == 0 {
		c.MaxConns = 8
	}
	if c.StatementConns == 0 {
		c.StatementConns = 4
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
	if _, err := pgconn.ParseConfig(c.URL.Reveal()); err != nil {
		// pgx repeats the URL, with the password cut out where it can be found: where it cannot, all of it would leak.
		return schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	return nil
}

// idleInTransaction bounds how long a batch whose client has vanished keeps its locks: a claim waits for it.
const idleInTransaction = 30 * time.Second

// settings are the session's, by kind of pool.
//
// hot: the statements of the hot path join arrays with indexed tables and nothing else, so their one right plan is a
// nested loop over an index. Without these settings it depends on statistics at the moment when the generic plan is
// made, and a plan made on empty tables reads them from end to end ever after (5,000/s). Forcing the generic plan
// saves planning on every execution (half the rate at batch 500).
func (c Config) settings(hot bool) map[string]string {
	s := map[string]string{
		"search_path":                         pgx.Identifier{c.Schema}.Sanitize(),
		"application_name":                    "forebay",
		"timezone":                            "UTC",
		"jit":                                 "off",
		"idle_in_transaction_session_timeout": strconv.FormatInt(idleInTransaction.Milliseconds(), 10),
		"default_transaction_isolation":       "read committed",
	}
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

func (c Config) hotPool(ctx context.Context) (*pgxpool.Pool, error) {
	return c.poolOf(ctx, c.settings(true), c.MaxConns)
}

// readPool is for what people ask: a filter that finds little reads much.
func (c Config) readPool(ctx context.Context) (*pgxpool.Pool, error) {
	return c.poolWithin(ctx, 30*time.Second, 2)
}

// quickPool is for probes by key that somebody waits for, or that are read every second.
func (c Config) quickPool(ctx context.Context) (*pgxpool.Pool, error) {
	return c.poolWithin(ctx, 5*time.Second, 4)
}

// joinedPool is for statements of others, beside some of ours: planned as they come, and for as long as they may take.
func (c Config) joinedPool(ctx context.Context) (*pgxpool.Pool, error) {
	settings := c.settings(false)
	settings["plan_cache_mode"] = "force_custom_plan"
	return c.poolOf(ctx, settings, c.StatementConns)
}

func (c Config) poolWithin(ctx context.Context, statement time.Duration, conns int32) (*pgxpool.Pool, error) {
	settings := c.settings(false)
	settings["statement_timeout"] = strconv.FormatInt(statement.Milliseconds(), 10)
	return c.poolOf(ctx, settings, conns)
}

func (c Config) poolOf(ctx context.Context, settings map[string]string, conns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(c.URL.Reveal())
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "open the ledger", "postgres url cannot be parsed")
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	cfg.MaxConns = conns
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// redact turns an error of connecting into one without user, host and password: those are the URL.
func redact(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[redactedError](err); ok {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg
	}
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return redactedError{fmt.Sprintf("connect to postgres: %s", cause(connect)), err}
	}
	return err
}

// redactedError says text and still is err for errors.Is and errors.As.
type redactedError struct {
	text string
	err  error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.err }

// cause is the innermost error's text, which names no credentials.
func cause(err error) string {
	for {
		switch e := err.(type) { //nolint:errorlint // it is what walks the chain
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err.Error()
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			list := e.Unwrap()
			if len(list) == 0 {
				return "unreachable"
			}
			err = list[len(list)-1]
		default:
			return err.Error()
		}
	}
}
