// Package migrate brings a schema to this binary's version of the ledger, and tells the ledger of another build from one that is older or
// newer. It knows the schema by its files and nothing of what is in the tables.
package migrate

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

const (
	table    = "migrations"
	deadlock = "40P01"
	// tries are deadlocks with transactions of running processes, and locks that were waited for: each leaves nothing of a migration.
	tries = 20
	// lockWait is the longest wait for a lock, in milliseconds: whoever wants the table meanwhile waits behind it, which is for as long as a
	// pg_dump takes, or somebody's open transaction.
	lockWait = "2000"
)

// Up brings a schema to this binary's version under a session lock and returns the files that it ran. It creates the schema, which is
// first in conn's search_path. Calls may overlap: the later ones wait and find nothing to do. op is what errors say was tried.
func Up(ctx context.Context, conn *pgx.ConnConfig, schema, op string, log *slog.Logger) (ran []string, err error) {
	own := conn.Copy()
	pg.Set(&own.Config, map[string]string{"lock_timeout": lockWait, "statement_timeout": "0"}) // whatever the role has by default
	db := stdlib.OpenDB(*own)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := createSchema(ctx, db, schema); err != nil {
		return nil, pg.Unavailable(op, err)
	}
	if err := prepare(ctx, conn, schema, op); err != nil {
		return nil, err
	}
	provider, err := newProvider(db, schema, log)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	for try := range tries {
		if err = pg.Backoff(ctx, try); err != nil {
			break
		}
		var results []*goose.MigrationResult
		results, err = provider.Up(ctx)
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			results = partial.Applied
		}
		for _, r := range results {
			ran = append(ran, r.Source.Path)
		}
		if answer, ok := errors.AsType[*pgconn.PgError](err); !pg.Locked(err) && (!ok || answer.Code != deadlock) {
			break
		}
		log.WarnContext(ctx, "a migration waits for a transaction that has its tables, or the two for each other; trying again", "error", pg.Redact(err))
	}
	if pg.Locked(err) {
		err = fmt.Errorf("another transaction holds a table for longer than running processes may be kept waiting, such as a pg_dump: "+
			"run this again once it has ended (pg_stat_activity, pg_locks): %w", err)
	}
	return ran, pg.Unavailable(op, err)
}

// prepare refuses the ledger of another build, and keeps in the schema what is to be run.
func prepare(ctx context.Context, cfg *pgx.ConnConfig, schema, op string) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return pg.Unavailable(op, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	have, want, _, err := Check(ctx, conn, schema, op)
	if err != nil || have > want {
		return err
	}
	return keepFiles(ctx, conn, op)
}

// newProvider returns what runs the migrations of a schema, under a lock of that schema.
func newProvider(db *sql.DB, schema string, log *slog.Logger) (*goose.Provider, error) {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	// The lock is the schema's, so that ledgers that share a database do not wait for each other.
	h := fnv.New64a()
	h.Write([]byte("forebay/" + schema))
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(h.Sum64()>>1)), lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithSessionLocker(locker),
		goose.WithTableName(table), goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
}

// createSchema looks before it leaps, for IF NOT EXISTS wants the right to create schemas even where there is nothing to create, and the owner of
// a schema may lack it. It tolerates its twin.
func createSchema(ctx context.Context, db *sql.DB, schema string) error {
	var there bool
	err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = db.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && (answer.Code == "23505" || answer.Code == "42P06") {
		return nil
	}
	return err
}
