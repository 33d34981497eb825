package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestMoveToAnotherLedger: a subscription with done, open, parked, dead and waiting work goes to a ledger in another database. It is refused while
// a process runs it, killed in the middle and begun again; meanwhile and afterwards a process with the wrong file does not run it and says what to
// do. Afterwards each event acts once and in order, and what had acted before is a duplicate.
func TestMoveToAnotherLedger(t *testing.T) {
	t.Parallel()
	r, newDB := deploy(t, rig.Fake(t), options{gap: "{wait: 30m, then: park}"}), rig.Database(t)
	name := r.team + ".fulfil"
	r.variables = append(r.variables, "FULFIL_POSTGRES_URL="+newDB)
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	newFile := filepath.Join(r.dir, "new.yaml")
	if err := os.WriteFile(newFile, []byte(strings.Replace(string(text), "      fulfil:\n", "      fulfil:\n        postgres: {url: \"${env:FULFIL_POSTGRES_URL}\"}\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.command("migrate", "-c", newFile)
	var mended atomic.Bool
	r.agent.answer = func(c call) int {
		switch {
		case mended.Load():
		case strings.Contains(c.entity, "dead"):
			return http.StatusBadRequest
		case strings.Contains(c.entity, "open"):
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	r.serve("intake")
	stream := r.serve("stream")
	const each = 5
	deliver := func(kind string, rev int) {
		t.Helper()
		for n := range each {
			if err := r.sender.deliver(t.Context(), order(fmt.Sprintf("%s-%d", kind, n), rev)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, kind := range []string{"done", "dead", "open", "gap"} {
		deliver(kind, 1)
	}
	deliver("done", 2)
	deliver("dead", 2) // behind a dead head
	deliver("open", 2)
	deliver("gap", 3)
	waitItems(t, r, stream, each, "--subscription", "fulfil", "--decision", "buffered")
	waitItems(t, r, stream, 3*each, "--subscription", "fulfil", "--status", "done")
	waitItems(t, r, stream, each, "--subscription", "fulfil", "--status", "dead_letter")

	move := []string{"subscriptions", "move", name, "-c", r.config, "--to", newFile}
	if out, err := r.try("127.0.0.1:0", append(move, "--run")...); err == nil || !containsAll(err.Error(), "exit status 6", "processes run it with postgres of forebay.yaml (1): stop them") {
		t.Errorf("while a process runs it: %s %v", out, err)
	}
	stream.kill()
	if plan := string(r.command(move...)); !containsAll(plan, "no process runs it", fmt.Sprintf("%d waiting events go along", each), fmt.Sprintf("%d buffer", each), "start its processes with new.yaml") {
		t.Errorf("the plan: %s", plan)
	}

	r.killTheMove(newDB, append(move, "--run"))
	for file, says := range map[string]string{r.config: "it is being moved to teams." + r.team + ".subscriptions.fulfil.postgres of new.yaml", newFile: "it is being moved here from postgres of forebay.yaml"} {
		r.doesNotRun(file, name, says)
	}
	if out := string(r.command(append(move, "--run")...)); !containsAll(out, name, "new.yaml") {
		t.Errorf("begun again: %s", out)
	}
	if out := string(r.command(move...)); !strings.Contains(out, "nothing is left in the old one") {
		t.Errorf("the plan afterwards: %s", out)
	}
	if n := sqlAnswer(t, r.dbURL, `SELECT count(*) FROM forebay.subscriptions WHERE name = '`+name+`'`); n != "0" {
		t.Errorf("the old ledger has it %s times", n)
	}
	r.doesNotRun(r.config, name, "it was moved to teams."+r.team+".subscriptions.fulfil.postgres of new.yaml")

	mended.Store(true)
	moved := r.launch("serve", "-c", newFile, "--roles", "stream", "--subscriptions", name)
	moved.waitReady(2 * time.Minute)
	dead := waitItems(t, r, moved, each, "--subscription", "fulfil", "--status", "dead_letter")
	if _, err := r.try(moved.operator, "dlq", "replay", "--all", "--force", "--reason", "the agent is mended"); err != nil {
		t.Fatal(err)
	}
	deliver("done", 1) // again
	deliver("done", 3)
	deliver("gap", 2)
	r.agent.waitActed(t, (3+2+2+3)*each, 2*time.Minute)
	waitItems(t, r, moved, (3+2+2+3)*each, "--subscription", "fulfil", "--status", "done")
	waitItems(t, r, moved, each, "--subscription", "fulfil", "--decision", "duplicate")
	if states := r.partitions(moved, "fulfil"); len(dead) != each || slices.Contains(states, "stopped") {
		t.Errorf("%d dead letters went along; partitions: %v", len(dead), states)
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	acted := map[string]int{}
	for _, c := range r.agent.snapshot() {
		if c.status == http.StatusOK {
			acted[c.key]++
		}
	}
	for key, times := range acted {
		if times != 1 {
			t.Errorf("%s acted %d times", key, times)
		}
	}
}

// killTheMove kills a move with kill -9 while it copies version lines, for which a lock lets it wait.
func (r *deployment) killTheMove(newDB string, args []string) {
	r.t.Helper()
	db, err := pgx.Connect(r.t.Context(), newDB)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close(r.t.Context())
	if _, err := db.Exec(r.t.Context(), `BEGIN; LOCK TABLE forebay.version_lines IN EXCLUSIVE MODE`); err != nil {
		r.t.Fatal(err)
	}
	p := r.launch(args...)
	if !rig.Until(time.Minute, func() bool {
		return sqlAnswer(r.t, newDB, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'COPY version_lines%'`) == "1"
	}) {
		r.t.Fatalf("the move does not come to the version lines: %s", p.output())
	}
	p.kill()
}

// doesNotRun starts a process with a file, and waits for it to say why it does not run the subscription.
func (r *deployment) doesNotRun(file, name, says string) {
	r.t.Helper()
	args := []string{"serve", "-c", file, "--roles", "stream"}
	if file != r.config {
		args = append(args, "--subscriptions", name)
	}
	p := r.launch(args...)
	if !rig.Until(time.Minute, func() bool { return strings.Contains(p.output(), says) }) {
		r.t.Errorf("a process with %s does not say %q", file, says)
	}
	resp, err := http.Get("http://" + p.operator + "/readyz")
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		r.t.Errorf("a process with %s is ready: %d", file, resp.StatusCode)
	}
	p.kill()
}
