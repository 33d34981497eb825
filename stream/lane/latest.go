package lane

import (
	"crypto/sha256"
	"hash/maphash"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// latest is for subscriptions with backlog: latest. It knows the newest snapshot of each version line and action name among all open
// actions of a partition, loaded or not. It is filled from the ledger before the first attempt; later actions are added. A nil latest
// is backlog: all, and takes all methods. Callers hold mu.
type latest struct {
	newest  map[lineKey]newest
	readTo  int64 // lane_seq; the loader's alone
	reading bool  // not all open actions are known yet: no head runs
}

// lineKey is a digest of entity, clock and action name.
type lineKey [16]byte

// newest has the lane_seq of the first and the last snapshot of a version line's newest version. The gate applies versions in
// order, so an action before the first is overtaken. A late action is overtaken if it is before the last.
type newest struct {
	first, last int64
	version     uint64 // a digest of the version
}

func newLatest() *latest { return &latest{newest: map[lineKey]newest{}, reading: true} }

func keyOf(a *ledger.Action) lineKey {
	text := make([]byte, 0, 128)
	for _, s := range []string{string(a.Entity), a.Version.Clock, a.Name} {
		text = append(append(text, s...), 0)
	}
	sum := sha256.Sum256(text)
	return lineKey(sum[:16])
}

var versionSeed = maphash.MakeSeed()

// note records an open action's version if it is the newest of its line. A delta overtakes nothing, as it lacks the state that it changes; nor
// does an action whose version the gate did not compare: one in arrival order, a late one, or one that an operator redrove or a replay runs again.
func (b *latest) note(a *ledger.Action) {
	if a.Payload != schemas.Snapshot || a.Late || a.Version.Kind == schemas.None || a.Version.Kind == "" || a.Reason == gate.ReasonArrival || a.Reason == gate.ReasonRedriven ||
		a.Reason == gate.ReasonReprocess {
		return
	}
	v := a.Version
	v.Kind, v.Clock = "", "" // Version.Compare ignores them, too
	key, now := keyOf(a), newest{a.LaneSeq, a.LaneSeq, maphash.Comparable(versionSeed, v)}
	was, known := b.newest[key]
	switch {
	case known && was.version == now.version:
		now.first, now.last = min(was.first, now.first), max(was.last, now.last)
	case known && was.last > now.last:
		return
	}
	b.newest[key] = now
}

// add records an action that was committed after the claim.
func (b *latest) add(a *ledger.Action) {
	if b != nil {
		b.note(a)
	}
}

// addPage records a page of open actions that the loader read from the ledger. After the last page all of them are known.
func (b *latest) addPage(actions []ledger.Action, more bool) {
	for i := range actions {
		a := &actions[i]
		b.note(a)
		b.readTo = a.LaneSeq
	}
	b.reading = more
}

func (b *latest) unread() bool { return b != nil && b.reading }

// overtaken reports whether an action is a snapshot that was certainly never attempted, and a newer one stands behind it.
func (b *latest) overtaken(e *entry) bool {
	a := &e.Action
	if b == nil || !e.DoubtEnd.IsZero() || a.Status != ledger.Pending && !a.Status.Waits() || a.Attempts > 0 || a.Payload != schemas.Snapshot || a.Reason == gate.ReasonRedriven {
		return false
	}
	n := b.newest[keyOf(a)]
	return n.first > a.LaneSeq || a.Late && n.last > a.LaneSeq
}

// ended forgets an action that has come to its end.
func (b *latest) ended(a *ledger.Action) {
	if b == nil {
		return
	}
	if key := keyOf(a); b.newest[key].last == a.LaneSeq {
		delete(b.newest, key)
	}
}

// supersede hands the overtaken actions at the front of a lane to the recorder as superseded, and reports whether there were any.
func (q *queues) supersede(la *lane) bool {
	b, e := la.partition.latest, la.head
	if !b.overtaken(e) {
		return false
	}
	c := &completion{e: e, res: supersededResult(e)}
	for next := e.next; next != nil && b.overtaken(next); next = next.next {
		c.behind = append(c.behind, next)
	}
	la.partition.beginBusy()
	q.results.add(c)
	return true
}

func supersededResult(e *entry) ledger.Result {
	return ledger.Result{Claim: e.lane.partition.claim, LaneSeq: e.LaneSeq, ID: e.ID, Status: ledger.Superseded}
}

// endSuperseded moves a lane on after its superseded actions were recorded.
func (q *queues) endSuperseded(c *completion) {
	la := c.e.lane
	la.state = idle
	la.partition.endBusy()
	for range 1 + len(c.behind) {
		q.log.Debug("superseded", "event_id", la.head.EventID, "source", la.head.Source, "entity", string(la.head.Entity), "action_id", la.head.ID)
		la.partition.latest.ended(&la.head.Action)
		q.pop(la)
	}
	q.superseded.Add(float64(1 + len(c.behind)))
	q.schedule(la)
}
