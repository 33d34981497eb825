package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// A migration's number does not say what was in it: before the first release, builds had others under the same numbers. So the
// schema keeps a sum of each file, and a ledger of other migrations is told from one that is older or newer.
//
// From the first release on, a migration expands or contracts. One that expands (a table, a column with a default, an index, a wider CHECK) leaves
// older binaries working, and says with its first line which: "-- serves: 3" means those whose last migration is 3, or newer. They go on, and may
// be started, before and behind it: processes are replaced one after the other, and back. One without the line contracts: no older binary is
// opened on it. What a release has stopped using is taken away by the next one, or those of before could not go on.

// file is what the schema keeps of a migration.
type file struct {
	sum    string
	serves int64 // the oldest last migration of binaries that work with it
}

// own are this binary's migrations, by version.
func own() (map[int64]file, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	all := map[int64]file{}
	for _, f := range names {
		v, err := goose.NumericComponent(f)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", f, err)
		}
		text, err := files.ReadFile(f)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		all[v] = file{hex.EncodeToString(sum[:8]), v}
		line, _, _ := strings.Cut(string(text), "\n")
		if oldest, expands := strings.CutPrefix(line, "-- serves: "); expands {
			serves, err := strconv.ParseInt(oldest, 10, 64)
			if err != nil || serves < 1 || serves >= v {
				return nil, fmt.Errorf("migration %s: its first line is %q: want the number of an older migration", f, line)
			}
			all[v] = file{all[v].sum, serves}
		}
	}
	return all, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Check compares what was run in a schema with this binary's migrations. found says whether there is a ledger. An error
// of kind Conflict says that the schema is none that this binary can bring on; want is this binary's latest version, and have is the schema's, without
// newer ones that serve this binary.
func Check(ctx context.Context, from querier, schema, op string) (have, want int64, found bool, err error) {
	ours, err := own()
	if err != nil {
		return 0, 0, false, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	want = slices.Max(slices.Collect(maps.Keys(ours)))
	run, found, err := readFiles(ctx, from, `SELECT version_id, '', 0::bigint FROM `+table+` WHERE is_applied AND version_id > 0`)
	kept := map[int64]file{}
	if err == nil && found { // of a transaction nothing can be asked once a table was not there
		kept, _, err = readFiles(ctx, from, `SELECT version, sum, serves FROM migration_files`)
	}
	if err != nil {
		return 0, want, found, pg.Unavailable(op, err)
	}
	for version := range run {
		k, known := kept[version]
		if version > want && known && k.serves <= want {
			have = max(have, want)
			continue
		}
		if have = max(have, version); version <= want && k.sum != ours[version].sum {
			return have, want, found, otherBuild(schema, op)
		}
	}
	return have, want, found, nil
}

func otherBuild(schema, op string) error {
	return schemas.Errorf(schemas.Conflict, op, "the ledger in schema %q was made by another build from before a release: its migrations are not this binary's, and none leads from one "+
		"to the other. Run the build that made it, or begin a new ledger: write postgres: {schema: NAME} with a new name and run `forebay migrate -c FILE`. "+
		"The new one knows nothing of what was done: subscriptions that ran before stop as ledger_behind until they are accepted", schema)
}

// readFiles reads migrations by version; found is false where there is no such table.
func readFiles(ctx context.Context, from querier, query string) (list map[int64]file, found bool, err error) {
	list = map[int64]file{}
	rows, err := from.Query(ctx, query)
	if err == nil {
		var (
			version int64
			f       file
		)
		_, err = pgx.ForEachRow(rows, []any{&version, &f.sum, &f.serves}, func() error { list[version] = f; return nil })
	}
	if pg.TroubleOf(err) == pg.NoTable {
		return list, false, nil
	}
	return list, err == nil, err
}

// keepFiles writes the checksums of this binary's migrations before they are run: a ledger whose checksums differ, or that has none, is taken for that of
// another build. The caller has compared those that are there.
func keepFiles(ctx context.Context, conn *pgx.Conn, op string) error {
	ours, err := own()
	if err != nil {
		return &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two at once could both find no table, and the second one to make it would fail.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('forebay migration_files ' || current_schema(), 0))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS migration_files (version bigint PRIMARY KEY, sum text NOT NULL, serves bigint NOT NULL)`); err != nil {
			return err
		}
		for version, f := range ours {
			_, err := tx.Exec(ctx, `INSERT INTO migration_files (version, sum, serves) VALUES ($1, $2, $3)
				ON CONFLICT (version) DO UPDATE SET sum = EXCLUDED.sum, serves = EXCLUDED.serves`, version, f.sum, f.serves)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return pg.Unavailable(op, err)
}
