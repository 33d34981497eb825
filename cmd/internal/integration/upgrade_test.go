package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// nextMigration is what the next version brings: tables that every batch writes get columns that this one does not know of.
const nextMigration = `-- serves: %d
-- +goose Up
ALTER TABLE events ADD COLUMN next_text text, ADD COLUMN next_count int NOT NULL DEFAULT 0;
ALTER TABLE actions ADD COLUMN next_count int NOT NULL DEFAULT 0;
ALTER TABLE completions ADD COLUMN next_text text COLLATE "C";
ALTER TABLE fences ADD COLUMN next_text text;
CREATE TABLE next_things (subscription int PRIMARY KEY REFERENCES subscriptions ON DELETE CASCADE, text text NOT NULL);
CREATE INDEX next_commands ON commands (kind, id);
`

// buildNext builds the next version: this one, with a migration behind its last.
func buildNext(t *testing.T) (binary string) {
	t.Helper()
	dir, err := filepath.Abs("../../../stream/ledger/internal/migrate/migrations")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	binary, next := filepath.Join(tmp, "forebay"), filepath.Join(tmp, "next.sql")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, fmt.Sprintf("%05d_next.sql", len(files)+1)): next}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{next: fmt.Sprintf(nextMigration, len(files)), filepath.Join(tmp, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-overlay", filepath.Join(tmp, "overlay.json"), "-o", binary,
		"github.com/forebay-io/forebay/cmd/forebay")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v\n%s", err, out)
	}
	return binary
}

// deliverUntil delivers versions of the issues one after the other, until it is told to stop: of each issue in order, of several at once.
func (r *deployment) deliverUntil(ctx context.Context, stop *atomic.Bool) error {
	const workers, each = 6, 8
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			for n := 1; !stop.Load(); n++ {
				for e := range each {
					if err := r.sender.deliver(ctx, issues(w*each+e+1, n)); err != nil {
						return err
					}
				}
				<-time.After(fastLoad)
			}
			return nil
		})
	}
	return g.Wait()
}

// TestUpgradeAndBack upgrades three workers and an intake one after the other under load, and goes back with one of them, as DEPLOY.md says: the
// next version is refused until the ledger is brought on, and changes nothing by that; this version goes on with the newer ledger, and starts on
// it; nothing is lost, repeated or out of order.
func TestUpgradeAndBack(t *testing.T) {
	t.Parallel()
	next := buildNext(t)
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // no partition changes hands because the machine is busy
	intake := r.serve("intake")
	workers := [3]*process{r.serve("stream"), r.serve("stream"), r.serve("stream")}
	for _, w := range workers {
		r.waitOwned(w, 2)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var stop atomic.Bool
	loaded := make(chan error, 1)
	go func() { loaded <- r.deliverUntil(ctx, &stop) }()
	// goesOn waits until what came after now has been acted on.
	goesOn := func() { t.Helper(); r.agent.waitActed(t, r.agent.acted()+100, 2*time.Minute) }
	goesOn()

	// Before migrate: the next version says what to do, and this one goes on.
	r.binary = next
	refused := r.launch("serve", "-c", r.config, "--roles", "stream")
	<-refused.gone
	if out := refused.output(); refused.cmd.ProcessState.ExitCode() == 0 || !containsAll(out, "this binary needs", "run `forebay migrate -c FILE`") {
		t.Errorf("the next version on a ledger of this one: %s", out)
	}
	goesOn()
	migrate := exec.CommandContext(ctx, next, "migrate", "-c", r.config)
	migrate.Env = r.env("127.0.0.1:0", "127.0.0.1:0")
	if out, err := migrate.CombinedOutput(); err != nil || !strings.Contains(string(out), "_next.sql") {
		t.Fatalf("migrate of the next version: %s %v", out, err)
	}
	goesOn()

	replace := func(n int, binary string) {
		t.Helper()
		r.binary = binary
		workers[n].stop()
		workers[n] = r.serve("stream")
		r.waitOwned(workers[n], 2)
	}
	for n := range workers {
		replace(n, next)
	}
	newer := r.launch("serve", "-c", r.config, "--roles", "intake")
	newer.waitReady(time.Minute)
	r.intake.Store(newer) // as a balancer does
	intake.stop()
	goesOn()
	// And back: a worker of this version comes up on the newer ledger.
	replace(2, "")
	r.command("migrate", "-c", r.config) // of this version: it finds nothing to do
	goesOn()
	stop.Store(true)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	sent := len(r.sender.acceptedByID())
	r.agent.waitActed(t, sent, 2*time.Minute)
	t.Logf("%d events, %d deliveries retried", sent, r.sender.retries.Load())
	r.requireOnce(t)
}
