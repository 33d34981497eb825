package integration

import (
	"context"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// What hangs answers nothing and closes nothing: nobody hears of a reset. The server keeps its sessions, and what they
// have locked, for as long as it does not notice.
const (
	goesOnWithin = 3 * time.Minute  // after it can: a few seconds where the machine is idle, a quarter of an hour where nobody notices
	drainBudget  = 25 * time.Second // app's default
	hangLoad     = 200 * time.Millisecond
	hangMarkers  = 24 // entities: each partition has some
)

// hangingLedger is a database of the test's own behind a proxy.
func hangingLedger(t *testing.T, r *deployment) *rig.Proxy {
	t.Helper()
	at, err := url.Parse(r.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	p := rig.HangingProxy(t, at.Host)
	at.Host = p.Addr()
	r.ledger = at.String()
	return p
}

// TestPostgresHangs: the connections to Postgres hang under load, at first so that new ones work, then so that new ones
// hang for a while, too. The subscription goes on soon after it is able to, and nothing is lost or comes
// twice but what the change of hands excuses.
func TestPostgresHangs(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	proxy := hangingLedger(t, r)
	r.hangs(t, r.serve("intake,stream"), proxy)
}

// TestBrokerHangs is the same with the broker. What cannot be produced is not accepted meanwhile: the provider sends again.
func TestBrokerHangs(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	through := rig.ThroughProxy(t, b)
	r := deploy(t, through, options{latency: 2 * time.Millisecond})
	r.hangs(t, r.serve("intake,stream"), through.Proxy)
}

// hangs has a proxy hang in each way under a load.
func (r *deployment) hangs(t *testing.T, p *process, proxy *rig.Proxy) {
	t.Helper()
	v, wrong := load(t, r, hangLoad, func() []fault {
		began := time.Now()
		proxy.Hang()
		if proxy.Hanging() == 0 {
			t.Fatal("no connection hangs")
		}
		r.goesOn(t, 1, began)
		first := r.faultSince(p, began)

		began = time.Now()
		proxy.HangAll()
		<-time.After(8 * time.Second) // longer than a session
		able := time.Now()
		proxy.Answer()
		r.goesOn(t, 2, able)
		return []fault{first, r.faultSince(p, began)}
	})
	v.require(t)
	report(t, "again without an excuse", wrong)
}

// TestEndsWhilePostgresHangs: SIGTERM ends a process in its time although it can neither record what it has done nor give
// back what it owns, and the next one goes on where it was.
func TestEndsWhilePostgresHangs(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{latency: 500 * time.Millisecond})
	r.endsWhile(t, hangingLedger(t, r))
}

// TestEndsWhileBrokerHangs is the same with a broker that takes no record, no commit and no leave.
func TestEndsWhileBrokerHangs(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	through := rig.ThroughProxy(t, b)
	r := deploy(t, through, options{latency: 500 * time.Millisecond})
	r.endsWhile(t, through.Proxy)
}

func (r *deployment) endsWhile(t *testing.T, proxy *rig.Proxy) {
	t.Helper()
	const entities, states = 24, 4
	p := r.serve("intake,stream")
	r.watched = r.watch("triage")
	for n := 1; n <= states; n++ {
		r.deliverAll(entities, n, issues)
	}
	r.agent.waitActed(t, entities, time.Minute)
	began := time.Now()
	proxy.HangAll()
	p.endsInTime(t)
	r.look()
	proxy.Answer()
	p = r.serve("intake,stream")
	r.agent.waitActed(t, entities*states, time.Minute)
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	report(t, "again without an excuse", r.watched.excuses(v, []fault{r.faultSince(p, began)}))
}

// goesOn fails unless deliveries made from now on are acted on soon after it is possible.
func (r *deployment) goesOn(t *testing.T, state int, able time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), able.Add(goesOnWithin+10*time.Second))
	defer cancel()
	waits := make(chan string, hangMarkers)
	for e := 1; e <= hangMarkers; e++ {
		d := issue(9, e, state)
		go func() {
			_ = r.sender.deliver(ctx, d)
			waits <- d.id
		}()
	}
	for range hangMarkers {
		id := <-waits
		for r.agent.seen(id) == 0 && ctx.Err() == nil {
			<-time.After(20 * time.Millisecond)
		}
	}
	took := time.Since(able).Round(10 * time.Millisecond)
	t.Logf("hang %d: goes on %s after it can", state, took)
	if took > goesOnWithin {
		t.Fatalf("hang %d: it goes on %s after it can, want %s", state, took, goesOnWithin)
	}
}

// endsInTime is SIGTERM to a process that cannot reach what it needs.
func (p *process) endsInTime(t *testing.T) {
	t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.gone:
		t.Logf("ended %s after SIGTERM, with %d", time.Since(began).Round(10*time.Millisecond), p.cmd.ProcessState.ExitCode())
	case <-time.After(2 * drainBudget): // the rest is for a busy machine
		t.Errorf("forebay serve has not ended %s after SIGTERM", time.Since(began).Round(time.Second))
		p.signal(syscall.SIGQUIT) // its goroutines into the log
		<-p.gone
	}
}
