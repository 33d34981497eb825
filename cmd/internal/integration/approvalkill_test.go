package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// waitingApprovals are the ids of the questions that wait, by the ids of their events.
func (p *process) waitingApprovals() map[string]string {
	var page struct {
		Items []struct {
			ID    string `json:"id"`
			Event string `json:"event_id"`
		}
	}
	if err := p.get("/v1/approvals", url.Values{"state": {"waiting"}, "limit": {"500"}}, &page); err != nil {
		return nil // to be asked again
	}
	ids := map[string]string{}
	for _, i := range page.Items {
		ids[i.Event] = i.ID
	}
	return ids
}

// answer gives a person's word, and returns the status of what it got: 0 for nothing.
func (p *process) answer(id, verb string) int {
	client := http.Client{Timeout: 20 * time.Second}
	resp, err := client.Post("http://"+p.operator+"/v1/approvals/"+id+"/"+verb, "application/json", strings.NewReader(`{"reason": "looked", "by": "jo"}`))
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestApprovalsOverKills: the one process that acts is killed while questions wait, while they are answered, before an approval is used, during the
// call that it allows, and while the destination is paused. Each action is asked for once. What was approved is called once, or again under the same
// key, what was denied or has moved on never, nothing during the pause, and an entity's events in order.
func TestApprovalsOverKills(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	r.edit("actions: [{name: run, to: shop}]", "actions: [{name: run, to: shop, approval: {expires: 1h}}]")
	inFlight := make(chan struct{}) // closed once its caller is dead
	var over atomic.Bool
	r.agent.answer = func(c call) int {
		if c.event == "flight-1" && !over.Load() {
			<-inFlight
			return http.StatusTeapot // which nobody hears
		}
		return http.StatusOK
	}
	db := connect(t, r.dbURL)
	me := int(db.PgConn().PID())
	r.serve("intake")
	p := r.serve("stream")
	again := func() { t.Helper(); p.kill(); p = r.serve("stream") }

	expected := map[string]bool{} // events that must be called
	called := func(events ...string) bool {
		done := map[string]bool{}
		for _, c := range r.agent.snapshot() {
			done[c.event] = done[c.event] || c.status == http.StatusOK
		}
		return !slices.ContainsFunc(events, func(e string) bool { return !done[e] })
	}
	asked := func(events ...string) (ids []string) {
		t.Helper()
		until(t, fmt.Sprintf("%v wait for a word", events), func() bool {
			all := p.waitingApprovals()
			ids = nil
			for _, e := range events {
				if all[e] != "" {
					ids = append(ids, all[e])
				}
			}
			return len(ids) == len(events)
		})
		return ids
	}
	say := func(verb string, events ...string) {
		t.Helper()
		for i, id := range asked(events...) {
			if status := p.answer(id, verb); status != http.StatusOK {
				t.Errorf("%s %s: %d", verb, events[i], status)
			}
			expected[events[i]] = verb == "approve"
		}
	}
	next := func(entity string, rev int) string { r.deliver(order(entity, rev)); return order(entity, rev).id }
	first := func(prefix string, n int) (events []string) {
		for i := range n {
			events = append(events, next(fmt.Sprintf("%s%d", prefix, i), 1))
		}
		return events
	}

	// Nobody has answered.
	races, paused := first("race", 8), first("paused", 3)
	all := slices.Concat(races, paused, []string{next("steady", 1), next("no", 1), next("waits", 1), next("moves", 1), next("taken", 1), next("flight", 1)})
	before := asked(all...)
	again()
	say("approve", "steady-1")
	until(t, "one is called", func() bool { return called("steady-1") })
	if now := asked(slices.DeleteFunc(slices.Clone(all), func(e string) bool { return e == "steady-1" })...); len(now) != len(before)-1 || !slices.Contains(before, now[0]) {
		t.Errorf("asked as %v, and before the kill as %v", now, before)
	}

	// Answers are under way: whoever gave one that was lost gives it again.
	var answering sync.WaitGroup
	one := make(chan struct{}, 100)
	for i, id := range asked(append(slices.Clone(races), "no-1")...) {
		verb := "approve"
		if i == len(races) {
			verb = "deny"
		} else {
			expected[races[i]] = true
		}
		answering.Go(func() {
			for status := 0; status != http.StatusOK && status != http.StatusConflict; {
				if status = p.answer(id, verb); status == 0 {
					return
				}
				one <- struct{}{}
			}
		})
	}
	<-one
	p.kill()
	answering.Wait()
	p = r.serve("stream")
	until(t, "what was lost is answered", func() bool {
		waits := p.waitingApprovals()
		left := waits == nil
		for event, id := range waits {
			switch {
			case slices.Contains(races, event):
				p.answer(id, "approve")
			case event == "no-1":
				p.answer(id, "deny")
			default:
				continue
			}
			left = true
		}
		return !left
	})
	next("no", 2)
	say("approve", "no-2")
	next("steady", 2)
	say("approve", "steady-2")
	until(t, "what was approved around the kill is called", func() bool { return called(append(slices.Clone(races), "no-2", "steady-2")...) })

	// It is called, and its entity moves on before there is an answer.
	say("approve", "flight-1")
	until(t, "the call has begun", func() bool {
		return slices.ContainsFunc(r.agent.snapshot(), func(c call) bool { return c.event == "flight-1" })
	})
	next("flight", 2)
	until(t, "a newer version is decided", func() bool {
		items, err := r.items(p, "--subscription", "fulfil", "--limit", "500")
		return err == nil && slices.ContainsFunc(items, func(i inboxItem) bool { return i.EventID == "flight-2" && i.Decision == "applied" })
	})
	p.kill()
	over.Store(true)
	close(inFlight)
	p = r.serve("stream")
	say("approve", "flight-2")
	until(t, "it is called again, and then the next", func() bool { return called("flight-1", "flight-2") })

	// The destination is paused.
	r.ask(p, "pause", "--destination", r.team+"/shop", "--reason", "quiet")
	say("approve", slices.Concat(paused[:2], []string{"moves-1", "taken-1"})...)
	expected["moves-1"] = false
	next("moves", 2)
	begin := len(r.agent.snapshot())
	again()
	say("approve", paused[2])
	next("steady", 3)
	r.deliver(issue(7, 1, 1))
	until(t, "another destination is called", func() bool { return called(issue(7, 1, 1).id) })
	expected[issue(7, 1, 1).id] = true
	for _, c := range r.agent.snapshot()[begin:] {
		if c.event != issue(7, 1, 1).id {
			t.Errorf("%s is called while its destination is paused", c.event)
		}
	}
	// The pause ends, and the process is killed before it has used an approval.
	execute(t, db, `BEGIN`)
	execute(t, db, `SELECT FROM forebay.approvals WHERE event_id = 'taken-1' FOR UPDATE`)
	r.ask(p, "resume", "--destination", r.team+"/shop", "--reason", "go on")
	until(t, "an approval is about to be used", func() bool { return count(t, db, blocked, me) > 0 })
	p.kill()
	execute(t, db, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, me)
	execute(t, db, `ROLLBACK`)
	if called("taken-1") {
		t.Error("called before its approval was used")
	}
	p = r.serve("stream")
	say("approve", "steady-3")
	until(t, "what was approved in the pause is called", func() bool { return called(append(slices.Clone(paused), "taken-1", "steady-3")...) })
	asked("waits-1", "moves-2")

	accepted := r.sender.acceptedByID()
	var lost []string
	v := judge(accepted, r.agent.snapshot())
	for _, event := range v.lost {
		if expected[event] {
			lost = append(lost, event)
		}
	}
	for _, c := range r.agent.snapshot() {
		if !expected[c.event] {
			t.Errorf("%s is called, and nobody has approved it, or it was denied or has moved on", c.event)
		}
	}
	for _, again := range v.repeated {
		// Of races and paused the kill may have come between the call and its record.
		if again.event != "flight-1" && !slices.Contains(races, again.event) && !slices.Contains(paused, again.event) {
			t.Errorf("%s is called again, and its call was recorded before the kill", again.event)
		}
	}
	v.lost = lost
	v.require(t)
	if n := count(t, db, `SELECT max(n) FROM (SELECT count(*) AS n FROM forebay.approvals GROUP BY action_id) AS a`); n != 1 {
		t.Errorf("an action is asked for %d times", n)
	}
	if n := count(t, db, `SELECT count(*) FROM forebay.approvals WHERE state IN ('waiting', 'approved')`); n != 2 {
		t.Errorf("%d approvals are open, want those of waits-1 and moves-2", n)
	}
}
