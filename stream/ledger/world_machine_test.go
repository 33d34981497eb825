package ledger

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

var (
	historySeed = flag.Uint64("history.seed", 0, "play the history of this seed only; 0: some")
	historyFor  = flag.Duration("history.for", 0, "begin histories of the clock for so long; 0: a few, always the same, which come to everything")
)

const (
	fewHistories  = 8
	manyHistories = 30 // come to cuts at most statements; TestEveryStatement makes all of them
)

// everything is what histories must come to, few as they may be.
var everything = []string{"connection lost", "crash", "zombie", "window dropped", "held", "dead", "overflow", "asked", "endBackfill"}

// TestHistories plays random histories of a subscription: a log with duplicates, shuffles, holes, tampered, undecodable and
// poisoned records; processes with different policies (every word of theirs), filters and actions that take partitions from
// each other, rewind and skip, and end or lose a connection between any two statements of a transaction; an operator's word about
// what waits or is held; questions that are answered, or not; logs that are cut and grow on; windows that turn and are dropped;
// zombies that go on. After every step the ledger is what a model that never crashes says, and P1 to P6 hold.
func TestHistories(t *testing.T) {
	t.Parallel()
	pgtest.URL(t)
	const workers = 3 // they wait for the disk, mostly
	seeds, total := make(chan uint64), newStats()
	go func() {
		defer close(seeds)
		if *historySeed != 0 {
			seeds <- *historySeed
			return
		}
		first, end := uint64(1), time.Now().Add(*historyFor)
		if *historyFor > 0 {
			first = uint64(end.UnixNano()) % 1e9
		}
		for n := uint64(0); n < fewHistories || time.Now().Before(end); n++ {
			select {
			case seeds <- first + n:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Run("workers", func(t *testing.T) {
		for i := range workers {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					t.Run(fmt.Sprint(seed), func(t *testing.T) { // in a schema of its own: the view of one with many subscriptions is slow
						mine := newStats()
						newWorld(t, schemaFor(t), seed, mine).play(120)
						total.add(mine)
					})
				}
			})
		}
	})
	total.report(t)
}

// play plays n steps and lets things come to rest.
func (w *world) play(n int) {
	defer w.close()
	for range n {
		w.step()
	}
	w.rest()
}

func (w *world) step() {
	w.clock()
	part := int32(w.rng.IntN(partitions))
	if w.owner[part] == nil || w.rng.IntN(12) == 0 {
		w.claim(part, w.someone(), w.faulty())
		return
	}
	p, mine := w.holder(part)
	h := mine[w.rng.IntN(len(mine))]
	f := w.faulty()
	switch x := w.rng.IntN(100); {
	case x < 30:
		w.author.Extend(int(part), w.rng.IntN(12))
		w.apply(p, mine, f)
	case x < 35:
		for _, h := range mine {
			w.command(h)
		}
		w.applyCommand(h, f)
	case x < 43:
		w.endBackfill(h, f)
	case x < 60:
		w.record(p, mine, f)
	case x < 64:
		w.copies(h, f)
	case x < 69:
		w.pass(part)
	case x < 70:
		w.age(part)
	case x < 72:
		w.ask(h)
	case x < 77:
		w.expire(h, f)
	case x < 80:
		w.caughtUp(p, mine, f)
	case x < 81:
		w.tidy(h, f)
	case x < 82:
		w.release(h, f)
	case x < 86:
		w.sweep(p, f)
	case x < 91:
		if w.holds(h) {
			w.load(h)
		}
	case x < 93: // a new configuration, which processes of the old one survive for a while
		w.respec()
		w.claim(part, w.start(), f)
	case x < 94:
		w.die(p)
	case x < 96:
		w.cutLog(part)
	default:
		w.zombie()
	}
}

// someone is a process, new now and then.
func (w *world) someone() *process {
	if procs := w.alive(); len(procs) > 0 && (len(procs) > 2 || w.rng.IntN(4) > 0) {
		return procs[w.rng.IntN(len(procs))]
	}
	return w.start()
}

// zombie does what an owner does with a claim that is not its own any more: not a byte of the ledger changes (P6).
func (w *world) zombie() {
	if len(w.zombies) == 0 {
		return
	}
	z := w.zombies[w.rng.IntN(len(w.zombies))]
	before := w.tables()
	w.log("the zombie of partition %d in process %d:", z.part, z.proc.id)
	f := pick(w.rng, noFault, cutOff)
	switch w.rng.IntN(9) {
	case 0:
		w.apply(z.proc, []*holding{z}, f)
	case 1:
		w.record(z.proc, []*holding{z}, f)
	case 2:
		w.copies(z, f)
	case 3:
		w.expire(z, f)
	case 4:
		w.caughtUp(z.proc, []*holding{z}, f)
	case 5:
		w.release(z, f)
	case 6:
		w.applyCommand(z, f)
	case 7:
		w.endBackfill(z, f)
	case 8:
		w.tidy(z, f)
	}
	if d := same(before, w.tables()); d != "" {
		w.fatalf("P6: a zombie has written\n%s", d)
	}
	w.stats.came["zombie"]++
}

// rest lets one process take everything, read to the end, end all waits and all actions. What then is not needed any more
// can be dropped, and is.
func (w *world) rest() {
	w.log("rest")
	p := w.start()
	for part := range int32(partitions) {
		for w.owner[part] == nil || w.owner[part].proc != p {
			w.claim(part, p, noFault)
		}
		h := w.owner[part]
		w.load(h)
		for h.claim.Next.Offset < w.author.End[part] {
			w.apply(p, []*holding{h}, noFault)
		}
		for w.waits(part) {
			w.pass(part)
			w.ask(h)
			w.expire(h, noFault)
			w.clock()
		}
		w.finish(h)
	}
	w.caughtUpAll(p)
	w.sweepAll(p) // a turn may be due
	w.exec(`UPDATE windows SET opened_at = opened_at - interval '1000 days', closed_at = closed_at - interval '1000 days'
		WHERE subscription = $1 AND state = 'closed'`, w.subscription)
	for part := range int32(partitions) {
		w.tidy(w.owner[part], noFault)
	}
	w.sweepAll(p)
	for _, id := range w.windows()[1:] {
		if w.model.needs(id) == "" {
			w.fatalf("nobody needs window %d, and it is not dropped", id)
		}
	}
	for part := range int32(partitions) {
		w.claim(part, w.start(), noFault) // and whoever comes next finds its way
		if h := w.owner[part]; h != nil {
			w.load(h)
		}
	}
}

func (w *world) sweepAll(p *process) {
	due := w.turnDue()
	if _, err := p.f.l.Sweep(w.t.Context(), SweepConfig{Horizon: time.Hour, Done: time.Hour, Dead: time.Hour}); err != nil {
		w.fatalf("sweep: %v", err)
	}
	w.swept(due, true)
}

func (w *world) waits(part int32) bool {
	for _, v := range w.model.parts[part].waits {
		if v.Decision == gate.Buffered {
			return true
		}
	}
	return false
}

// finish ends every action of a claim.
func (w *world) finish(h *holding) {
	var results []Result
	var held []modelResult
	actions := w.model.parts[h.part].actions
	for _, lane := range slices.Sorted(maps.Keys(actions)) {
		if actions[lane].status != Done {
			r := Result{Claim: h.claim, LaneSeq: lane, Status: Done, Attempt: actions[lane].attempts + 1}
			results, held = append(results, r), append(held, modelResult{h.part, r})
		}
	}
	if fenced, err := h.proc.f.n.Record(w.t.Context(), results); err != nil || len(fenced) > 0 {
		w.fatalf("record: %v %v", fenced, err)
	}
	after := w.model.clone()
	after.record(held)
	w.check("the last results", after)
}

// caughtUpAll notes that the subscription has been read to the end, long after any window was closed.
func (w *world) caughtUpAll(p *process) {
	var claims []*Claim
	after := w.model.clone()
	now := time.Now().Truncate(time.Microsecond)
	for part := range int32(partitions) {
		claims = append(claims, w.owner[part].claim)
		after.parts[part].processed = later(after.parts[part].processed, now)
	}
	if err := p.f.n.CaughtUp(w.t.Context(), now, claims); err != nil {
		w.fatalf("caught up: %v", err)
	}
	w.check("the end", after)
}

func (s *stats) add(o *stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.histories++
	for k, n := range o.ops {
		s.ops[k] += n
	}
	for k, n := range o.came {
		s.came[k] += n
	}
	for k, points := range o.cuts {
		if s.cuts[k] == nil {
			s.cuts[k] = map[int]int{}
		}
		for at, n := range points {
			s.cuts[k][at] += n
		}
	}
}

// report says what came about, and fails where the histories do not try what they are for.
func (s *stats) report(t *testing.T) {
	t.Logf("%d histories: %v, %v", s.histories, s.ops, s.came)
	for _, kind := range slices.Sorted(maps.Keys(s.cuts)) {
		t.Logf("%s was cut at %d places", kind, len(s.cuts[kind]))
	}
	if t.Failed() || *historySeed != 0 {
		return
	}
	for _, what := range everything {
		if s.came[what] == 0 {
			t.Errorf("no history came to: %s", what)
		}
	}
	if s.histories < manyHistories {
		return
	}
	for kind, places := range map[string]int{"claim": 10, "apply": 8, "record": 5, "copy": 3, "expire": 5, "command": 2, "backfill": 2, "release": 2, "sweep": 4} {
		if len(s.cuts[kind]) < places {
			t.Errorf("%s was cut at %d places, want at least %d", kind, len(s.cuts[kind]), places)
		}
	}
	for _, what := range []string{"claimed by another between two tries", "cut under what waits", string(gate.ReasonRedriven), string(gate.ReasonDiscarded)} {
		if s.came[what] == 0 {
			t.Errorf("no history came to: %s", what)
		}
	}
}
