package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestFrozenStreamWakesUp stops a stream process with SIGSTOP for longer than its session, lets the other take over,
// and wakes it while the load goes on: its fence is gone, so that all that it still can do is the calls it was in.
func TestFrozenStreamWakesUp(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.serve("intake")
	frozen := r.serve("stream")
	other := r.serve("stream")
	v, wrong := load(t, r, slowLoad, func() []fault {
		if n, err := r.owned(frozen); err != nil || n == 0 || n == 6 {
			t.Fatalf("the process to freeze owns %d of 6 partitions: %v", n, err)
		}
		stopped := time.Now()
		frozen.signal(syscall.SIGSTOP)
		r.waitOwned(other, 6)
		frozen.signal(syscall.SIGCONT)
		r.waitOwned(frozen, 3)
		return []fault{{from: stopped, to: time.Now()}}
	})
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	if n := int64(max(len(v.overtaken), len(wrong))); n > r.agent.most.Load() {
		t.Errorf("%d calls came again after newer ones; at most %d were in flight at a time: %q", n, r.agent.most.Load(), wrong)
	}
}

// signal sends s.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// owned is how many partitions of the GitHub subscription a process runs.
func (r *deployment) owned(p *process) (n int, err error) {
	var page struct {
		Items []struct {
			Team, Subscription string
			Partitions         []struct{ State string }
		}
	}
	err = p.get("/v1/subscriptions", nil, &page)
	for _, s := range page.Items {
		for _, part := range s.Partitions {
			n += btoi(s.Team == r.team && s.Subscription == "triage" && part.State == "running")
		}
	}
	return n, err
}

// waitOwned waits until a process runs exactly n partitions of the GitHub subscription.
func (r *deployment) waitOwned(p *process, n int) {
	r.t.Helper()
	var got int
	var err error
	if !rig.Until(90*time.Second, func() bool { got, err = r.owned(p); return err == nil && got == n }) {
		r.t.Fatalf("the process runs %d partitions, want %d: %v", got, n, err)
	}
}

// TestFrozenStreamWritesNothing stops a stream process with SIGSTOP in the middle of its calls, for more than twice the
// session timeout, while another takes its partitions over and makes the calls again. Woken with SIGCONT it has results
// to record and events to run, under fences that are gone: the ledger stays as it is, and no call is made.
func TestFrozenStreamWritesNothing(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 300 * time.Millisecond})
	r.serve("intake")
	frozen := r.serve("stream")
	r.waitOwned(frozen, 6)
	const entities, versions = 24, 3
	for n := 1; n <= versions; n++ {
		r.deliverAll(entities, n, issues)
	}
	for r.agent.inFlight.Load() == 0 {
		<-time.After(time.Millisecond)
	}
	stopped := time.Now()
	frozen.signal(syscall.SIGSTOP)
	inFlight := r.agent.inFlight.Load()
	other := r.serve("stream")
	r.waitOwned(other, 6)
	r.agent.waitActed(t, entities*versions, time.Minute)
	waitItems(t, r, other, entities*versions, "--subscription", "triage", "--status", "done")
	if left := 13*time.Second - time.Since(stopped); left > 0 { // the session's timeout is 6 s
		<-time.After(left)
	}
	ledger, calls := r.contents(), r.agent.snapshot()
	frozen.signal(syscall.SIGCONT)
	r.waitOwned(frozen, 3) // it has noticed, joined again and claimed
	if now := r.contents(); now != ledger {
		t.Errorf("the woken process has written:\n%s\nbefore:\n%s", now, ledger)
	}
	if now := r.agent.snapshot(); len(now) != len(calls) {
		t.Errorf("the woken process made %d calls", len(now)-len(calls))
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	if n := int64(len(v.repeated)); n > r.agent.most.Load() || inFlight == 0 {
		t.Errorf("%d calls were repeated, at most %d were in flight at a time, %d when it was stopped", n, r.agent.most.Load(), inFlight)
	}
}

// lineRows is what is known of lines, in their own rows or those of the events that moved them: a claim brings the first up.
const lineRows = `(SELECT l.fence, l.entity, l.clock, l.kind, l.filtered, l.parked, l.skipped, coalesce(e.epoch, l.epoch) AS epoch,
	coalesce(e.value, l.value) AS value, coalesce(e.event_key, l.event_key) AS event_key
	FROM forebay.version_lines l JOIN forebay.progress p ON p.fence = l.fence LEFT JOIN LATERAL (
		SELECT epoch, value, event_key FROM forebay.events WHERE fence = l.fence AND entity = l.entity AND clock = l.clock AND lane_window IS NULL
			AND lane_seq >= greatest(p.dirty_lines_from, l.as_of) AND decision = 'applied' AND reason = 'next' ORDER BY lane_seq DESC LIMIT 1) e ON true)`

// contents is a digest of all that the gate and the lanes write.
func (r *deployment) contents() string {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dbURL)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close(r.t.Context())
	var all strings.Builder
	for _, table := range []string{"events", "rejected_records", "actions", "completions", "attempts", "version_lines", "buffer", "seeks", "stops"} {
		var rows int
		var sum string
		from := "forebay." + table
		if table == "version_lines" {
			from = lineRows
		}
		err := conn.QueryRow(r.t.Context(), `SELECT count(*), coalesce(md5(string_agg(t::text, ' ' ORDER BY t::text)), '') FROM `+from+` t`).Scan(&rows, &sum)
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %d %s\n", table, rows, sum)
	}
	return all.String()
}
