package owner

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is one planted change of the protocol.
type mutant int

const (
	asItIs mutant = iota
	fenceOff
	noHeartbeat
	beatsFirst
	beatsNewest
	readsLedgerFirst
	positionFromKafka
	absenceIsSeek
	trustsMarkers
	seekNotRecorded
	noMirrorFirst
	noMarker
	mirrorsFirst
	commitsAsAnybody
	keepsClaims
	releasesUndrained
	alwaysClean
	aliveIgnored
	readsOverCuts
	judgesEarly
	forgetsJudged
	staysUnknown
	leavesAlive
)

// search is one exhaustive walk.
type search struct {
	name    string
	left    budget
	timeout int8
	lossy   bool
	alone   bool
	absent  bool
	short   bool // one record
}

func (s search) records() int8 {
	if s.short {
		return 1
	}
	return 3
}

// found is where a walk ended: how many states there are, and the shortest way to the first that is wrong.
type found struct {
	states int
	wrong  string
	trace  []string
}

var modelSeed = maphash.MakeSeed()

// key names a state and its mirror image: the two processes are alike. 64 bits of a few million states: that two share a
// key has a chance of one in a million.
func key(w world) uint64 {
	return min(maphash.Comparable(modelSeed, w), maphash.Comparable(modelSeed, w.swapped()))
}

// walk visits every state, the nearest first, and stops at the first step that is wrong. Then it looks for states from
// which no run without any more faults ends well.
func (s search) walk(mu mutant) found {
	m := s.machine(mu)
	first := initial(s.left, s.records())
	v := visited{ids: map[uint64]uint32{key(first): 0}, from: []uint32{0}}
	level := []world{first}
	for at := uint32(0); len(level) > 0; {
		var next []world
		for _, w := range level {
			if m.finished(&w) {
				v.well = append(v.well, at)
			}
			for _, mv := range m.moves(w) {
				if mv.wrong != "" {
					return found{len(v.from), mv.wrong, append(v.trace(m, s, at), mv.text())}
				}
				if v.step(at, mv) {
					next = append(next, mv.to)
				}
			}
			at++
		}
		level = next
	}
	if at, ok := v.stuck(); ok {
		return found{len(v.from), "no run without any more faults decides everything or reports a stop", v.trace(m, s, at)}
	}
	return found{states: len(v.from)}
}

func (s search) machine(mu mutant) *machine {
	return &machine{mutant: mu, timeout: s.timeout, lossy: s.lossy, alone: s.alone, absent: s.absent}
}

// visited are the states so far, numbered as they were met.
type visited struct {
	ids  map[uint64]uint32 // by key
	from []uint32          // the state that each was first reached from
	well []uint32          // where nothing is left to do
	back [][2]uint32       // steps that are no faults: to, from
}

// step notes a step, and says whether it leads somewhere new.
func (v *visited) step(from uint32, mv move) bool {
	k := key(mv.to)
	to, seen := v.ids[k]
	if !seen {
		to = uint32(len(v.from))
		v.ids[k] = to
		v.from = append(v.from, from)
	}
	if !mv.fault && to != from {
		v.back = append(v.back, [2]uint32{to, from})
	}
	return !seen
}

// stuck is the nearest state from which no steps but faults lead to where nothing is left to do.
func (v *visited) stuck() (uint32, bool) {
	begins := make([]uint32, len(v.from)+1)
	for _, e := range v.back {
		begins[e[0]+1]++
	}
	for i := range v.from {
		begins[i+1] += begins[i]
	}
	froms, fill := make([]uint32, len(v.back)), slices.Clone(begins)
	for _, e := range v.back {
		froms[fill[e[0]]] = e[1]
		fill[e[0]]++
	}
	good := make([]bool, len(v.from))
	todo := v.well
	for _, at := range todo {
		good[at] = true
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range froms[begins[at]:begins[at+1]] {
			if !good[from] {
				good[from] = true
				todo = append(todo, from)
			}
		}
	}
	at := slices.Index(good, false)
	return uint32(max(at, 0)), at >= 0
}

func (mv move) text() string {
	if mv.who == 0 {
		return mv.what
	}
	return fmt.Sprintf("%c %s", '@'+mv.who, mv.what)
}

// trace walks to a state again and tells the steps.
func (v *visited) trace(m *machine, s search, to uint32) []string {
	var path []uint32
	for at := to; at != 0; at = v.from[at] {
		path = append(path, at)
	}
	w := initial(s.left, s.records())
	var steps []string
	for _, at := range slices.Backward(path) {
		for _, mv := range m.moves(w) {
			if id, seen := v.ids[key(mv.to)]; seen && id == at {
				steps = append(steps, mv.text())
				w = mv.to
				break
			}
		}
	}
	return steps
}

// finished says whether nothing is left to do: all is decided and mirrored, or the partition is stopped with a report.
func (m *machine) finished(w *world) bool {
	l := &w.ledger
	if w.log.end < w.log.full {
		return false
	}
	stopped, running := false, false
	for i := range w.p {
		p := &w.p[i]
		stopped = stopped || p.pc == pcStopped
		running = running || p.pc == pcRun && p.dirty == none && p.flush == 0 || p.pc == pcRun && m.timeout > 0
	}
	switch {
	case stopped && l.stop.kind != 0 && !l.stop.accepted:
		return w.judge.pending == 0 || modelStops[l.stop.kind] != StopHistory // the log does not fit the reset either
	case !running || w.judge.pending != 0:
		return false
	case w.judge.history && l.holder != nobody && l.next < w.log.full:
		return true // an owner that has nothing to write learns of what the ledger has lost with the next record, or the next claim
	case l.next != w.log.full || w.skips(w.log.full) != "":
		return false
	}
	return m.timeout > 0 || w.group.commit == offer{w.log.full, byMirror} || w.group.commit == offer{w.log.full, byNobody}
}

// The searches together are as large as a minute on a busy core allows; each has the faults that matter to what it is
// about. One process alone is searched deeper: most of what can go wrong needs no second one.
var modelSearches = []search{
	{name: "two owners, faults, a reset", left: budget{faults: 1, resets: 1, restarts: 1}},
	{name: "two owners, a move, a fault", left: budget{faults: 1, moves: 1}},
	{name: "two owners, time and calls", timeout: 2, short: true, left: budget{ticks: 3}},
	{name: "two owners, one loses Postgres alone", timeout: 2, short: true, absent: true, left: budget{faults: 1, ticks: 1}},
	{name: "one owner, faults, resets", alone: true, left: budget{faults: 2, resets: 2, deletes: 1, restarts: 1}},
	{name: "one owner, a log that is cut", alone: true, left: budget{faults: 1, resets: 1, cuts: 2, restarts: 1}},
	{name: "one owner, a ledger that loses a transaction", alone: true, lossy: true, left: budget{faults: 2}},
	{name: "one owner, time and calls", alone: true, timeout: 2, short: true, left: budget{faults: 1, ticks: 4}},
}

func TestOwnershipExhaustively(t *testing.T) {
	if testing.Short() {
		t.Skip("takes up to a minute")
	}
	states, began := 0, time.Now()
	for _, s := range modelSearches {
		f := s.walk(asItIs)
		states += f.states
		t.Logf("%-45s %8d states", s.name, f.states)
		if f.wrong != "" {
			t.Errorf("%s: %s:\n%s", s.name, f.wrong, strings.Join(f.trace, "\n"))
		}
	}
	t.Logf("%d states in %s", states, time.Since(began).Round(time.Second))
}

// What is planted must be found, for the reason that it was planted for. A claim that reads the group's commit before it
// has the lock is not among them: the heartbeat under the lock refuses all whose commit may have changed meanwhile.
func TestOwnershipSearchFindsMutants(t *testing.T) {
	two, alone := modelSearches[0], modelSearches[4]
	moves, calls, cut := modelSearches[1], modelSearches[2], modelSearches[5]
	away, killed := modelSearches[3], modelSearches[7]
	for _, tt := range []struct {
		name  string
		plant mutant
		in    search
		wrong string
	}{
		{"a batch does not look at the fence", fenceOff, two, "a batch passes the fence after a newer claim"},
		{"a claim sends no heartbeat", noHeartbeat, two, "a claim that comes late"},
		{"a claim sends its heartbeat before it has the lock", beatsFirst, two, "a claim that comes late"},
		{"a claim sends the heartbeat of the client's newest session", beatsNewest, two, "a claim that comes late"},
		{"a claim reads the ledger's position before it has the lock", readsLedgerFirst, moves, "the position moves without a seek|decided again"},
		{"the position is Kafka's", positionFromKafka, alone, "a seek is recorded that nobody made"},
		{"no commit is a seek to the start", absenceIsSeek, alone, "a seek is recorded that nobody made"},
		{"a marker is not compared with its offset", trustsMarkers, alone, "a reset is not honoured|a stop says that the ledger lost history"},
		{"a seek is not recorded", seekNotRecorded, alone, "a record is skipped silently|decided again"},
		{"a seek is not mirrored before the first batch", noMirrorFirst, alone, "a reset is applied twice"},
		{"a mirror has no marker", noMarker, alone, "a seek is recorded that nobody made"},
		{"a position is mirrored before its transaction", mirrorsFirst, alone, "a stop says that the ledger lost history"},
		{"a position is committed under any member id and after its claim", commitsAsAnybody, alone, "a reset is gone before any claim has read it"},
		{"what a former member claimed is kept", keepsClaims, alone, "a reset is gone before any claim has read it|no run without any more faults"},
		{"a fence is released before the lanes are drained", releasesUndrained, calls, "a claim is clean while"},
		{"an unclean claim is taken for a clean one", alwaysClean, killed, "a claim is clean while"},
		{"calls start without a pulse", aliveIgnored, calls, "an owner starts a call after a newer claim"},
		{"a process is judged while it takes itself for present", judgesEarly, away, "an owner starts a call after a newer claim"},
		{"one that was judged is present again", forgetsJudged, away, "an owner starts a call after a newer claim"},
		{"a member joins without the ledger and stays", staysUnknown, away, "no run without any more faults"},
		{"a member leaves while it takes itself for alive", leavesAlive, away, "an owner starts a call after a newer claim"},
		{"a log that was cut is read on", readsOverCuts, cut, "a record is skipped silently"},
	} {
		f := tt.in.walk(tt.plant)
		if f.wrong == "" || !slices.ContainsFunc(strings.Split(tt.wrong, "|"), func(w string) bool { return strings.Contains(f.wrong, w) }) {
			t.Errorf("%s: found %q after %d states:\n%s", tt.name, f.wrong, f.states, strings.Join(f.trace, "\n"))
			continue
		}
		t.Logf("%-65s %-62s %3d steps, %7d states", tt.name, f.wrong, len(f.trace), f.states)
	}
}
