package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Examined is what a ledger's server, database and role are, as somebody with the URL sees them.
type Examined struct {
	Version   string // server_version
	Role      string
	Superuser bool
	HasSchema bool
	Ahead     time.Duration // the server's clock, of this machine's; to within the time that the answer took
	Conns     Conns
	// Lacks are why [Open] would refuse the server or soon could not use it: version, settings, rights.
	Lacks []Lack
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

// Lack is what a server or role must have and does not, and what to do: SQL where there is some.
type Lack struct{ What, Fix string }

// Connections is how many connections a ledger of this configuration makes at most.
func (c Config) Connections() int {
	c = c.withDefaults()
	return int(c.MaxConns + c.StatementConns + besideHot)
}

// besideHot are the connections of a ledger beside MaxConns and StatementConns.
const besideHot = 10

const examineServer = `SELECT clock_timestamp(), current_setting('server_version_num')::int, current_setting('server_version'), current_user::text,
	current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'), r.rolsuper, pg_is_in_recovery(), current_setting('transaction_read_only')::bool,
	current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
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
	pg.Only(&to.Config, cfg.May)
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx) // whose settings end with it: behind a pooler in transaction mode the session is others', too
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	_, err = tx.Exec(ctx, `SELECT set_config('search_path', $1, true), set_config('application_name', 'forebay doctor', true)`, cfg.settings(false)["search_path"])
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	x, err := examine(ctx, tx, cfg)
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	if x.Migration = schemaFits(ctx, tx, cfg.Schema, op); x.Migration == nil {
		err = x.topics(ctx, tx)
	}
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	return x, nil
}

// topics reads by how many partitions the claims know topics, those that subscriptions have gone over from left out.
func (x *Examined) topics(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT topic, min(partitions) FROM topics WHERE left_at IS NULL GROUP BY topic`)
	if err != nil {
		return err
	}
	x.Topics = map[string]int{}
	var topic string
	var partitions int
	_, err = pgx.ForEachRow(rows, []any{&topic, &partitions}, func() error { x.Topics[topic] = partitions; return nil })
	return err
}

func examine(ctx context.Context, tx pgx.Tx, cfg Config) (*Examined, error) {
	var x Examined
	var server, reserved int
	var commit, sync, pages string
	var standby, readOnly bool
	var clock time.Time
	asked := time.Now()
	err := tx.QueryRow(ctx, examineServer).Scan(&clock, &server, &x.Version, &x.Role, &commit, &sync, &pages, &x.Superuser, &standby, &readOnly, &x.Conns.Max, &reserved,
		&x.Conns.Reserved, &x.Conns.RoleLimit, &x.Conns.DatabaseLimit, &x.Conns.Used, &x.Conns.OfRole, &x.Conns.OfDatabase, &x.Conns.Ledgers)
	if err != nil {
		return nil, err
	}
	x.Ahead = clock.Sub(asked.Add(time.Since(asked) / 2))
	if x.Conns.Reserved += reserved; x.Superuser { // whom no limit but the server's holds
		x.Conns.Reserved, x.Conns.RoleLimit, x.Conns.DatabaseLimit = 0, -1, -1
	}
	if server < minServer {
		x.Lacks = append(x.Lacks, Lack{What: cfg.tooOld("", server, minServer).Error()})
	}
	if lack := cfg.notWritten(standby, readOnly); lack != nil {
		x.Lacks = append(x.Lacks, *lack)
	}
	x.Lacks = append(x.Lacks, losesCommits(commit, sync)...)
	if pages == "off" { // which some file systems allow: a process starts
		x.Lacks = append(x.Lacks, Lack{"full_page_writes is off: a crash in the middle of a write to disk would corrupt a page of the ledger", "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()"})
	}
	return &x, x.rights(ctx, tx, cfg.Schema)
}

// OwnRole returns the SQL by which a role that is no superuser comes to own a schema, and what is in it. The password is left to whoever runs it.
func (x *Examined) OwnRole(schema string) string {
	role, quoted := "forebay", pgx.Identifier{schema}.Sanitize()
	if x.Role == role {
		role = "forebay_app"
	}
	if !x.HasSchema {
		return fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '...'; CREATE SCHEMA %s AUTHORIZATION %[1]s", role, quoted)
	}
	of := "'" + strings.ReplaceAll(quoted, "'", "''") + "'::regnamespace"
	return fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '...'; ALTER SCHEMA %s OWNER TO %[1]s; DO $$ DECLARE it text; BEGIN FOR it IN "+
		"SELECT format('TABLE %%s', oid::regclass) FROM pg_class c WHERE relnamespace = %[3]s AND relkind IN ('r', 'p', 'S') "+
		"AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype IN ('a', 'i') AND c.relkind = 'S') "+
		"UNION ALL SELECT format('ROUTINE %%s', oid::regprocedure) FROM pg_proc WHERE pronamespace = %[3]s "+
		"LOOP EXECUTE format('ALTER %%s OWNER TO %[1]s', it); END LOOP; END $$", role, quoted, of)
}

// rights finds what the role lacks to make the ledger, or to open and drop the tables of its windows.
func (x *Examined) rights(ctx context.Context, tx pgx.Tx, schema string) error {
	role, quoted := pgx.Identifier{x.Role}.Sanitize(), pgx.Identifier{schema}.Sanitize()
	var makes, creates, uses bool
	err := tx.QueryRow(ctx, `SELECT n.oid IS NOT NULL, has_database_privilege(current_database(), 'CREATE'),
	coalesce(has_schema_privilege(n.oid, 'CREATE'), false), coalesce(has_schema_privilege(n.oid, 'USAGE'), false)
FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = $1`, schema).Scan(&x.HasSchema, &makes, &creates, &uses)
	switch {
	case err != nil:
		return err
	case !x.HasSchema && !makes:
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("there is no schema %s, and role %s may not make one", schema, x.Role), fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", quoted, role)})
		return nil
	case !x.HasSchema:
		return nil
	case !uses || !creates:
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("role %s may not use schema %s or make tables in it, as a ledger does for each window of time", x.Role, schema), fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA %s TO %s", quoted, role)})
	}
	rows, err := tx.Query(ctx, `SELECT pg_get_userbyid(c.relowner)::text, count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'USAGE') GROUP BY 1 ORDER BY 1`, schema)
	if err != nil {
		return err
	}
	var owner string
	var tables int
	_, err = pgx.ForEachRow(rows, []any{&owner, &tables}, func() error {
		x.Lacks = append(x.Lacks, Lack{fmt.Sprintf("%d tables of schema %s are %s's, and role %s can neither read nor drop them", tables, schema, owner, x.Role),
			fmt.Sprintf("GRANT %s TO %s", pgx.Identifier{owner}.Sanitize(), role)})
		return nil
	})
	return err
}

// schemaFits returns why this binary cannot use a schema as it stands.
func schemaFits(ctx context.Context, tx pgx.Tx, schema, op string) error {
	have, want, found, err := migrate.Check(ctx, tx, schema, op)
	if err != nil {
		return err
	}
	return fits(schema, op, have, want, found)
}

// losesCommits says which settings of a server may lose what it has acknowledged.
func losesCommits(commit, sync string) (list []Lack) {
	if commit != "on" && commit != "remote_apply" {
		list = append(list, Lack{fmt.Sprintf("synchronous_commit is %s: %s", commit, forgets[commit]), "set it on (ALTER ROLE ... SET, ALTER DATABASE ... SET, or postgresql.conf)"})
	}
	if sync == "off" {
		list = append(list, Lack{"fsync is off: a crash would corrupt the ledger", "set it on in postgresql.conf"})
	}
	return list
}
