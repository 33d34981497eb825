package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"hash/fnv"
	"io/fs"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const migrationTable = "migrations"

// Migrate brings the schema to this binary's version under a session lock and says what it applied. It creates the
// Postgres schema. Calls may overlap: the later ones wait and find nothing to do.
func Migrate(ctx context.Context, cfg Config) (applied []string, err error) {
	const op = "migrate the ledger"
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	conn, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	for _, name := range []string{"search_path", "application_name", "timezone"} {
		conn.RuntimeParams[name] = cfg.settings(false)[name]
	}
	db := stdlib.OpenDB(*conn)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := createSchema(ctx, db, cfg.Schema); err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	if err := prepareSums(ctx, conn, cfg.Schema, op); err != nil {
		return nil, err
	}
	provider, err := newProvider(db, cfg)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	results, err := provider.Up(ctx)
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	if err != nil {
		return applied, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return applied, nil
}

// prepareSums refuses the ledger of another build, and keeps the sums of what is to be run.
func prepareSums(ctx context.Context, cfg *pgx.ConnConfig, schema, op string) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	have, want, _, err := checkMigrations(ctx, conn, schema, op)
	if err != nil || have > want {
		return err
	}
	return keepSums(ctx, conn, op)
}

// newProvider returns what runs the migrations of a schema, under a lock of that schema.
func newProvider(db *sql.DB, cfg Config) (*goose.Provider, error) {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	// The lock is the schema's, so that ledgers that share a database do not wait for each other.
	h := fnv.New64a()
	h.Write([]byte("forebay/" + cfg.Schema))
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(h.Sum64()>>1)), lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithSessionLocker(locker),
		goose.WithTableName(migrationTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(cfg.Logger))
}

// createSchema tolerates its twin: IF NOT EXISTS looks before it leaps.
func createSchema(ctx context.Context, db *sql.DB, schema string) error {
	_, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && (answer.Code == "23505" || answer.Code == "42P06") {
		return nil
	}
	return err
}
