package ledger

import (
	"context"

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
	if err := checkServer(ctx, cfg, conn, op, minServer); err != nil {
		return nil, err
	}
	return migrate.Up(ctx, conn, cfg.Schema, op, cfg.Logger)
}

// checkServer refuses a server that is older than oldest (server_version_num), before anything is written: a migration would stop half way at what it does not know.
// It refuses a pooler in transaction mode too: there a table would be made where another session looks for it.
func checkServer(ctx context.Context, cfg Config, to *pgx.ConnConfig, op string, oldest int) error {
	var server int
	var sessions [2]int
	for i := range sessions { // of two connections, both of them open
		conn, err := pgx.ConnectConfig(ctx, to)
		if err != nil {
			return pg.Unavailable(op, err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&server, &sessions[i]); err != nil {
			return pg.Unavailable(op, err)
		}
	}
	switch {
	case server < oldest:
		return cfg.tooOld(op, server, oldest)
	case sessions[0] == sessions[1]:
		return schemas.Errorf(schemas.Invalid, op, "%s: %w", cfg.Key, errPooled)
	}
	return nil
}
