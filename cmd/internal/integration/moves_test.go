package integration

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// What becomes of the entities of the load while partitions move.
const (
	movedStubborn = 6                 // whose third event is answered 503 until the moves are over
	movedDead     = movedStubborn + 6 // up to here: whose third event is answered 422
	movedFlaky    = movedDead + 12    // up to here: whose every event is answered 503 twice, then 200
	movedPatient  = movedFlaky + 6    // up to here: whose third event is taken with 202 and finished when the moves are over
	movedLong     = movedPatient + 6  // up to here: whose every fifth event is taken with 202, fails at first, and is done at last
)

// troubled is the agent's mind.
type troubled struct {
	t    *testing.T
	over chan struct{} // closed: nobody is stubborn or patient any more
	to   atomic.Pointer[process]

	work     atomic.Int64 // what is taken and not finished
	mu       sync.Mutex
	seen     map[string]int       // calls by key
	reported map[string]time.Time // when the agent began to say what came of an action, the last time
	failed   map[string]bool      // it said so
}

func (d *troubled) answer(c call) int {
	d.mu.Lock()
	d.seen[c.key]++
	times := d.seen[c.key]
	d.mu.Unlock()
	entity, number := issueOf(c)
	switch {
	case entity <= movedStubborn && number == 3:
		select {
		case <-d.over:
		default:
			return http.StatusServiceUnavailable
		}
	case entity > movedStubborn && entity <= movedDead && number == 3:
		return http.StatusUnprocessableEntity
	case entity > movedDead && entity <= movedFlaky && times <= 2:
		return http.StatusServiceUnavailable
	case entity > movedFlaky && entity <= movedPatient && number == 3:
		d.takes(func() { <-d.over; d.reportResult(c, "done") })
		return http.StatusAccepted
	case entity > movedPatient && entity <= movedLong && number%5 == 0:
		d.takes(func() {
			<-time.After(300 * time.Millisecond)
			d.reportResult(c, map[bool]string{true: "failed", false: "done"}[times == 1])
		})
		return http.StatusAccepted
	}
	return http.StatusOK
}

// reportResult tells what came of an action, to a process that may not be its owner, until that has it.
func (d *troubled) reportResult(c call, status string) {
	d.mu.Lock()
	d.reported[c.key] = time.Now()
	d.failed[c.key] = status == "failed"
	d.mu.Unlock()
	last := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		at := strings.Replace(c.result, "http://agents.test", "http://"+d.to.Load().agents, 1)
		req, err := http.NewRequest(http.MethodPost, at, strings.NewReader(`{"status":"`+status+`"}`))
		if err != nil {
			d.t.Errorf("%q is no place for a result: %v", c.result, err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			return
		}
		last = resp.Status + ": " + string(body)
	}
	d.t.Errorf("the result of %s of %s is not taken: %s", c.event, c.entity, last)
}

// issueOf is the issue and the number of the event that a call is about.
func issueOf(c call) (entity, number int) {
	_, last, _ := strings.Cut(c.entity, "/")
	entity, _ = strconv.Atoi(last)
	number, _ = strconv.Atoi(c.sentAs[len(c.sentAs)-6:])
	return entity, number
}

// troubles are the gauges of what is open in a process.
var troubles = []string{"forebay_lane_parked_lanes", "forebay_lane_waiting_lanes", "forebay_lane_away_lanes"}

func (p *process) troubled() bool {
	return !slices.ContainsFunc(troubles, func(name string) bool { return p.gauge(name) == 0 })
}

// TestRebalanceInTrouble moves partitions back and forth between two stream processes while actions wait for their next
// attempt, entities are parked, and a destination works on what it has taken. Every attempt is made once, wherever the
// partition was: no key is called again after its last answer, nothing is lost, every entity's events come in order and
// wait for what was taken before them, and what is parked stays so.
func TestRebalanceInTrouble(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	r.edit("retry: {attempts: 20,", "retry: {attempts: 1000,")
	r.edit("\ntopics:", "\nagents: {public_url: \"http://agents.test\", secrets: [a-secret-of-the-suite-that-is-long-enough]}\ntopics:")
	r.edit(`operator: "${env:OPERATOR}"`, `operator: "${env:OPERATOR}", agents: "${env:AGENTS}"`)
	r.edit("agent: {type: http,", "agent: {type: http, long: {deadline: 5m}, breaker: {failures: 0},") // an open one would wait for all
	d := &troubled{t: t, over: make(chan struct{}), seen: map[string]int{}, reported: map[string]time.Time{}, failed: map[string]bool{}}
	r.agent.answer = d.answer
	r.serve("intake")
	stay := r.serve("stream")
	d.to.Store(stay)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, context.DeadlineExceeded)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		loaded <- r.sender.load(ctx, lines(faultEntities, faultEvents, func(e, n int) delivery { return issue(7, e, n) }), faultWorkers, fastLoad)
	}()
	until(t, "there is trouble of each kind", stay.troubled)
	for range 3 {
		other := r.serve("stream")
		until(t, "the other process has trouble of each kind, too", other.troubled)
		other.stop()
	}
	// And all of them at once: who has them leaves as soon as another is there.
	last := r.serve("stream")
	d.to.Store(last)
	stay.stop()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	of := func(status string) []string { return []string{"--subscription", "triage", "--status", status} }
	waitItems(t, r, last, movedStubborn, of("failed")...)
	waitItems(t, r, last, movedPatient-movedFlaky, append(of("processing"), "--type", "com.github.issues.edited")...)
	waitItems(t, r, last, movedDead-movedStubborn, of("dead_letter")...)
	close(d.over)

	const behind = (movedDead - movedStubborn) * (faultEvents - 3)
	r.agent.waitActed(t, faultEntities*faultEvents-behind, 2*time.Minute)
	until(t, "what was taken is finished", d.finished)
	waitItems(t, r, last, 0, of("processing")...)
	waitItems(t, r, last, 0, of("failed")...)
	waitItems(t, r, last, behind, of("parked")...)
	told, calls := r.sender.acceptedByID(), r.agent.snapshot()
	for id, x := range told {
		if entity, _ := strconv.Atoi(x.entity[len("7/"):]); entity > movedStubborn && entity <= movedDead && x.number > 3 {
			delete(told, id) // parked: a call of it is one that nobody was told of
		}
	}
	judge(told, calls).require(t)
	d.requireAttemptsOnce(t, calls)
	if n := last.gauge("forebay_lane_parked_lanes"); n != movedDead-movedStubborn {
		t.Errorf("%v entities are parked in the end", n)
	}
}

// finished says whether nothing is left to be said of what was taken, and what failed was called again and is done.
func (d *troubled) finished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, failed := range d.failed {
		if failed {
			return false
		}
	}
	return d.work.Load() == 0
}

// takes does something after the answer. More may be taken while what is left is waited for.
func (d *troubled) takes(do func()) {
	d.work.Add(1)
	go func() {
		defer d.work.Add(-1)
		do()
	}()
}

// requireAttemptsOnce fails on a call after the last answer of its key, on one that begins before the answer to the one
// before it or before what was taken of its entity is finished, and on one that was never answered: nobody was killed.
func (d *troubled) requireAttemptsOnce(t *testing.T, calls []call) {
	t.Helper()
	byKey, byEntity := map[string]call{}, map[string]call{}
	for _, c := range calls {
		if b, ok := byKey[c.key]; ok {
			again := b.status == http.StatusServiceUnavailable || b.status == http.StatusAccepted && d.seen[c.key] == 2
			if !again || c.begin.Before(b.end) {
				t.Errorf("%s of %s was answered %d at %s, and called again at %s", c.event, c.entity, b.status, b.end, c.begin)
			}
		}
		if b, ok := byEntity[c.entity]; ok && b.status == http.StatusAccepted && b.key != c.key && c.begin.Before(d.reported[b.key]) {
			t.Errorf("%s of %s was called at %s, %s before it was finished at %s", c.event, c.entity, c.begin, b.event, d.reported[b.key])
		}
		if c.end.IsZero() {
			t.Errorf("%s of %s was not answered", c.event, c.entity)
		}
		byKey[c.key], byEntity[c.entity] = c, c
	}
	for key, failed := range d.failed {
		if failed {
			t.Errorf("%s failed and was not tried again", key)
		}
	}
}

// gauge sums a metric of a process over its labels; 0 where it does not say.
func (p *process) gauge(name string) (sum float64) {
	resp, err := http.Get("http://" + p.operator + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), name+"{") && !strings.HasPrefix(lines.Text(), name+" ") {
			continue
		}
		f := strings.Fields(lines.Text())
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			p.t.Fatalf("%s: %v", lines.Text(), err)
		}
		sum += v
	}
	return sum
}
