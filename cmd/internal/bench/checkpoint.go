package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// checkpoint brings to disk what was written, so that no side pays for the one before it. A server that belongs to others may not
// allow it.
func (s *pgServer) checkpoint(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "CHECKPOINT")
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		return nil
	}
	return err
}

// dropCopies drops what COPY has filled.
func (s *pgServer) dropCopies(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+copySchema+" CASCADE")
	return errors.Join(err, s.checkpoint(ctx))
}

// forget drops the rows of a run's events and completions, which would go on costing: Postgres' autovacuum comes for every
// table that has grown. The names of what is left are used by no other run.
func (s *pgServer) forget(ctx context.Context, g gateRun) error {
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
