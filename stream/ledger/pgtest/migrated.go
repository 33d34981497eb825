package pgtest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/migrate"
)

// migrated are schemas with the ledger's tables. To make one takes longer than most tests: what one test has left as it was made is the
// next one's.
var migrated struct {
	sync.Mutex
	free []string
	used int
	made string // catalog of a schema that was just made
}

// Migrated is a schema with the ledger's empty tables, the test's own as long as it runs.
func Migrated(t testing.TB) (url, name string) {
	t.Helper()
	url = URL(t)
	migrated.Lock()
	migrated.used++
	if n := len(migrated.free); n > 0 {
		name, migrated.free = migrated.free[n-1], migrated.free[:n-1]
	}
	migrated.Unlock()
	fresh := name == ""
	if fresh {
		name = newName()
	}
	t.Cleanup(func() { giveBack(t, url, name) })
	if !fresh {
		return url, name
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["search_path"] = name
	if _, err := migrate.Up(t.Context(), cfg, name, "migrate for a test", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if made, err := catalogOf(t, url, name, ""); err != nil {
		t.Fatal(err)
	} else {
		migrated.Lock()
		migrated.made = made
		migrated.Unlock()
	}
	return url, name
}

// giveBack empties a schema for the next test. It drops one of a test that failed, or has changed more than rows, and all of them once no
// test has one.
func giveBack(t testing.TB, url, name string) {
	catalog := ""
	if !t.Failed() {
		catalog, _ = catalogOf(t, url, name, emptied)
	}
	migrated.Lock()
	drop := []string{name}
	if catalog != "" && catalog == migrated.made {
		migrated.free, drop = append(migrated.free, name), nil
	}
	if migrated.used--; migrated.used == 0 {
		drop, migrated.free = append(drop, migrated.free...), nil
	}
	migrated.Unlock()
	for _, name := range drop {
		Exec(t, url, `DROP SCHEMA IF EXISTS `+name+` CASCADE`)
	}
}

// emptied leaves of a schema what its migrations made.
const emptied = `SET lock_timeout = '5s'; SET session_replication_role = replica;
DO $$ DECLARE step text; BEGIN
	FOR step IN
		SELECT 'DROP TABLE ' || string_agg(oid::regclass::text, ', ') FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname ~ '_w[0-9]+$'
		UNION ALL
		SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') || ' CASCADE' FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
			AND relname !~ '_w[0-9]+$' AND relname <> ALL ('{identity,migrations,migration_files}') AND pg_relation_size(oid) > 0
	LOOP
		IF step IS NOT NULL THEN EXECUTE step; END IF;
	END LOOP;
	PERFORM setval(oid, 1, false) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S' AND relname !~ '^migrations_';
END $$`

// catalogOf says what there is in a schema, in words that are the same for all that were just made, after something is done in it.
func catalogOf(t testing.TB, url, name, first string) (catalog string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return "", err
	}
	cfg.RuntimeParams["search_path"] = name
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, first); err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, `WITH c AS MATERIALIZED (SELECT * FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
		SELECT concat_ws(' ', (SELECT concat_ws(' ', count(*), count(relacl), sum(relnatts), sum(relchecks), count(reloptions)) FROM c),
			(SELECT md5(string_agg(attname, ' ' ORDER BY relname, attnum)) FROM pg_attribute JOIN c ON c.oid = attrelid),
			(SELECT count(*) FROM pg_trigger JOIN c ON c.oid = tgrelid), (SELECT count(*) FROM pg_statistic JOIN c ON c.oid = starelid),
			(SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace), (SELECT count(nspacl) FROM pg_namespace WHERE nspname = current_schema()),
			(SELECT count(*) FROM identity), (SELECT string_agg(version_id::text, ',') FROM migrations), (SELECT string_agg(sum, ',') FROM migration_files))`).Scan(&catalog)
	return strings.ReplaceAll(catalog, name, ""), err
}
