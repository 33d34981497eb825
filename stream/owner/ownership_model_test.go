package owner

import (
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// The ownership protocol as a machine of small steps, for [TestOwnershipExhaustively]: one partition with three records,
// two processes, Kafka's group, the ledger and an operator. Every step is one that some part of the system does at once as
// far as the others can see: a request that arrives, a transaction that commits, a callback. A process that is frozen is
// one of which no step comes for a while, so freezing and thawing are in it everywhere.
//
// What decides is the product's own: [decideStart] over [facts] with [marker] texts, the notes of [mirror], and [pulse]. What is
// told again here is the order of the steps, each beside the function that takes it; [TestModelFollowsTheOwner]
// compares it with what the real owner does.

// world is one state. It is comparable, and small.
type world struct {
	log    logState
	group  groupState
	ledger ledgerState
	before ledgerState // the ledger without its last transaction, where the search may lose that
	p      [2]process
	judge  judge
	left   budget
}

// logState is up to three records, the first of which may be deleted and the last of which may be cut off and replaced.
type logState struct {
	start, end int8
	full       int8 // how far it grows
	cut        int8 // where leader epoch 0 ends and 1 begins; none: there is only epoch 0
}

const none int8 = -1

// Who: nobody, the processes, or a process that died and is still in the group.
const (
	nobody int8 = 0
	dead   int8 = 3
)

// offer is the group's commit.
type offer struct {
	at int8 // none: there is no commit
	by int8 // byMirror, byNobody, or the number of the operator's reset
}

const (
	byMirror int8 = 0
	byNobody int8 = 9 // a mirror that a mutant leaves unmarked
)

type groupState struct {
	member   [2]bool // the coordinator counts the process in
	dead     bool    // and a member whose process is gone
	assigned int8    // who has the partition in the newest generation
	prep     bool    // a rebalance is under way
	commit   offer
	age      [2]int8 // ticks since a member's last heartbeat
}

func (g groupState) empty() bool { return !g.member[0] && !g.member[1] && !g.dead }

type ledgerState struct {
	holder   int8 // whose running claim the fence is of; nobody: of one that has ended
	lock     int8 // who has the fence's row FOR UPDATE
	claimed  bool
	released bool
	next     int8 // none before the first claim
	epoch    int8 // leader epoch of the record before next; none unknown
	high     int8
	decided  uint8 // records, see bit
	skipped  uint8 // records that a recorded seek, an accepted stop or the begin left out
	rewound  uint8 // records that a recorded seek goes back to
	stop     stopState
}

type stopState struct {
	kind             int8 // of modelStops; 0: there is none
	from, to, resume int8
	accepted         bool
}

var modelStops = []StopReason{"", StopBelowStart, StopAboveEnd, StopTruncated, StopHistory}

// Where a process's group client is; see group.go and kgo's joinAndSync and setupAssignedAndHeartbeat.
const (
	kOut     int8 = iota
	kJoining      // JoinGroup and SyncGroup are under way: kgo sends no commits meanwhile
	kSynced       // the session's callbacks are due
	kRevoke       // in the revoked callback
	kMoved        // in the assigned callback, giving up what a former member id claimed
	kStable
	kLost // in the lost callback
)

// Generations as a process knows them.
const (
	genNone int8 = iota
	genOld
	genNew // the group's current one, under a member id that the group knows
)

// Where an assignment's goroutine is; see claimer.own.
const (
	pcNone        int8 = iota
	pcLock             // Claim: wants the fence's row
	pcBeat             // confirm: heartbeat under the lock
	pcCommit           // broker.ask: the group's commit
	pcDecide           // broker.ask: the log; where; COMMIT
	pcReport           // owner.stop: store what it is stopped for
	pcStopped          // owner.stop: until it is time to look again
	pcMirrorFirst      // claimer.mirrorFirst: mirror with our marker before the first batch, where that is needed
	pcMirroring        // its OffsetCommit is on its way
	pcAttach           // Lanes.Open, loop.attach
	pcRun              // the loop reads and applies
	pcDrain            // giveUp: detached, Lanes.Close
	pcLast             // mirrorLast
	pcLasting          // its OffsetCommit is on its way
	pcRelease          // Ledger.Release
	pcUnused           // releaseUnused
)

// Why an assignment ends: its context's cause.
const (
	goesOn int8 = iota
	causeRevoked
	causeLost
	causeShutdown
)

type process struct {
	up, closing bool

	// The group client.
	k           int8
	got         bool // the session's assignment has the partition
	gen         int8 // that commits are sent with
	knowsMember bool // the owner has been told of the client's member id

	// The owner.
	pc      int8
	cause   int8
	found   offer // the commit that the claim has read
	early   int8  // the stored offset as a mutant reads it, before the lock
	stop    stopState
	fresh   bool // nobody has claimed since stop was found
	unclean bool
	former  bool // the claim was made under a member id that the client has not any more
	kept    bool // the lanes were not drained: the fence stays

	// The loop.
	next, epoch int8
	read        bool // a slice from next is on its way to the ledger
	ended       bool // the loop gave the claim up for good: fenced, or not known
	recheck     bool

	// The mirror.
	dirty, newest                          int8
	flush                                  int8 // 0 idle, 1 has taken what is dirty, 2 its OffsetCommit is on its way
	taken                                  int8
	dirtyFormer, newestFormer, takenFormer bool // noted under a former member id

	// An OffsetCommit on its way.
	msg message

	// Liveness and effects; see pulse.
	pulse int8 // generation of the pulse's session
	last  int8 // age of the last confirmation; none: never
	beat  int8 // age of the question on its way; none: none
	open  bool // the lanes
	call  bool // at a destination
	away  int8 // of the session by which others know that it lives
	cut   bool // it does not reach Postgres at all
	quits bool // its member is about to leave, since nobody could take it out

	late bool // judge: somebody else was assigned the partition, and claimed it, since this assignment was made
}

// What is known of a process by its session with Postgres; see ledger.Namespace.Present.
const (
	unwritten int8 = iota // its member has no row yet
	present
	freed  // its lock is free, and it takes itself for present
	absent // it does not any more
	judged // by another: its member is to leave
)

type message struct {
	from int8 // 0 none, 1 flush, 2 the owner
	at   int8
	ok   bool // its member and generation are the group's
	lost bool // nobody waits for its answer any more
	dead bool // nor is there the process that sent it
}

// judge remembers what no part of the system knows.
type judge struct {
	resets   int8  // the number of the newest
	pending  int8  // the reset that no claim has honoured yet; 0: none
	honoured uint8 // by number
	// accepted is the reset that an accepted stop was about. What is known of it, and excused: a claim that dies between its
	// commit and its mirror leaves the operator's commit, which the next one takes for a seek from where the acceptance led.
	accepted int8
	history  bool // the ledger has lost a transaction
}

// budget bounds a search.
type budget struct {
	faults, resets, restarts, moves, deletes, cuts, ticks int8
}

// bit is a record by its place and the leader epoch that it was written in.
func (l logState) bit(at int8) uint8 {
	if l.cut != none && at >= l.cut {
		return 1 << (at + 3)
	}
	return 1 << at
}

func (l logState) bits(from, to int8) (b uint8) {
	for at := max(from, 0); at < to; at++ {
		b |= l.bit(at)
	}
	return b
}

func (l logState) epochOf(at int8) int8 {
	if l.cut != none && at >= l.cut {
		return 1
	}
	return 0
}

// fits says whether reading on at a position continues what was read.
func (l logState) fits(next, epoch int8) bool {
	return next >= l.start && next <= l.end && (l.cut == none || epoch != 0 || next <= l.cut)
}

var modelHere = ledger.Partition{Topic: testTopic, TopicID: ledger.TopicID{1}}

// modelMarkers are the texts of our own commits at each offset.
var modelMarkers = func() (m [4]string) {
	for i := range m {
		m[i] = marker{namespace: testGroup, topic: modelHere.TopicID, offset: int64(i)}.String()
	}
	return m
}()

// commit is the offer as a broker tells it. Of the operator's tools the second keeps metadata that it found.
func (o offer) commit() *commit {
	switch {
	case o.at == none:
		return nil
	case o.by == byMirror:
		return &commit{int64(o.at), modelMarkers[o.at]}
	case o.by == 2:
		return &commit{int64(o.at), modelMarkers[(o.at+1)%4]}
	}
	return &commit{offset: int64(o.at)}
}

func (s stopState) report() *ledger.Stop {
	if s.kind == 0 {
		return nil
	}
	r := &ledger.Stop{ID: 1, Subscription: testGroup, Partition: modelHere, Kind: string(modelStops[s.kind]), From: int64(s.from), To: int64(s.to), Resume: int64(s.resume)}
	if s.accepted {
		r.Accepted = &ledger.Acceptance{}
	}
	return r
}

// facts are what a claim knows when it decides.
func (w *world) facts(found offer) facts {
	l := &w.ledger
	f := facts{namespace: testGroup, partition: modelHere, commit: found.commit(), start: int64(w.log.start), end: int64(w.log.end),
		standing: ledger.Standing{Stop: l.stop.report(), High: int64(l.high)}}
	if l.next == none {
		return f
	}
	f.stored = &ledger.Position{Offset: int64(l.next), LeaderEpoch: int32(l.epoch)}
	switch {
	case l.epoch == 0 && w.log.cut != none:
		f.epochEnd = new(int64(w.log.cut))
	case l.epoch >= 0:
		f.epochEnd = new(int64(w.log.end))
	}
	return f
}

// notes is the process's mirror, for its own methods; keep reads it back.
func (p *process) notes() *mirror {
	m := &mirror{dirty: map[reader.TopicPartition]mirrorPosition{}, newest: map[reader.TopicPartition]mirrorPosition{}}
	if p.dirty != none {
		m.dirty[modelAt] = noted(p.dirty, p.dirtyFormer)
	}
	if p.newest != none {
		m.newest[modelAt] = noted(p.newest, p.newestFormer)
	}
	return m
}

var modelAt = reader.TopicPartition{Topic: testTopic}

func noted(at int8, former bool) mirrorPosition {
	m := mirrorPosition{id: modelHere.TopicID, at: ledger.Position{Offset: int64(at), LeaderEpoch: -1}, member: "now"}
	if former {
		m.member = "former"
	}
	return m
}

// enter is the owner's word of another member id: nobody has judged that one, nor knows of it yet.
func (p *process) enter() { p.away, p.quits = unwritten, false }

func (p *process) keep(m *mirror) {
	read := func(from map[reader.TopicPartition]mirrorPosition) (int8, bool) {
		at, ok := from[modelAt]
		if !ok {
			return none, false
		}
		return int8(at.at.Offset), at.member == "former"
	}
	p.dirty, p.dirtyFormer = read(m.dirty)
	p.newest, p.newestFormer = read(m.newest)
}

func (p *process) note(at int8) {
	p.mirrored(p.former, at, (*mirror).set)
}

func (p *process) take(at int8) {
	p.mirrored(p.former, at, (*mirror).take)
}

// ours asks the real mirror whether what the flush has taken may go out under the client's member id.
func (p *process) ours() bool { return p.notes().ours(modelAt, noted(p.taken, p.takenFormer), "now") }

func (p *process) drop() {
	p.mirrored(false, none, func(m *mirror, tp reader.TopicPartition, _ mirrorPosition) { m.drop(tp) })
}

func (p *process) retryMirror() {
	p.mirrored(p.takenFormer, p.taken, func(m *mirror, tp reader.TopicPartition, at mirrorPosition) {
		m.keepForRetry(map[reader.TopicPartition]mirrorPosition{tp: at})
	})
}

// mirrored has the real mirror do something.
func (p *process) mirrored(former bool, at int8, do func(*mirror, reader.TopicPartition, mirrorPosition)) {
	m := p.notes()
	do(m, modelAt, noted(at, former))
	p.keep(m)
}

// rename is a new member id: what was claimed and noted under the one before is a former member's.
func (p *process) rename() {
	p.knowsMember = false
	p.former = p.pc >= pcDecide
	p.dirtyFormer, p.newestFormer, p.takenFormer = p.dirty != none, p.newest != none, p.taken != none
}

// sending says whether a commit holds mirror.sending.
func (p *process) sending() bool { return p.flush != 0 || p.pc == pcMirroring || p.pc == pcLasting }

const modelTick = time.Second

// alive asks the real pulse.
func (p *process) alive(timeout int8) bool {
	if p.away > freed || p.quits {
		return false
	}
	now := time.Unix(1000, 0)
	beats := pulse{timeout: time.Duration(timeout) * modelTick, now: func() time.Time { return now }}
	if p.pulse != genNone {
		beats.cur = &session{}
	}
	if p.last != none {
		beats.last = now.Add(-time.Duration(p.last) * modelTick)
	}
	return beats.Alive()
}

// confirm tells the real pulse of an answer.
func (p *process) confirm() {
	now := time.Unix(1000, 0)
	beats := pulse{now: func() time.Time { return now }}
	if p.last != none {
		beats.last = now.Add(-time.Duration(p.last) * modelTick)
	}
	beats.confirm(0, now.Add(-time.Duration(p.beat)*modelTick))
	p.last = int8(now.Sub(beats.last) / modelTick)
}

func (w world) swapped() world {
	other := func(who int8) int8 {
		if who == 1 || who == 2 {
			return 3 - who
		}
		return who
	}
	w.p[0], w.p[1] = w.p[1], w.p[0]
	w.group.member[0], w.group.member[1] = w.group.member[1], w.group.member[0]
	w.group.age[0], w.group.age[1] = w.group.age[1], w.group.age[0]
	w.group.assigned = other(w.group.assigned)
	w.ledger.holder, w.ledger.lock = other(w.ledger.holder), other(w.ledger.lock)
	w.before.holder, w.before.lock = other(w.before.holder), other(w.before.lock)
	return w
}

func (w world) String() string {
	l := w.ledger
	return fmt.Sprintf("log [%d,%d) cut %d; commit %+v; ledger next %d high %d decided %06b skipped %06b holder %d released %v stop %+v",
		w.log.start, w.log.end, w.log.cut, w.group.commit, l.next, l.high, l.decided, l.skipped, l.holder, l.released, l.stop)
}
