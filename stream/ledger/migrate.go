package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
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
	for _, name := range []string{"search_path", "application_name", "timezone"} {
		conn.RuntimeParams[name] = cfg.settings(false)[name]
	}
	return migrate.Up(ctx, conn, cfg.Schema, op, cfg.Logger)
}
