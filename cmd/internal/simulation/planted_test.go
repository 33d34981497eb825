package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// planted is a history with nothing wrong in it, for a test to break: entity s-1 has five events, sent and told 2xx a second
// apart, and each was called and answered half a second later.
type planted struct {
	history
	delivered []*delivered
	calls     []*call
}

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

func plant(source kind) *planted {
	p := &planted{history: history{policy: gate.Policy{GapWait: 10 * time.Second, Then: gate.ThenSkip}, payload: schemas.Snapshot,
		good: map[string]bool{}, excused: map[string]string{}}}
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= 5; n++ {
		e := newEvent(rng, source, 1, n, 300)
		p.good[e.entity] = true
		p.delivered = append(p.delivered, &delivered{event: e, sent: []time.Time{at(float64(n))}, accepted: at(float64(n) + 0.1), statuses: []int{202}})
		p.calls = append(p.calls, &call{process: "stream-1", key: "key of " + e.id, id: e.id, entity: e.entity, attempt: 1, sum: e.sum,
			begin: at(float64(n) + 0.5), end: at(float64(n) + 0.6), over: at(float64(n) + 0.6), status: 200, acted: true})
	}
	return p
}

// repeatCall adds a call like the n-th, that begins at a time and takes a tenth of a second.
func (p *planted) repeatCall(n int, seconds float64) *call {
	c := *p.calls[n-1]
	c.begin, c.end, c.attempt, c.status = at(seconds), at(seconds+0.1), c.attempt+1, 200
	p.calls = append(p.calls, &c)
	return &c
}

// forget removes the n-th event and its calls from the history.
func (p *planted) forget(n int) {
	id := fmt.Sprintf("%s-%d", p.delivered[0].entity, n)
	p.delivered = slices.DeleteFunc(p.delivered, func(t *delivered) bool { return t.id == id })
	p.calls = slices.DeleteFunc(p.calls, func(c *call) bool { return c.id == id })
}

func (p *planted) move(n int, seconds float64) {
	c := p.calls[n-1]
	c.begin, c.end = at(seconds), at(seconds+0.1)
}

func (p *planted) rulesBroken() (found []rule) {
	p.history.delivered, p.history.calls = p.delivered, p.calls
	for _, f := range judge(p.history) {
		if !slices.Contains(found, f.rule) {
			found = append(found, f.rule)
		}
	}
	return found
}

// TestJudge plants one fault in a history, and what looks like one and is none.
func TestJudge(t *testing.T) {
	t.Parallel()
	kill := fact{node: "stream-1", what: "a stream process is killed", begin: at(2.55), end: at(9)}
	for _, test := range []struct {
		name   string
		source kind
		break_ func(p *planted)
		want   []rule
	}{
		{"nothing", sequence, func(*planted) {}, nil},
		{"nothing, by time", timestamp, func(*planted) {}, nil},
		{"nothing, by arrival", arrival, func(*planted) {}, nil},

		{"never called", arrival, func(p *planted) { p.calls = p.calls[:4] }, []rule{lost}},
		{"called, and never answered", arrival, func(p *planted) { p.calls[4].status, p.calls[4].end = 0, time.Time{} }, []rule{lost}},
		{"called, and answered 500", arrival, func(p *planted) { p.calls[4].status = 500 }, []rule{lost}},
		{"never called, and never accepted", arrival, func(p *planted) { p.calls, p.delivered[4].accepted = p.calls[:4], time.Time{} }, nil},
		{"never called, and an operator knows why", arrival, func(p *planted) { p.calls, p.forgiven = p.calls[:4], map[string]bool{p.delivered[4].id: true} }, nil},
		{"never called, and its record went, but it was decided", arrival, func(p *planted) { p.calls, p.excused = p.calls[:4], map[string]string{p.delivered[4].id: "cut"} }, []rule{lost}},
		{"a snapshot that came after a newer one", timestamp, func(p *planted) {
			p.calls, p.delivered[3].sent[0], p.delivered[3].accepted = slices.Delete(p.calls, 3, 4), at(6), at(6.1)
		}, nil},
		{"a snapshot that was there before a newer one", timestamp, func(p *planted) { p.calls = slices.Delete(p.calls, 3, 4) }, []rule{lost}},
		{"the newest snapshot", timestamp, func(p *planted) { p.calls, p.latest = p.calls[:4], true }, []rule{lost}},
		{"a snapshot that was superseded", timestamp, func(p *planted) { p.calls, p.latest = slices.Delete(p.calls, 3, 4), true }, nil},
		{"a delta is never superseded", timestamp, func(p *planted) {
			p.calls, p.latest, p.payload = slices.Delete(p.calls, 3, 4), true, schemas.Delta
		}, []rule{lost}},
		{"behind a gap that parks", sequence, func(p *planted) { p.forget(2); p.policy.Then = gate.ThenPark; p.calls = p.calls[:1] }, nil},
		{"behind a gap that is skipped", sequence, func(p *planted) { p.forget(2); p.calls = p.calls[:1] }, []rule{lost}},
		{"behind a gap that gives up", sequence, func(p *planted) { p.forget(2); p.policy.Then = gate.ThenDeadLetter; p.calls = p.calls[:1] }, nil},
		{"given up behind a gap that was filled in time", sequence, func(p *planted) {
			p.delivered[1].sent[0], p.delivered[1].accepted, p.policy.Then = at(8), at(8.1), gate.ThenDeadLetter
			p.calls = p.calls[:1]
		}, []rule{lost}},

		{"another key", arrival, func(p *planted) { p.repeatCall(3, 3.8).key = "another" }, []rule{twice}},
		{"a key of another's", arrival, func(p *planted) { p.calls[3].key = p.calls[2].key }, []rule{twice}},
		{"called again, and nothing had failed", arrival, func(p *planted) { p.repeatCall(5, 6) }, []rule{twice}},
		{"called again after a 500", arrival, func(p *planted) { p.calls[4].status = 500; p.repeatCall(5, 6) }, nil},
		{"called again, and nobody had heard the answer", arrival, func(p *planted) { p.calls[4].status, p.calls[4].end = 0, time.Time{}; p.repeatCall(5, 6) }, nil},
		{"called again by another, and killed in the call", arrival, func(p *planted) {
			p.facts = []fact{kill}
			p.calls = p.calls[:2]
			for n, s := range []float64{2.8, 3.5, 4.5, 5.5} {
				c := *p.calls[1]
				if n > 0 {
					e := p.delivered[n+1]
					c.key, c.id, c.sum = "key of "+e.id, e.id, e.sum
				}
				c.begin, c.end, c.process = at(s), at(s+0.1), "stream-2"
				p.calls = append(p.calls, &c)
			}
		}, nil},
		{"called again by another, and killed before the record", arrival, func(p *planted) {
			k := kill
			k.begin = at(5.6).Add(recordLinger)
			p.facts = []fact{k}
			p.repeatCall(5, 6).process = "stream-2"
		}, nil},
		{"called again by another, and killed after the record", arrival, func(p *planted) {
			k := kill
			k.begin = at(5.7)
			p.facts = []fact{k}
			p.repeatCall(5, 6).process = "stream-2"
		}, []rule{twice}},
		{"called again by another, and somebody else was killed", arrival, func(p *planted) {
			k := kill
			k.node, k.begin = "stream-3", at(5.55)
			p.facts = []fact{k}
			p.repeatCall(5, 6).process = "stream-2"
		}, []rule{twice}},
		{"called again as partitions change hands", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: moved, begin: at(5.55), end: at(7)}}
			p.repeatCall(5, 6).process = "stream-2"
		}, []rule{twice}},
		{"called again, and the ledger was away", arrival, func(p *planted) {
			p.facts = []fact{{what: ledgerAway, begin: at(5), end: at(6)}}
			p.repeatCall(5, 6.5)
		}, nil},
		{"called again, and the ledger was back before", arrival, func(p *planted) {
			p.facts = []fact{{what: ledgerAway, begin: at(5), end: at(5.55)}}
			p.repeatCall(5, 6.5)
		}, []rule{twice}},

		{"after the next", arrival, func(p *planted) { p.move(3, 4.7) }, []rule{unordered}},
		{"while the one before is under way", arrival, func(p *planted) { p.calls[2].end = at(4.7) }, []rule{unordered}},
		{"before the one before has succeeded", arrival, func(p *planted) { p.calls[2].status = 500; p.repeatCall(3, 4.55) }, []rule{unordered}},
		{"again after the next", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: kill.what, begin: at(3.55), end: at(9)}}
			p.repeatCall(3, 6)
		}, []rule{unordered}},
		{"while another process is at it", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: "a stream process is frozen", begin: at(5.52), end: at(9)}}
			p.calls[4].over, p.calls[4].end, p.calls[4].status = at(9), time.Time{}, 0
			p.repeatCall(5, 7).process = "stream-2"
		}, []rule{unordered}},
		{"after another process's time is over", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: "a stream process is frozen", begin: at(5.52), end: at(19)}}
			p.calls[4].over, p.calls[4].end, p.calls[4].status = at(19), time.Time{}, 0
			p.repeatCall(5, 10.6).process = "stream-2"
		}, nil},
		{"in the order in which they came", arrival, func(p *planted) {
			p.delivered[2].sent[0], p.delivered[2].accepted = at(4), at(4.3)
			p.move(3, 4.7)
		}, nil},

		{"an older state", timestamp, func(p *planted) { p.delivered[2].sent[0], p.delivered[2].accepted = at(4), at(4.3); p.move(3, 4.7) }, []rule{stale}},
		{"an older delta, marked", timestamp, func(p *planted) {
			p.payload, p.delivered[2].sent[0], p.delivered[2].accepted = schemas.Delta, at(4), at(4.3)
			p.move(3, 4.7)
			p.calls[2].late = true
		}, nil},
		{"an older delta, unmarked", timestamp, func(p *planted) {
			p.payload, p.delivered[2].sent[0], p.delivered[2].accepted = schemas.Delta, at(4), at(4.3)
			p.move(3, 4.7)
		}, []rule{stale}},

		{"a forged one is told 202", arrival, func(p *planted) {
			e := *p.delivered[0].event
			e.forged = true
			p.delivered = append(p.delivered, &delivered{event: &e, sent: []time.Time{at(1)}, statuses: []int{202}})
		}, []rule{forged}},
		{"a forged one is told 401", arrival, func(p *planted) {
			e := *p.delivered[0].event
			e.forged = true
			p.delivered = append(p.delivered, &delivered{event: &e, sent: []time.Time{at(1)}, statuses: []int{401}})
		}, nil},
		{"called for what nobody has sent", arrival, func(p *planted) { p.delivered = p.delivered[:4] }, []rule{forged}},
		{"called with other bytes", arrival, func(p *planted) { p.calls[1].sum[0] ^= 1 }, []rule{forged}},
		{"called for another entity", arrival, func(p *planted) { p.calls[1].entity = "s-7" }, []rule{forged}},
		{"called before it was sent", arrival, func(p *planted) { p.move(1, 0.5) }, []rule{forged}},

		{"a gap, waited for", sequence, func(p *planted) { p.forget(2); p.move(2, 13); p.move(3, 13.2); p.move(4, 13.4) }, nil},
		{"a gap, not waited for", sequence, func(p *planted) { p.forget(2) }, []rule{early}},
		{"a gap that parks", sequence, func(p *planted) {
			p.forget(2)
			p.policy.Then = gate.ThenPark
			p.move(2, 13)
			p.move(3, 13.2)
			p.move(4, 13.4)
		}, []rule{early}},
		{"a gap that gives up", sequence, func(p *planted) {
			p.forget(2)
			p.policy.Then = gate.ThenDeadLetter
			p.move(2, 13)
			p.move(3, 13.2)
			p.move(4, 13.4)
		}, []rule{early}},
		{"a filler in time, skipped", sequence, func(p *planted) {
			p.delivered[1].sent[0], p.delivered[1].accepted, p.calls[1].late = at(8), at(8.1), true
			p.move(3, 13)
			p.move(4, 13.2)
			p.move(5, 13.4)
			p.move(2, 14)
			p.policy.LateSnapshots = true
		}, []rule{early}},
		{"a filler that is late", sequence, func(p *planted) {
			p.delivered[1].sent[0], p.delivered[1].accepted, p.calls[1].late = at(15), at(15.1), true
			p.move(3, 13)
			p.move(4, 13.2)
			p.move(5, 13.4)
			p.move(2, 15.2)
			p.policy.LateSnapshots = true
		}, nil},
		{"a filler that is late, and not wanted", sequence, func(p *planted) {
			p.delivered[1].sent[0], p.delivered[1].accepted, p.calls[1].late = at(15), at(15.1), true
			p.move(3, 13)
			p.move(4, 13.2)
			p.move(5, 13.4)
			p.move(2, 15.2)
		}, []rule{stale}},
		{"a filler that is late, unmarked", sequence, func(p *planted) {
			p.delivered[1].sent[0], p.delivered[1].accepted = at(15), at(15.1)
			p.move(3, 13)
			p.move(4, 13.2)
			p.move(5, 13.4)
			p.move(2, 15.2)
			p.policy.LateSnapshots = true
		}, []rule{stale}},

		{"cut off for too long", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: noBrokers, begin: at(-2), end: at(5)}}
		}, []rule{zombie}},
		{"cut off for a while", arrival, func(p *planted) { p.facts = []fact{{node: "stream-1", what: noBrokers, begin: at(0), end: at(7)}} }, nil},
		{"taken for gone", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: takenForGone, begin: at(-2), end: at(5)}}
		}, []rule{zombie}},
		{"taken for gone while a call was held up", arrival, func(p *planted) {
			p.facts = []fact{{node: "stream-1", what: takenForGone, begin: at(-2), end: at(5)}, {node: "stream-1", what: noAgent, begin: at(-3), end: at(5)}}
		}, nil},
		{"another one cut off", arrival, func(p *planted) { p.facts = []fact{{node: "stream-2", what: noBrokers, begin: at(-9), end: at(7)}} }, nil},

		{"nothing in its way", arrival, func(p *planted) { p.move(5, 9) }, []rule{heldUp}},
		{"a fault in its way", arrival, func(p *planted) { p.facts = []fact{{what: "brokers", begin: at(1), end: at(2)}}; p.move(5, 9) }, nil},
		{"its own agent in its way", arrival, func(p *planted) { p.good[p.delivered[0].entity] = false; p.move(5, 9) }, nil},
		{"the one before in its way", arrival, func(p *planted) { p.calls[3].end = at(8.9); p.move(5, 9) }, nil},
	} {
		p := plant(test.source)
		test.break_(p)
		if got := p.rulesBroken(); !slices.Equal(got, test.want) {
			t.Errorf("%s: found %q, want %q: %v", test.name, got, test.want, judge(p.history))
		}
	}
}
