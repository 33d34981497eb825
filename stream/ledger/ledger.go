package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ledger is a pool on one ledger database. Safe for concurrent use.
type Ledger struct {
	cfg   Config
	hot   *pgxpool.Pool // batches, claims, results: generic plans over indexes
	read  *pgxpool.Pool // people's questions: planned as they come
	quick *pgxpool.Pool // what agents say, commands, pauses, exports, readiness: short, and never behind people's questions
	// joined runs what actions do in this database; no connection is made before the first of them.
	joined *pgxpool.Pool

	claiming chan struct{} // one token per claim that may hold a connection of hot; never closed
	walking  chan struct{} // one per walk over a partition that Overtaken may be at, each on a connection of hot; never closed

	listeners listeners

	behindWalk int           // events; see the constant
	walkWithin time.Duration // overtakenWithin
}

// minServer is the oldest Postgres whose features are used (server_version_num).
const minServer = 140000

// Open connects and refuses a database whose migrations are behind or ahead of this binary, naming `forebay migrate`,
// one whose session has synchronous_commit off, and one older than PostgreSQL 14.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Ledger{cfg: cfg, claiming: make(chan struct{}, max(1, cfg.MaxConns/2)), walking: make(chan struct{}, max(1, min(2, cfg.MaxConns/4))), behindWalk: behindWalk, walkWithin: overtakenWithin}
	var err error
	for _, p := range []struct {
		pool **pgxpool.Pool
		make func(context.Context) (*pgxpool.Pool, error)
	}{{&l.hot, cfg.hotPool}, {&l.read, cfg.readPool}, {&l.quick, cfg.quickPool}, {&l.joined, cfg.joinedPool}} {
		if *p.pool, err = p.make(ctx); err != nil {
			l.Close()
			return nil, err
		}
	}
	if err := l.check(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close releases the pools. It waits for what is in flight.
func (l *Ledger) Close() {
	for _, pool := range []*pgxpool.Pool{l.hot, l.read, l.quick, l.joined} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Ping reports whether the database answers and may be written, for readiness.
func (l *Ledger) Ping(ctx context.Context) error {
	var readOnly bool
	err := l.quick.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&readOnly)
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "ping the ledger", Err: redact(err)}
	}
	if readOnly {
		return schemas.Errorf(schemas.Unavailable, "ping the ledger", "postgres is a standby and cannot be written")
	}
	return nil
}

func (l *Ledger) check(ctx context.Context) error {
	const op = "open the ledger"
	var (
		server       int
		commit, sync string
	)
	// The role's and database's settings are in force here: they are what the hot path's sessions get.
	err := l.hot.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('synchronous_commit'),
		current_setting('fsync')`).Scan(&server, &commit, &sync)
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	switch {
	case server < minServer:
		return schemas.Errorf(schemas.Invalid, op, "postgres %d is too old: 14 is the oldest that works", server/10000)
	case commit == "off":
		return schemas.Errorf(schemas.Invalid, op,
			"synchronous_commit is off: a crash would forget what was acknowledged; set it on (ALTER ROLE ... SET, ALTER DATABASE ... SET, or postgresql.conf)")
	case sync == "off":
		return schemas.Errorf(schemas.Invalid, op, "fsync is off: a crash would corrupt the ledger; set it on in postgresql.conf")
	}
	return l.checkMigrations(ctx)
}

func (l *Ledger) checkMigrations(ctx context.Context) error {
	const op = "open the ledger"
	want, err := latestMigration()
	if err != nil {
		return &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	var have int64
	err = l.quick.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+migrationTable+` WHERE is_applied`).Scan(&have)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" {
		return schemas.Errorf(schemas.NotFound, op, "schema %q has no ledger: run `forebay migrate -c FILE`", l.cfg.Schema)
	}
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	switch {
	case have < want:
		return schemas.Errorf(schemas.Conflict, op,
			"schema %q is at migration %d and this binary needs %d: run `forebay migrate -c FILE`", l.cfg.Schema, have, want)
	case have > want:
		return schemas.Errorf(schemas.Conflict, op,
			"schema %q is at migration %d, ahead of this binary's %d: run the newer forebay (`forebay migrate` of that version was here)", l.cfg.Schema, have, want)
	}
	return nil
}
