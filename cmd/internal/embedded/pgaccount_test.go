package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay-io/forebay/schemas/short"
)

// TestPostgresInAClosedDirectory: --data under /root. As root the database moves to where its user can reach it, and
// comes back from there; a directory deleted and made again does not get the old database. Not parallel: stateRoot.
func TestPostgresInAClosedDirectory(t *testing.T) {
	short.NeedsServer(t, "PostgreSQL")
	state := filepath.Join(openDir(t), "state")
	defer func(old string) { stateRoot = old }(stateRoot)
	stateRoot = state
	closed := t.TempDir() // 0700
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "data", "postgres")

	p := startPostgres(t, dir)
	query(t, p.URL().Reveal(), `CREATE TABLE kept (x int)`)
	stop(t, p)
	if os.Geteuid() != 0 {
		if p.account != nil || p.home != filepath.Join(dir, "server") {
			t.Errorf("not root: user %v, home %s", p.account, p.home)
		}
		return
	}
	if filepath.Dir(p.home) != state {
		t.Fatalf("home %s is not under %s", p.home, state)
	}
	if p.account == nil || p.account.uid == 0 {
		t.Fatalf("runs as %+v", p.account)
	}
	again := startPostgres(t, dir)
	query(t, again.URL().Reveal(), `SELECT x FROM kept`)
	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	fresh := startPostgres(t, dir)
	if got := query(t, fresh.URL().Reveal(), `SELECT count(*) FROM pg_tables WHERE tablename = 'kept'`); got != "0" {
		t.Error("a new directory got the database of a deleted one")
	}
	if err := fresh.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(state, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
