package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// execOn runs a statement on a connection of its own.
func execOn(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// openPool opens n connections, so that none is opened while they are measured.
func openPool(ctx context.Context, url string, n int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(n)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var open []*pgxpool.Conn
	for range n {
		var conn *pgxpool.Conn
		if conn, err = pool.Acquire(ctx); err != nil {
			break
		}
		open = append(open, conn) // all of them: each Acquire opens another one
	}
	for _, conn := range open {
		conn.Release()
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// checkpoint has the server write everything to disk, so that what is measured next does not pay for what was measured before. A server
// that belongs to others may not allow it.
func (s *pgServer) checkpoint(ctx context.Context) error {
	err := execOn(ctx, s.url, "CHECKPOINT")
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		return nil
	}
	return err
}

// dropCopies drops the tables that COPY has filled.
func (s *pgServer) dropCopies(ctx context.Context) error {
	return errors.Join(execOn(ctx, s.url, "DROP SCHEMA IF EXISTS "+copySchema+" CASCADE"), s.checkpoint(ctx))
}

// dropRun drops the rows of a run's events and completions, which would go on costing: Postgres' autovacuum comes for every
// table that has grown. The names of what is left are used by no other run.
func (s *pgServer) dropRun(ctx context.Context, g gateRun) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	fences, err := fencesOf(ctx, conn, g.name)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("DROP TABLE forebay.events_w%[1]d, forebay.completions_w%[1]d", fences[0].window))
	return errors.Join(err, s.checkpoint(ctx))
}
