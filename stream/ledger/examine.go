package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// OldestServer is the oldest PostgreSQL that a ledger works on, by its major version.
const OldestServer = minServer / 10000

// Examined is what a ledger's server, database and role are, as somebody with the URL sees them.
type Examined struct {
	Server         int    // server_version_num
	Version        string // server_version
	Role, Database string
	Superuser      bool
	Standby        bool // it is recovering, and cannot be written
	// Settings are those on which it rests that what was acknowledged is kept, by name, as this role's sessions have them.
	Settings map[string]string
	Conns    Conns
	// Ahead is how far the server's clock is ahead of this machine's, Within how exactly that is known: half of the question's time.
	Ahead, Within time.Duration
	Lacks         []Lack
	// Migration is why this binary cannot use the schema as it stands: there is no ledger in it, or one of another version. Nil: it can.
	Migration error
	// Topics have the number of partitions that claims have known a topic by, for the topics that the ledger has seen.
	Topics map[string]int
}

// Conns are how many connections there may be, and are, on a server. Limits of -1 are none.
type Conns struct {
	Max, Reserved            int // of the server; Reserved are those that this role may not have
	RoleLimit, DatabaseLimit int
	Used, OfRole, OfDatabase int
	Ledgers                  int // of Used, those of ledgers: application_name forebay
}

// Free returns how many more connections the role can make.
func (c Conns) Free() int {
	free := c.Max - c.Reserved - c.Used
	if c.RoleLimit >= 0 {
		free = min(free, c.RoleLimit-c.OfRole)
	}
	if c.DatabaseLimit >= 0 {
		free = min(free, c.DatabaseLimit-c.OfDatabase)
	}
	return max(0, free)
}

// Most returns how many connections the role can have if nobody else has one.
func (c Conns) Most() int {
	most := c.Max - c.Reserved
	if c.RoleLimit >= 0 {
		most = min(most, c.RoleLimit)
	}
	if c.DatabaseLimit >= 0 {
		most = min(most, c.DatabaseLimit)
	}
	return max(0, most)
}

// Lack is a right that the role does not have, and the SQL that grants it.
type Lack struct{ What, Grant string }

// Connections is how many connections a ledger of this configuration makes at most.
func (c Config) Connections() int {
	c = c.withDefaults()
	return int(c.MaxConns + c.StatementConns + besideHot)
}

// besideHot are the connections of a ledger beside MaxConns and StatementConns.
const besideHot = 10

const examineServer = `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user::text, current_database()::text,
	r.rolsuper, pg_is_in_recovery(), current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
	coalesce(current_setting('reserved_connections', true)::int, 0), r.rolconnlimit, d.datconnlimit,
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
	(SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()),
	(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()),
	(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forebay' AND pid <> pg_backend_pid())
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`

// Examine looks at the server of a configuration by one connection, and changes nothing. It is for whoever asks whether a ledger would work
// there: unlike [Open], it tells of everything that is wrong, and asks no more of the server than to answer. Errors are *schemas.Error
// without the URL.
func Examine(ctx context.Context, cfg Config) (*Examined, error) {
	const op = "look at the ledger's server"
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	to, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "postgres url cannot be parsed")
	}
	to.RuntimeParams["search_path"], to.RuntimeParams["application_name"] = cfg.settings(false)["search_path"], "forebay doctor"
	pg.Only(&to.Config, cfg.May)
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	x, err := examine(ctx, conn, cfg.Schema)
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	if x.Migration = schemaFits(ctx, conn, cfg.Schema, op); x.Migration == nil {
		err = x.topics(ctx, conn)
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return x, nil
}

// topics reads by how many partitions the claims know topics, those that subscriptions have gone over from left out.
func (x *Examined) topics(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT topic, min(partitions) FROM topics WHERE left_at IS NULL GROUP BY topic`)
	if err != nil {
		return err
	}
	x.Topics = map[string]int{}
	var topic string
	var partitions int
	_, err = pgx.ForEachRow(rows, []any{&topic, &partitions}, func() error { x.Topics[topic] = partitions; return nil })
	return err
}

func examine(ctx context.Context, conn *pgx.Conn, schema string) (*Examined, error) {
	x := &Examined{Settings: map[string]string{}}
	var reserved int
	err := conn.QueryRow(ctx, examineServer).Scan(&x.Server, &x.Version, &x.Role, &x.Database, &x.Superuser, &x.Standby, &x.Conns.Max, &reserved,
		&x.Conns.Reserved, &x.Conns.RoleLimit, &x.Conns.DatabaseLimit, &x.Conns.Used, &x.Conns.OfRole, &x.Conns.OfDatabase, &x.Conns.Ledgers)
	if err != nil {
		return nil, err
	}
	if x.Conns.Reserved += reserved; x.Superuser { // whom no limit but the server's holds
		x.Conns.Reserved, x.Conns.RoleLimit, x.Conns.DatabaseLimit = 0, -1, -1
	}
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return nil, err
		}
		x.Settings[name] = value
	}
	var there time.Time
	sentAt := time.Now()
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return nil, err
	}
	x.Within = time.Since(sentAt) / 2
	x.Ahead = there.Sub(sentAt.Add(x.Within))
	return x, x.rights(ctx, conn, schema)
}

// rights finds what the role lacks to make the ledger, or to open and drop the tables of its windows.
func (x *Examined) rights(ctx context.Context, conn *pgx.Conn, schema string) error {
	role, quoted := pgx.Identifier{x.Role}.Sanitize(), pgx.Identifier{schema}.Sanitize()
	var there, makes, creates, uses bool
	err := conn.QueryRow(ctx, `SELECT n.oid IS NOT NULL, has_database_privilege(current_database(), 'CREATE'),
	coalesce(has_schema_privilege(n.oid, 'CREATE'), false), coalesce(has_schema_privilege(n.oid, 'USAGE'), false)
FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = $1`, schema).Scan(&there, &makes, &creates, &uses)
	switch {
	case err != nil:
		return err
	case !there && !makes:
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("there is no schema %s, and it may not make one", schema), fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", quoted, role)})
		return nil
	case !there:
		return nil
	case !uses || !creates:
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("it may not use schema %s or make tables in it, as a ledger does for each window of time", schema), fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA %s TO %s", quoted, role)})
	}
	rows, err := conn.Query(ctx, `SELECT pg_get_userbyid(c.relowner)::text, count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'USAGE') GROUP BY 1 ORDER BY 1`, schema)
	if err != nil {
		return err
	}
	var owner string
	var tables int
	_, err = pgx.ForEachRow(rows, []any{&owner, &tables}, func() error {
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("%d tables of schema %s are %s's, and it can neither read nor drop them", tables, schema, owner),
			fmt.Sprintf("GRANT %s TO %s", pgx.Identifier{owner}.Sanitize(), role)})
		return nil
	})
	return err
}

// schemaFits returns why this binary cannot use a schema as it stands.
func schemaFits(ctx context.Context, conn *pgx.Conn, schema, op string) error {
	have, want, found, err := migrate.Check(ctx, conn, schema, op)
	if err != nil {
		return err
	}
	return fits(schema, op, have, want, found)
}

// LosesCommits says why settings of a server may lose what it has acknowledged, by setting; empty where they do not.
func LosesCommits(settings map[string]string) map[string]string {
	why := map[string]string{}
	if v := settings["synchronous_commit"]; v != "on" && v != "remote_apply" {
		why["synchronous_commit"] = forgets[v]
	}
	if settings["fsync"] == "off" {
		why["fsync"] = "a crash would corrupt the ledger"
	}
	if settings["full_page_writes"] == "off" {
		why["full_page_writes"] = "a crash in the middle of a write to disk would corrupt a page of the ledger"
	}
	return why
}
