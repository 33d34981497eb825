package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas/short"
)

// TestPostgresInAClosedDirectory: --data under /root. As root the database moves to where its user can reach it, and
// comes back from there, also where the directory was renamed; a directory made anew in its place does not get the old database, and a copy
// is refused. Not parallel: stateRoot.
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
	if err := again.release(); err != nil { // as if this process had been killed: the server goes on
		t.Fatal(err)
	}
	processes(t, again.data())

	parent := filepath.Dir(dir)
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	aside := filepath.Join(parent, "renamed")
	rename(dir, aside)
	fresh := startPostgres(t, dir)
	if got := query(t, fresh.URL().Reveal(), `SELECT count(*) FROM pg_tables WHERE tablename = 'kept'`); got != "0" {
		t.Error("a new directory got the database of an earlier one")
	}
	if running, err := processesIn(again.data()); err != nil || len(running) > 0 {
		t.Errorf("the server of the earlier one, which nobody would find again, still runs: %v %v", running, err)
	}
	renamed := startPostgres(t, aside) // at the same time
	query(t, renamed.URL().Reveal(), `SELECT x FROM kept`)
	discard := func(p *Postgres) {
		t.Helper()
		if err := p.Discard(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	discard(fresh)
	fresh = startPostgres(t, dir) // ends nothing that a process has
	query(t, renamed.URL().Reveal(), `SELECT x FROM kept`)
	discard(fresh)
	stop(t, renamed)
	rename(aside, dir)
	again = startPostgres(t, dir)
	query(t, again.URL().Reveal(), `SELECT x FROM kept`)

	copied := filepath.Join(parent, "copied")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		if second, err := StartPostgres(t.Context(), PostgresConfig{Dir: copied, Logger: testLog(t)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a copied directory: %v, want %q", err, want)
			if err == nil {
				second.Kill()
			}
		}
	}
	refused("the directory that this one was copied from")
	// Who says that it takes the other's database over does not get it while the other has it.
	if err := os.WriteFile(filepath.Join(copied, "location"), []byte(again.home+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(again.home + " is in use by process")
	query(t, again.URL().Reveal(), `SELECT x FROM kept`)
	stop(t, again)
	query(t, startPostgres(t, copied).URL().Reveal(), `SELECT x FROM kept`)
}
