package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestExamine looks at a server as a role that lacks rights, then as one that has them, and at settings that lose commits.
func TestExamine(t *testing.T) {
	t.Parallel()
	url, schema := pgtest.Schema(t)
	role := schema + "_r"
	pgtest.Exec(t, url, `CREATE ROLE `+role+` LOGIN PASSWORD 'pencil' CONNECTION LIMIT 7`)
	t.Cleanup(func() { pgtest.Exec(t, url, `DROP OWNED BY `+role); pgtest.Exec(t, url, `DROP ROLE `+role) })
	_, rest, _ := strings.Cut(url, "@")
	cfg := Config{URL: schemas.NewSecret("postgres://" + role + ":pencil@" + rest), Schema: schema}
	look := func() *Examined {
		t.Helper()
		x, err := Examine(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	lacks := func(x *Examined) (all string) {
		for _, l := range x.Lacks {
			all += l.What + ": " + l.Fix + "\n"
		}
		return all
	}

	x := look()
	if x.Ahead.Abs() > 30*time.Second { // they are on one machine
		t.Errorf("the clock is %s ahead", x.Ahead)
	}
	if x.Superuser || x.Role != role || x.Conns.RoleLimit != 7 || x.Conns.Most() != 7 || x.Conns.Free() > 7 || len(x.Lacks) != 1 {
		t.Errorf("examined = %+v", x)
	}
	if !strings.Contains(lacks(x), `CREATE SCHEMA "`+schema+`" AUTHORIZATION "`+role+`"`) || schemas.KindOf(x.Migration) != schemas.NotFound {
		t.Errorf("without a schema it lacks %q, %v", lacks(x), x.Migration)
	}

	// What it is told to have done is enough, for each migration.
	for _, l := range x.Lacks {
		pgtest.Exec(t, url, l.Fix)
	}
	for range 2 {
		if _, err := Migrate(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if x = look(); len(x.Lacks) != 0 || x.Migration != nil {
		t.Errorf("in a schema of its own it lacks %q, %v", lacks(x), x.Migration)
	}
	pgtest.Exec(t, url, `DROP SCHEMA `+schema+` CASCADE`)

	// What somebody else has migrated.
	if _, err := Migrate(t.Context(), Config{URL: schemas.NewSecret(url), Schema: schema}); err != nil {
		t.Fatal(err)
	}
	x = look()
	if all := lacks(x); !strings.Contains(all, `GRANT USAGE, CREATE ON SCHEMA "`+schema+`"`) || !strings.Contains(all, "can neither read nor drop them: GRANT ") {
		t.Errorf("in somebody else's schema it lacks %q", all)
	}
	pgtest.Exec(t, url, `DO $$ DECLARE r record; BEGIN FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = '`+schema+`' LOOP
		EXECUTE format('ALTER TABLE %I.%I OWNER TO `+role+`', '`+schema+`', r.tablename); END LOOP; END $$`)
	pgtest.Exec(t, url, `GRANT USAGE, CREATE ON SCHEMA `+schema+` TO `+role)
	x = look()
	if all := lacks(x); all != "" || x.Migration != nil || len(x.Topics) != 0 || x.Topics == nil {
		t.Errorf("it has all rights and lacks %q; migration %v; topics %v", all, x.Migration, x.Topics)
	}
	pgtest.Exec(t, url, `ALTER ROLE `+role+` SET synchronous_commit = local`)
	if all := lacks(look()); !strings.HasPrefix(all, "synchronous_commit is local: a failover would forget what was acknowledged") {
		t.Errorf("with a setting that loses commits it lacks %q", all)
	}
	pgtest.Exec(t, url, `ALTER ROLE `+role+` SET default_transaction_read_only = on`)
	if all := lacks(look()); !strings.HasPrefix(all, "postgres takes no writes") {
		t.Errorf("where nothing can be written it lacks %q", all)
	}
	if found := losesCommits("on", "off"); len(found) != 1 || !strings.Contains(found[0].What, "fsync is off") || losesCommits("remote_apply", "on") != nil {
		t.Errorf("with fsync off it lacks %v", found)
	}
	if n := (Config{MaxConns: 3, StatementConns: 2}).Connections(); n != 15 {
		t.Errorf("%d connections", n)
	}
	if _, err := Examine(t.Context(), Config{URL: schemas.NewSecret("postgres://u:pencil@127.0.0.1:1/x"), Schema: schema}); schemas.KindOf(err) != schemas.Unavailable || strings.Contains(err.Error(), "pencil") {
		t.Errorf("a server that is not there: %v", err)
	}
}
