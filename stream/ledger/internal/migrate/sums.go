package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// A migration's number does not say what was in it: before the first release, builds had others under the same numbers. So the
// schema keeps a sum of each file, and a ledger of other migrations is told from one that is older or newer.

// sums are the sums of this binary's migrations, by version.
func sums() (map[int64]string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	all := map[int64]string{}
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
		all[v] = hex.EncodeToString(sum[:8])
	}
	return all, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Check compares what was run in a schema with this binary's migrations. found says whether there is a ledger. An error
// of kind Conflict says that the schema is none that this binary can bring on; have and want are the latest versions of both.
func Check(ctx context.Context, from querier, schema, op string) (have, want int64, found bool, err error) {
	ours, err := sums()
	if err != nil {
		return 0, 0, false, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	want = slices.Max(slices.Collect(maps.Keys(ours)))
	run, found, err := readSums(ctx, from, `SELECT version_id, '' FROM `+table+` WHERE is_applied AND version_id > 0`)
	kept := map[int64]string{}
	if err == nil {
		kept, _, err = readSums(ctx, from, `SELECT version, sum FROM migration_sums`)
	}
	if err != nil {
		return 0, want, found, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	for version := range run {
		if have = max(have, version); version <= want && kept[version] != ours[version] {
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

// readSums reads versions and sums; found is false where there is no such table.
func readSums(ctx context.Context, from querier, query string) (sums map[int64]string, found bool, err error) {
	sums = map[int64]string{}
	rows, err := from.Query(ctx, query)
	if err == nil {
		var (
			version int64
			sum     string
		)
		_, err = pgx.ForEachRow(rows, []any{&version, &sum}, func() error { sums[version] = sum; return nil })
	}
	if pg.TroubleOf(err) == pg.NoTable {
		return sums, false, nil
	}
	return sums, err == nil, err
}

// keepSums writes the checksums of this binary's migrations before they are run: a ledger whose checksums differ, or that has none, is taken for that of
// another build. The caller has compared those that are there.
func keepSums(ctx context.Context, conn *pgx.Conn, op string) error {
	ours, err := sums()
	if err != nil {
		return &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two at once could both find no table, and the second one to make it would fail.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('forebay migration_sums ' || current_schema(), 0))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS migration_sums (version bigint PRIMARY KEY, sum text NOT NULL)`); err != nil {
			return err
		}
		for version, sum := range ours {
			_, err := tx.Exec(ctx, `INSERT INTO migration_sums VALUES ($1, $2) ON CONFLICT (version) DO UPDATE SET sum = EXCLUDED.sum`, version, sum)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return nil
}
