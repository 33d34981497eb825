package ledger

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Migrate brings the schema to this binary's version under a session lock and says what it applied. It creates the
// Postgres schema. Calls may overlap: the later ones wait and find nothing to do.
func Migrate(ctx context.Context, cfg Config) (applied []string, err error) {
	const op = "migrate the ledger"
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkServer(ctx, cfg, op, minServer); err != nil {
		return nil, err
	}
	conn, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	settings := map[string]string{}
	for _, name := range []string{"search_path", "application_name", "timezone"} {
		settings[name] = cfg.settings(false)[name]
	}
	pg.Set(&conn.Config, settings)
	pg.Only(&conn.Config, cfg.May)
	return migrate.Up(ctx, conn, cfg.Schema, op, cfg.Logger)
}

// checkServer refuses a server that is older than oldest (server_version_num), before anything is written: a migration would stop half way at what it does not know.
// It refuses a pooler in transaction mode too, before a session has our settings: the pooler would have others' work done with them, and a table
// be made where another session looks for it.
func checkServer(ctx context.Context, cfg Config, op string, oldest int) error {
	to, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	to.ConnectTimeout = cmp.Or(to.ConnectTimeout, 10*time.Second)
	pg.Only(&to.Config, cfg.May)
	ctx, cancel := context.WithTimeout(ctx, cfg.TxTimeout)
	defer cancel()
	var conns [2]*pgx.Conn // both of them open; made at once, since a host that is away takes a while
	var errs [2]error
	var both sync.WaitGroup
	for i := range conns {
		both.Go(func() { conns[i], errs[i] = pgx.ConnectConfig(ctx, to) })
	}
	both.Wait()
	err = cmp.Or(errs[:]...)
	var server int
	var sessions [2]int
	for i, conn := range conns {
		if conn == nil {
			continue
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if err == nil { // one after the other: a pooler gives both the session that is free
			err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&server, &sessions[i])
		}
	}
	switch {
	case err != nil:
		return pg.Unavailable(op, err)
	case server < oldest:
		return cfg.tooOld(op, server, oldest)
	case sessions[0] == sessions[1]:
		return schemas.Errorf(schemas.Invalid, op, "%s: %w", cfg.Key, errPooled)
	}
	return nil
}
