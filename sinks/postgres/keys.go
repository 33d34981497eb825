package postgressink

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultKeyTable is where keys are kept unless configured.
const DefaultKeyTable = "forebay_actions"

var tableForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// CheckKeyTable refuses names that are not a plain table or schema.table.
func CheckKeyTable(name string) error {
	if !tableForm.MatchString(name) {
		return fmt.Errorf("%.64q is not a plain lower-case name, or two with a dot between", name)
	}
	return nil
}

// pruneBatch is how many old keys are forgotten in one statement.
const pruneBatch = 5000

// keys is the table of keys.
type keys struct{ name, ddl, insert, prune string }

// newKeys makes the statements on a table of keys.
func newKeys(name string) keys {
	parts := strings.Split(name, ".")
	quoted := pgx.Identifier(parts).Sanitize()
	return keys{
		name:   name,
		ddl:    DDL(name),
		insert: "INSERT INTO " + quoted + " (action_id, destination) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		// A bounded number at a time, and never what somebody else is about to delete.
		prune: "DELETE FROM " + quoted + " WHERE action_id IN (SELECT action_id FROM " + quoted +
			" WHERE done_at < now() - $1::interval ORDER BY done_at LIMIT " + strconv.Itoa(pruneBatch) + " FOR UPDATE SKIP LOCKED)",
	}
}

// DDL returns the statements that create a table of idempotency keys (action ids) and its index, if they do not exist. The name is table or
// schema.table, as [CheckKeyTable] takes it.
func DDL(name string) string {
	parts := strings.Split(name, ".")
	index := pgx.Identifier{indexName(parts[len(parts)-1])}.Sanitize()
	table := pgx.Identifier(parts).Sanitize()
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (
    action_id   text PRIMARY KEY,
    destination text NOT NULL,
    done_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ` + index + ` ON ` + table + ` (done_at);`
}

// indexName is the name of a table's index. Postgres cuts names at 63 bytes; of a table whose name would be cut, the name's checksum keeps it
// apart from the indexes of tables that begin alike.
func indexName(table string) string {
	const suffix = "_done_at"
	if len(table)+len(suffix) <= 63 {
		return table + suffix
	}
	return fmt.Sprintf("%s_%08x%s", table[:46], crc32.ChecksumIEEE([]byte(table)), suffix)
}

// missing reports whether err says that the table of keys is not there.
func missing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "42P01" || pg.Code == "3F000")
}

// create makes the table, one attempt at a time under an advisory lock. Those that find it there do nothing: CREATE INDEX IF NOT EXISTS would
// wait for the statements that are under way on it, although the index exists. After an error the release of conn rolls back.
func (k keys) create(ctx context.Context, conn *pgxpool.Conn) error {
	raw := conn.Conn().PgConn()
	answers, err := raw.Exec(ctx, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('forebay keys', 0)); SELECT to_regclass('"+k.name+"')").ReadAll()
	if err == nil && answers[2].Rows[0][0] == nil {
		_, err = raw.Exec(ctx, k.ddl).ReadAll()
	}
	if err == nil {
		_, err = raw.Exec(ctx, "COMMIT").ReadAll()
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" { // insufficient_privilege
		return fmt.Errorf("%w: the role may not create %s; create it by hand: %s", err, k.name, k.ddl)
	}
	return err
}

// interval returns a duration as Postgres reads it.
func interval(d time.Duration) []byte { return fmt.Appendf(nil, "%d seconds", int64(d.Seconds())) }
