package integration

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/testrig"
)

// What becomes of the entities of the load while partitions move.
const (
	movedStubborn = 6                 // whose third event is answered 503 until the moves are over
	movedDead     = movedStubborn + 6 // up to here: whose third event is answered 422
	movedFlaky    = movedDead + 12    // up to here: whose every event is answered 503 twice, then 200
)

// troubled is the agent's mind: entities 1 to movedStubborn are stubborn, and so on.
type troubled struct {
	over chan struct{} // closed: nobody is stubborn any more

	mu   sync.Mutex
	seen map[string]int // calls by key
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
	}
	return http.StatusOK
}

// issueOf is the issue and the number of the event that a call is about.
func issueOf(c call) (entity, number int) {
	_, last, _ := strings.Cut(c.entity, "/")
	entity, _ = strconv.Atoi(last)
	number, _ = strconv.Atoi(c.event[len(c.event)-6:])
	return entity, number
}

// TestRebalanceWithRetriesAndParkedEntities moves partitions back and forth between two stream processes while actions
// wait for their next attempt and entities are parked. Every attempt is made once, wherever the partition was: no key is
// called again after its last answer, nothing is lost, every entity's events come in order, and what is parked stays so.
func TestRebalanceWithRetriesAndParkedEntities(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testrig.Broker) {
		r := newRig(t, b, options{latency: 2 * time.Millisecond})
		r.edit("retry: {attempts: 20,", "retry: {attempts: 1000,")
		d := &troubled{over: make(chan struct{}), seen: map[string]int{}}
		r.agent.answer = d.answer
		r.serve("intake")
		stay := r.serve("stream")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Minute, context.DeadlineExceeded)
		defer cancel()
		loaded := make(chan error, 1)
		go func() {
			loaded <- r.sender.load(ctx, lines(faultEntities, faultEvents, func(e, n int) delivery { return issue(7, e, n) }), faultWorkers, fastLoad)
		}()
		until(t, "entities are parked and wait", func() bool {
			return stay.gauge("forebay_lane_parked_lanes") > 0 && stay.gauge("forebay_lane_waiting_lanes") > 0
		})
		for range 3 {
			other := r.serve("stream")
			until(t, "the other process has parked and waiting entities, too", func() bool {
				return other.gauge("forebay_lane_parked_lanes") > 0 && other.gauge("forebay_lane_waiting_lanes") > 0
			})
			other.stop()
		}
		// And all of them at once: who has them leaves as soon as another is there.
		last := r.serve("stream")
		stay.stop()
		if err := <-loaded; err != nil {
			t.Fatal(err)
		}
		waitItems(t, r, last, movedStubborn, "--subscription", "triage", "--status", "failed")
		waitItems(t, r, last, movedDead-movedStubborn, "--subscription", "triage", "--status", "dead_letter")
		close(d.over)

		const behind = (movedDead - movedStubborn) * (faultEvents - 3)
		r.agent.waitActed(t, faultEntities*faultEvents-behind, 2*time.Minute)
		waitItems(t, r, last, behind, "--subscription", "triage", "--status", "parked")
		told, calls := r.sender.told(), r.agent.snapshot()
		for id, x := range told {
			if entity, _ := strconv.Atoi(x.entity[len("7/"):]); entity > movedStubborn && entity <= movedDead && x.number > 3 {
				delete(told, id) // parked: a call of it is one that nobody was told of
			}
		}
		judge(told, calls).require(t)
		requireAttemptsOnce(t, calls)
		if n := last.gauge("forebay_lane_parked_lanes"); n != movedDead-movedStubborn {
			t.Errorf("%v entities are parked in the end", n)
		}
	})
}

// requireAttemptsOnce fails on a call after the last answer of its key, on one that begins before the answer to the one
// before it, and on one that was never answered: nobody was killed.
func requireAttemptsOnce(t *testing.T, calls []call) {
	t.Helper()
	before := map[string]call{}
	for _, c := range calls {
		if b, ok := before[c.key]; ok && (b.status/100 != 5 || c.begin.Before(b.end)) {
			t.Errorf("%s of %s was answered %d at %s, and called again at %s", c.event, c.entity, b.status, b.end, c.begin)
		}
		if c.end.IsZero() {
			t.Errorf("%s of %s was not answered", c.event, c.entity)
		}
		before[c.key] = c
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
