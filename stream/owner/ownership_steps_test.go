package owner

import (
	"errors"
	"slices"
)

// machine says which steps a world can take.
type machine struct {
	mutant  mutant
	timeout int8 // of sessions, in ticks; 0: time is not looked at, and a member may be expelled at any time
	lossy   bool // the ledger may lose its last transaction
	alone   bool // there is one process only
	absent  bool // processes may lose the session by which others know that they live, or all of Postgres
	now     []move
	from    world
}

// move is one step and what it leads to.
type move struct {
	who   int8 // 0: nobody's in particular
	what  string
	to    world
	fault bool   // no run has to take it for things to go on
	wrong string // the step breaks this
}

func initial(b budget, records int8) world {
	w := world{left: b}
	w.log = logState{end: records, full: records, cut: none}
	w.group.commit.at = none
	w.ledger = ledgerState{next: none, epoch: none}
	w.before = w.ledger
	for i := range w.p {
		w.p[i].forget()
	}
	return w
}

// forget clears what a process has in memory, but for what is on its way.
func (p *process) forget() {
	*p = process{up: p.up, found: offer{at: none}, early: none, next: none, epoch: none, dirty: none, newest: none, taken: none,
		pulse: genNone, last: none, beat: none, msg: p.msg, call: p.call, knowsMember: true}
	if p.msg.from != 0 {
		p.msg.lost = true
	}
}

// moves are all steps out of a world.
func (m *machine) moves(w world) []move {
	m.now, m.from = m.now[:0], w
	for i := range w.p {
		m.client(i)
		m.claim(i)
		m.runs(i)
		m.mirrors(i)
		m.lives(i)
		m.present(i)
		m.cuts(i)
		m.restarts(i)
	}
	m.coordinator()
	m.operator()
	m.accidents()
	return m.now
}

// try adds a step; do changes a copy of the world and says what is wrong with it.
func (m *machine) try(who int, what string, do func(w *world, p *process) string) {
	w := m.from
	var p *process
	if who >= 0 {
		p = &w.p[who]
	}
	wrong := do(&w, p)
	m.add(who, what, w, false, wrong)
}

// fault is try for what costs a fault.
func (m *machine) fault(who int, what string, do func(w *world, p *process) string) {
	if m.from.left.faults == 0 {
		return
	}
	w := m.from
	w.left.faults--
	var p *process
	if who >= 0 {
		p = &w.p[who]
	}
	wrong := do(&w, p)
	m.add(who, what, w, true, wrong)
}

func (m *machine) add(who int, what string, w world, fault bool, wrong string) {
	if wrong == "" {
		wrong = w.wrong()
	}
	if m.lossy && w.ledger != m.from.ledger && w.judge.history == m.from.judge.history {
		w.before = m.from.ledger
		w.before.lock = nobody
	}
	m.now = append(m.now, move{int8(who + 1), what, w, fault, wrong})
}

func ok(do func(w *world, p *process)) func(w *world, p *process) string {
	return func(w *world, p *process) string { do(w, p); return "" }
}

// wrong is what must hold in every state.
func (w *world) wrong() string {
	if n := w.judge.pending; n != 0 && w.group.commit.by != n {
		return "a reset is gone before any claim has read it"
	}
	return ""
}

// client is what kgo does with its membership, and the owner's callbacks: assigned, revoked, lost.
func (m *machine) client(i int) {
	p, g := &m.from.p[i], &m.from.group
	committing := p.msg.from != 0 && !p.msg.lost // kgo holds its join back until the answer
	switch {
	case !p.up:
	case p.k == kOut && !p.closing && !p.cut: // claimer.awaitLedger
		m.try(i, "joins", ok(func(w *world, p *process) {
			p.rename() // under the id that was lost it is refused first
			p.knowsMember = true
			p.enter()
			w.join(i)
		}))
	case p.k == kJoining && !g.member[i]: // JoinGroup: UNKNOWN_MEMBER_ID; kgo joins again as somebody else, and says so to nobody
		m.try(i, "is not known when it joins, and joins under another id", ok(func(w *world, p *process) {
			p.rename()
			w.join(i)
		}))
	case p.k == kSynced && p.pc != pcNone && !p.got:
		m.try(i, "is told that the partition is revoked", ok(func(w *world, p *process) { p.k = kRevoke; p.end(causeRevoked) }))
	case p.k == kSynced && !p.knowsMember && p.pc != pcNone && m.mutant != keepsClaims: // owner.assigned: what a former member claimed is lost
		m.try(i, "is told of another member id and gives its claim up", ok(func(w *world, p *process) {
			p.k, p.pulse, p.last = kMoved, genNone, none
			p.end(causeLost)
		}))
	case p.k == kSynced, p.k == kRevoke && p.pc == pcNone, p.k == kMoved && p.pc == pcNone:
		m.try(i, "is told its session", ok(func(w *world, p *process) { w.assigned(i) }))
	case p.k == kLost && p.pc == pcNone:
		m.try(i, "is out of the group", ok(func(w *world, p *process) { p.k, p.gen = kOut, genNone }))
	case p.k == kStable && !g.member[i]: // a heartbeat is answered UNKNOWN_MEMBER_ID
		m.try(i, "is told that the group has lost it", ok(func(w *world, p *process) {
			p.k, p.pulse, p.last = kLost, genNone, none
			p.end(causeLost)
		}))
	case p.k == kStable && g.prep && !p.closing && !committing: // REBALANCE_IN_PROGRESS
		m.try(i, "joins the rebalance", ok(func(w *world, p *process) { p.k = kJoining }))
	}
	if p.k == kStable && !g.member[i] && !p.closing && !committing && m.from.left.faults > 0 {
		// It knew of a rebalance before it was expelled: its JoinGroup is the first to be refused.
		m.fault(i, "joins the rebalance that it was expelled from", ok(func(w *world, p *process) { p.k = kJoining }))
	}
}

func (w *world) join(i int) {
	w.p[i].k = kJoining
	w.group.member[i], w.group.prep, w.group.age[i] = true, true, 0
}

// assigned is the assigned callback: pulse.joined, and an assignment where there is a new one.
func (w *world) assigned(i int) {
	p := &w.p[i]
	rejoin := p.k == kRevoke && w.group.member[i]
	got := p.got
	if !p.knowsMember {
		p.enter()
	}
	p.k, p.knowsMember, p.pulse, p.got = kStable, true, p.gen, false
	if got && p.pc == pcNone && !p.closing {
		p.pc, p.cause, p.late = pcLock, goesOn, false
	}
	if rejoin { // kgo joins again at once, so that what it gave up can be given on
		p.k, w.group.prep = kJoining, true
	}
}

// end ends the assignment's context; the first cause stands.
func (p *process) end(cause int8) {
	if p.pc != pcNone && p.cause == goesOn {
		p.cause = cause
	}
}

// coordinator is the group's.
func (m *machine) coordinator() {
	g := &m.from.group
	if g.dead {
		m.try(-1, "the session of a dead process ends", ok(func(w *world, _ *process) {
			w.group.dead = false
			for i := range w.p {
				w.p[i].msg.ok = w.p[i].msg.ok && !w.p[i].msg.dead
			}
			w.left1(dead)
		}))
	}
	m.rebalance()
	for i := range m.from.p {
		if !g.member[i] {
			continue
		}
		expel := ok(func(w *world, p *process) { w.expel(i) })
		switch {
		case m.timeout > 0 && g.age[i] >= m.timeout:
			m.add2(i, "its session ends", expel)
		case m.timeout == 0:
			m.fault(i, "is expelled from the group", expel)
		}
	}
}

func (m *machine) add2(who int, what string, do func(w *world, p *process) string) {
	w := m.from
	wrong := do(&w, &w.p[who])
	m.add(who, what, w, true, wrong)
}

func (w *world) expel(i int) {
	p := &w.p[i]
	w.group.member[i], w.group.age[i] = false, 0
	w.old(i)
	p.msg.ok = false
	w.left1(int8(i) + 1)
}

// old makes what a process knows of its generation old.
func (w *world) old(i int) {
	p := &w.p[i]
	if p.gen == genNew {
		p.gen = genOld
	}
	if p.pulse == genNew {
		p.pulse = genOld
	}
}

// left1 is the group without a member.
func (w *world) left1(who int8) {
	g := &w.group
	if g.assigned == who {
		g.assigned = nobody
	}
	g.prep = !g.empty()
}

// rebalance ends with a new generation, once all members have joined it.
func (m *machine) rebalance() {
	g := &m.from.group
	if !g.prep || g.dead || g.empty() {
		return
	}
	for i := range m.from.p {
		if g.member[i] && m.from.p[i].k != kJoining {
			return
		}
	}
	for to := range m.from.p {
		if !g.member[to] {
			continue
		}
		if holder := g.assigned; holder != nobody && holder != int8(to)+1 {
			if m.from.left.moves == 0 {
				continue
			}
			w := m.from
			w.left.moves--
			w.generation(nobody)
			m.add(-1, "the group takes the partition from its member", w, true, "")
			continue
		}
		w := m.from
		w.generation(int8(to) + 1)
		m.add(to, "is given the partition by a new generation", w, false, "")
	}
}

func (w *world) generation(to int8) {
	w.group.prep, w.group.assigned = false, to
	for i := range w.p {
		p := &w.p[i]
		w.old(i)
		p.msg.ok = false
		if w.group.member[i] {
			p.k, p.gen, p.got = kSynced, genNew, to == int8(i)+1
			w.group.age[i] = 0
			if p.got {
				p.late = false
			}
		}
	}
}

// claim is claimer.own: claimOnce, confirm, run, giveUp.
func (m *machine) claim(i int) {
	p, l := &m.from.p[i], &m.from.ledger
	me := int8(i) + 1
	if !p.up || m.unreached(i) {
		return
	}
	ended := p.cause != goesOn
	unlock := func(w *world, p *process, pc int8) {
		w.ledger.lock = nobody
		if p.pc, p.found = pc, (offer{at: none}); p.cause != goesOn {
			p.pc = pcNone
		}
	}
	switch p.pc {
	case pcLock:
		switch {
		case ended:
			m.try(i, "gives its claim up", ok(func(w *world, p *process) { w.done(i) }))
		case m.mutant == readsLedgerFirst && p.early == none && l.next != none:
			m.try(i, "reads the ledger's position", ok(func(w *world, p *process) { p.early = l.next }))
		case m.mutant == beatsFirst && p.early == none:
			if p.pulse == genNew {
				m.try(i, "heartbeat before the lock: a member", ok(func(w *world, p *process) { p.early = 0 }))
			}
		case l.lock == nobody:
			m.try(i, "locks the fence", ok(func(w *world, p *process) { w.ledger.lock, p.pc = me, pcBeat }))
		}
	case pcBeat:
		gen := p.pulse
		if m.mutant == beatsNewest {
			gen = p.gen
		}
		if gen == genNew || m.mutant == beatsFirst || m.mutant == noHeartbeat {
			m.try(i, "heartbeat under the lock: a member", ok(func(w *world, p *process) { p.pc = pcCommit }))
		} else {
			m.try(i, "heartbeat under the lock: refused", ok(func(w *world, p *process) { unlock(w, p, pcLock) }))
		}
	case pcCommit:
		m.try(i, "reads the group's commit", ok(func(w *world, p *process) { p.found, p.pc = w.group.commit, pcDecide }))
	case pcDecide:
		if ended {
			m.try(i, "rolls its claim back", ok(func(w *world, p *process) { unlock(w, p, pcNone); w.done(i) }))
			return
		}
		m.try(i, "decides and commits its claim", func(w *world, p *process) string { return m.decide(w, i) })
		m.fault(i, "decides and commits its claim, and does not learn of it", func(w *world, p *process) string {
			wrong := m.decide(w, i)
			if p.pc == pcMirrorFirst || p.pc == pcAttach {
				w.ledger.holder, p.pc = nobody, pcLock
			}
			return wrong
		})
	case pcReport:
		if l.lock == nobody {
			m.try(i, "reports its stop", ok(func(w *world, p *process) {
				if s := &w.ledger.stop; p.fresh && !s.report().Same(p.stop.report()) {
					*s = p.stop
				}
				p.pc, p.fresh, p.stop = pcStopped, false, stopState{}
			}))
		}
	case pcStopped:
		m.try(i, "looks at its stop again", ok(func(w *world, p *process) {
			if p.pc = pcLock; p.cause != goesOn {
				w.done(i)
			}
		}))
	case pcMirrorFirst:
		switch {
		case ended:
			m.try(i, "does not settle any more", ok(func(w *world, p *process) { p.pc = pcUnused }))
		default:
			m.commits(i, "settles", pcMirroring)
		}
	case pcAttach:
		m.try(i, "opens its lanes and begins to read", ok(func(w *world, p *process) {
			p.open, p.pc, p.unclean = true, pcRun, false
			p.note(p.next)
		}))
	case pcRun:
		if p.ended || p.recheck || ended {
			m.try(i, "takes its claim from the loop", ok(func(w *world, p *process) { w.detach(i) }))
		}
	case pcDrain:
		if !p.call || m.mutant == releasesUndrained {
			m.try(i, "has drained its lanes", ok(func(w *world, p *process) { p.pc, p.open = pcLast, false }))
		} else {
			m.fault(i, "cannot drain its lanes in time", ok(func(w *world, p *process) { p.pc, p.open, p.kept = pcLast, false, true }))
		}
	case pcLast:
		m.commits(i, "mirrors its last position", pcLasting)
	case pcRelease, pcUnused:
		m.try(i, "releases its fence", ok(func(w *world, p *process) {
			if w.ledger.holder == me && (p.pc == pcRelease && !p.kept || p.pc == pcUnused && !p.unclean) {
				w.ledger.released = true
			}
			w.done(i)
		}))
	}
}

// done ends a claim; the assignment goes on with the next one where nothing has ended it.
func (w *world) done(i int) {
	p := &w.p[i]
	if w.ledger.holder == int8(i)+1 {
		w.ledger.holder = nobody
	}
	if p.pc = pcLock; p.cause != goesOn {
		p.pc, p.cause = pcNone, goesOn
	}
	p.next, p.epoch, p.read, p.unclean, p.ended, p.recheck, p.open, p.kept, p.former = none, none, false, false, false, false, false, false, false
	p.found, p.early, p.stop, p.fresh, p.late = offer{at: none}, none, stopState{}, false, p.late && p.pc == pcLock
}

// detach is claimer.giveUp up to the lanes.
func (w *world) detach(i int) {
	p := &w.p[i]
	p.read = false
	if p.cause == causeLost || p.ended {
		p.drop()
		w.done(i)
		return
	}
	p.pc = pcDrain
}

// decide is the end of confirm, and the claim's transaction.
func (m *machine) decide(w *world, i int) string {
	p, l, me := &w.p[i], &w.ledger, int8(i)+1
	found, was := p.found, l.next
	if m.mutant == absenceIsSeek && found.at == none && was != none {
		found = offer{0, byNobody}
	}
	f := w.facts(found)
	if m.mutant == trustsMarkers && found.by == 2 {
		f.commit.metadata = modelMarkers[found.at]
	}
	if m.mutant == positionFromKafka && found.at != none && was != none {
		f.commit.metadata = ""
	}
	if m.mutant == readsLedgerFirst && p.early != none {
		f.stored.Offset = int64(p.early)
	}
	if m.mutant == readsOverCuts {
		f.epochEnd = nil
	}
	st, settle, err := decideStart(f)
	l.lock, p.found, p.early = nobody, offer{at: none}, none
	if e, stops := errors.AsType[*StopError](err); stops {
		p.pc, p.fresh, p.stop = pcReport, true, stopState{kind: int8(slices.Index(modelStops, e.Reason)), from: int8(e.Stop.From), to: int8(e.Stop.To), resume: int8(e.Stop.Resume)}
		return w.untrue(p.stop)
	}
	wrong := w.seeks(found, was, int8(st.Position.Offset), st.Seek != nil, st.Accepted != 0, m.mutant == seekNotRecorded)
	if p.late {
		wrong = "a claim that comes late takes the fence from the member that the group means"
	}
	p.unclean = l.claimed && !l.released && m.mutant != alwaysClean
	if !p.unclean && (w.p[0].call || w.p[1].call) {
		wrong = "a claim is clean while a call of an owner before it is in flight"
	}
	l.holder, l.claimed, l.released = me, true, false
	l.next, l.epoch = int8(st.Position.Offset), int8(st.Position.LeaderEpoch)
	l.high, l.stop = max(l.high, l.next), stopState{}
	p.next, p.epoch, p.pc, p.former = l.next, l.epoch, pcAttach, !p.knowsMember
	if settle && m.mutant != noMirrorFirst {
		p.pc = pcMirrorFirst
	}
	other := &w.p[1-i]
	if other.fresh = false; other.pc != pcNone && w.group.assigned == me {
		other.late = true
	}
	if wrong == "" {
		wrong = w.skips(l.next)
	}
	return wrong
}

// seeks judges where a claim begins, and keeps what it records.
func (w *world) seeks(found offer, was, to int8, seek, accepted, forgets bool) string {
	l, j := &w.ledger, &w.judge
	n := found.by
	if n == byNobody {
		n = 0
	}
	done := j.honoured&(1<<n) != 0
	switch {
	case seek && !accepted && n == 0:
		return "a seek is recorded that nobody made"
	case seek && !accepted && done && j.accepted != n:
		return "a reset is applied twice"
	case n > 0 && !done && !accepted && to != found.at:
		return "a reset is not honoured"
	case !seek && was != none && to != was:
		return "the position moves without a seek"
	}
	if n > 0 {
		j.honoured |= 1 << n
		if j.pending == n {
			j.pending = 0
		}
		if accepted {
			j.accepted = n
		}
	}
	switch {
	case forgets:
	case was == none:
		l.skipped |= w.log.bits(0, to)
	default:
		l.skipped |= w.log.bits(was, to)
		l.rewound |= w.log.bits(to, was) & l.decided
	}
	return ""
}

// skips says whether anything below a position is neither decided nor known to be left out.
func (w *world) skips(next int8) string {
	if missing := w.log.bits(w.log.start, next) &^ (w.ledger.decided | w.ledger.skipped); missing != 0 {
		return "a record is skipped silently"
	}
	return ""
}

// untrue says whether a stop says what did not happen.
func (w *world) untrue(s stopState) string {
	switch modelStops[s.kind] {
	case StopHistory:
		if !w.judge.history {
			return "a stop says that the ledger lost history, which it did not"
		}
	case StopBelowStart:
		if w.log.start == 0 {
			return "a stop says that records were deleted, which they were not"
		}
	case StopAboveEnd, StopTruncated:
		if w.log.cut == none {
			return "a stop says that the log was cut, which it was not"
		}
	}
	return ""
}

// runs is the loop with its reader, and the lanes.
func (m *machine) runs(i int) {
	p := &m.from.p[i]
	me := int8(i) + 1
	if !p.up || p.pc != pcRun || p.ended || p.recheck || p.cut {
		return
	}
	w := &m.from
	switch {
	case !p.read && !w.log.fits(p.next, p.epoch) && m.mutant != readsOverCuts:
		m.try(i, "cannot read on", ok(func(w *world, p *process) { p.recheck = true }))
	case !p.read && p.next < w.log.end && (w.left.cuts > 0 || w.log.start > 0 || w.log.cut != none): // else it changes nothing for others
		m.try(i, "reads a record", ok(func(w *world, p *process) {
			p.read = true
		}))
	case (p.read || p.next < w.log.end) && w.ledger.lock == nobody:
		m.try(i, "applies a record", func(w *world, p *process) string { return m.apply(w, i, true) })
		m.fault(i, "applies a record, and does not learn of it", func(w *world, p *process) string {
			wrong := m.apply(w, i, false)
			p.ended = true
			return wrong
		})
		m.fault(i, "does not come to apply a record", ok(func(w *world, p *process) {
			if p.ended, p.read = true, false; m.mutant == mirrorsFirst {
				p.note(p.next + 1)
			}
		}))
	}
	if w.ledger.holder != me { // a result, a deadline
		m.try(i, "finds its fence lost", ok(func(w *world, p *process) { p.ended = true }))
	}
}

// apply is Ledger.Apply of one record, and loop.applied.
func (m *machine) apply(w *world, i int, learns bool) string {
	p, l := &w.p[i], &w.ledger
	p.read = false
	if l.holder != int8(i)+1 && m.mutant != fenceOff {
		p.ended = true
		return ""
	}
	if l.next != p.next { // the ledger is not where the claim left it: its revision, and continuity
		p.ended = true
		return ""
	}
	wrong := ""
	if l.holder != int8(i)+1 {
		wrong = "a batch passes the fence after a newer claim"
	}
	b := w.log.bit(p.next)
	if p.epoch = w.log.epochOf(p.next); p.next < w.log.start || p.next >= w.log.end {
		p.recheck = true // deleted or cut off since it was read; the model leaves that to the claim
		return wrong
	}
	if l.decided&b != 0 {
		if l.rewound&b == 0 {
			wrong = "a record is decided again without a recorded seek back"
		}
		l.rewound &^= b
	}
	l.decided |= b
	p.next++
	l.next, l.epoch, l.high = p.next, p.epoch, max(l.high, p.next)
	if wrong == "" {
		wrong = w.skips(l.next)
	}
	if learns {
		p.note(p.next)
	}
	return wrong
}

// commits begins an OffsetCommit of the owner's own goroutine; see mirror.commit and mirror.take.
func (m *machine) commits(i int, what string, pc int8) {
	p := &m.from.p[i]
	switch {
	case p.flush != 0 || p.msg.from != 0 || p.k == kJoining:
	case p.former && m.mutant != commitsAsAnybody:
		m.try(i, what+": not under this member id", ok(func(w *world, p *process) { p.take(p.next); p.committed(false, pc) }))
	default:
		m.try(i, what, ok(func(w *world, p *process) {
			p.take(p.next)
			p.msg = message{from: 2, at: p.next, ok: p.gen == genNew && w.group.member[i]}
			p.pc = pc
		}))
	}
}

// committed is the answer to the owner's goroutine.
func (p *process) committed(done bool, pc int8) {
	p.drop()
	switch {
	case pc == pcLasting:
		p.pc = pcRelease
	case done:
		p.pc = pcAttach
	default:
		p.pc = pcMirrorFirst
	}
}

// mirrors is mirror.flush, and what becomes of commits on their way.
func (m *machine) mirrors(i int) {
	p := &m.from.p[i]
	switch {
	case !p.up || m.timeout > 0: // calls do not depend on the mirror
	case p.flush == 0 && p.dirty != none && !p.sending():
		m.try(i, "takes what is to be mirrored", ok(func(w *world, p *process) {
			p.flush, p.taken, p.takenFormer, p.dirty, p.dirtyFormer = 1, p.dirty, p.dirtyFormer, none, false
		}))
	case p.flush == 1 && p.k != kJoining && m.mutant != commitsAsAnybody && !p.ours():
		m.try(i, "mirrors nothing that is not its claim's", ok(func(w *world, p *process) { p.flushed(false) }))
	case p.flush == 1 && p.k != kJoining && p.msg.from == 0:
		m.try(i, "mirrors", ok(func(w *world, p *process) {
			p.flush, p.msg = 2, message{from: 1, at: p.taken, ok: p.gen == genNew && w.group.member[i]}
		}))
	}
	if p.msg.from == 0 {
		return
	}
	m.try(i, "its OffsetCommit arrives", ok(func(w *world, p *process) {
		msg := p.msg
		p.msg = message{}
		if msg.ok {
			w.group.commit = offer{msg.at, byMirror}
			if m.mutant == noMarker {
				w.group.commit.by = byNobody
			}
		}
		if !msg.lost {
			p.answer(msg)
		}
	}))
	if !p.msg.lost {
		m.fault(i, "waits no longer for its OffsetCommit", ok(func(w *world, p *process) {
			msg := p.msg
			p.msg.lost, msg.ok = true, false
			p.answer(msg)
		}))
	}
}

func (p *process) answer(msg message) {
	if msg.from == 1 {
		p.flushed(msg.ok)
		return
	}
	p.committed(msg.ok, p.pc)
}

func (p *process) flushed(done bool) {
	if !done {
		p.retryMirror()
	}
	p.flush, p.taken, p.takenFormer = 0, none, false
}

// lives is the pulse, and calls to a destination.
func (m *machine) lives(i int) {
	p, w := &m.from.p[i], &m.from
	if m.timeout == 0 {
		return
	}
	if p.call {
		m.try(i, "a call of it ends", ok(func(w *world, p *process) { p.call = false }))
	}
	if !p.up {
		return
	}
	switch {
	case p.pulse != genNone && p.beat == none:
		m.try(i, "asks for its pulse", ok(func(w *world, p *process) { p.beat = 0 }))
	case p.beat != none:
		m.try(i, "is answered about its pulse", ok(func(w *world, p *process) {
			if p.pulse == genNew {
				w.group.age[i] = 0
				p.confirm()
			}
			p.beat = none
		}))
	}
	if p.open && !p.call && p.pc == pcRun && w.ledger.decided != 0 && (p.alive(m.timeout) || m.mutant == aliveIgnored) {
		m.add2(i, "starts a call", func(w *world, p *process) string {
			p.call = true
			if h := w.ledger.holder; h != nobody && h != int8(i)+1 {
				return "an owner starts a call after a newer claim"
			}
			return ""
		})
	}
}

// present is what others know of a process by its lock, and do about it: see owner.removeAbsent.
func (m *machine) present(i int) {
	p, other := &m.from.p[i], &m.from.p[1-i]
	if !m.absent || !p.up || !m.from.group.member[i] {
		return
	}
	switch p.away {
	case unwritten:
		if !p.cut && p.knowsMember {
			m.try(i, "has its row written", ok(func(_ *world, p *process) { p.away = present }))
		}
	case present:
		m.fault(i, "loses its session with Postgres", ok(func(_ *world, p *process) { p.away = freed }))
	case freed:
		m.try(i, "does not take itself for present any more", ok(func(_ *world, p *process) { p.away = absent }))
	}
	if !p.cut && (p.away == freed || p.away == absent || p.away == judged && m.mutant == forgetsJudged) {
		m.try(i, "has a session with Postgres again", ok(func(_ *world, p *process) { p.away = present }))
	}
	switch {
	case !other.up || other.away != present:
	case p.away == absent:
		m.try(i, "is judged by another", ok(func(_ *world, p *process) { p.away = judged }))
	case p.away == freed && m.mutant == judgesEarly:
		m.add2(i, "is judged and taken out while it takes itself for present", ok(func(w *world, _ *process) { w.expel(i) }))
	}
	if p.away == judged && p.knowsMember || p.away == present && m.mutant == forgetsJudged && m.from.left.faults == 0 {
		m.try(i, "is taken out of the group by another", ok(func(w *world, _ *process) { w.expel(i) }))
	}
	m.quits(i)
}

// quits is a member that leaves by itself, since nobody could take it out: see owner.quits.
func (m *machine) quits(i int) {
	p := &m.from.p[i]
	if m.mutant == staysUnknown || !p.knowsMember {
		return
	}
	if p.cut && p.away == unwritten && !p.quits {
		m.try(i, "is about to leave the group", ok(func(_ *world, p *process) { p.quits = true }))
	}
	if p.quits || m.mutant == leavesAlive && p.cut && p.away == unwritten {
		m.try(i, "takes itself out of the group", ok(func(w *world, _ *process) { w.expel(i) }))
	}
}

// cuts is a process that reaches Postgres no more, and Kafka still: its session ends, its transaction with it, and nothing of what it asks there comes.
func (m *machine) cuts(i int) {
	p := &m.from.p[i]
	if !m.absent || !p.up {
		return
	}
	if p.cut {
		m.add2(i, "reaches Postgres again", ok(func(_ *world, p *process) { p.cut = false }))
		return
	}
	m.fault(i, "reaches Postgres no more", ok(func(w *world, p *process) {
		if p.cut = true; p.away == present {
			p.away = freed
		}
		if w.ledger.lock == int8(i)+1 {
			w.ledger.lock, p.pc, p.found, p.early = nobody, pcLock, offer{at: none}, none
		}
	}))
}

// unreached is what becomes of a claim of a process that reaches Postgres no more; false if it goes on as it would.
func (m *machine) unreached(i int) bool {
	p := &m.from.p[i]
	if !p.cut {
		return false
	}
	switch p.pc {
	case pcLock, pcReport:
		if p.cause != goesOn {
			m.try(i, "gives its claim up", ok(func(w *world, p *process) { w.done(i) }))
		}
	case pcRelease, pcUnused:
		m.try(i, "does not release its fence", ok(func(w *world, p *process) { w.done(i) }))
	case pcRun:
		if !p.ended {
			m.try(i, "does not come to write", ok(func(_ *world, p *process) { p.ended, p.read = true, false }))
		}
		return false
	default:
		return false
	}
	return true
}

// restarts is a process that is killed, stopped or started.
func (m *machine) restarts(i int) {
	p := &m.from.p[i]
	if !p.up {
		if m.alone && i == 1 {
			return
		}
		m.try(i, "starts", ok(func(w *world, p *process) { p.up = true; p.forget() }))
		return
	}
	m.fault(i, "is killed", ok(func(w *world, p *process) { w.kill(i) }))
	if p.closing {
		if p.pc == pcNone && (p.msg.from == 0 || p.msg.lost) && p.k != kJoining {
			m.try(i, "leaves the group", ok(func(w *world, p *process) {
				w.old(i)
				w.group.member[i], w.group.age[i] = false, 0
				w.left1(int8(i) + 1)
				p.msg.ok = false
				p.up = false
				p.forget()
			}))
		}
		return
	}
	if m.from.left.restarts > 0 {
		w := m.from
		w.left.restarts--
		w.p[i].closing = true
		w.p[i].end(causeShutdown)
		m.add(i, "is told to stop", w, true, "")
	}
}

func (w *world) kill(i int) {
	p, me := &w.p[i], int8(i)+1
	if w.ledger.lock == me {
		w.ledger.lock = nobody
	}
	if w.ledger.holder == me {
		w.ledger.holder = nobody
	}
	if w.group.member[i] {
		w.group.member[i], w.group.dead = false, true
		if w.group.assigned == me {
			w.group.assigned = dead
		}
	}
	p.up = false
	p.forget()
	p.msg.dead = p.msg.from != 0
}

// operator resets the group's position, deletes the group, and accepts stops. Kafka lets the first two happen only where
// the group has no members.
func (m *machine) operator() {
	w := &m.from
	if w.ledger.stop.kind != 0 && !w.ledger.stop.accepted && w.ledger.lock == nobody {
		m.add0("the operator accepts the stop", func(w *world) { w.ledger.stop.accepted = true })
	}
	if !w.group.empty() {
		return
	}
	if w.left.deletes > 0 && w.group.commit.at != none {
		m.add0("the group's commit is gone", func(w *world) {
			w.left.deletes--
			w.group.commit, w.judge.pending = offer{at: none}, 0
		})
	}
	if w.left.resets == 0 {
		return
	}
	for to := int8(0); to <= w.log.full; to++ {
		m.add0([]string{"the operator resets the group to 0", "the operator resets the group to 1", "the operator resets the group to 2",
			"the operator resets the group to 3"}[to], func(w *world) {
			w.left.resets--
			w.judge.resets++
			w.group.commit, w.judge.pending = offer{to, w.judge.resets}, w.judge.resets
		})
	}
}

// accidents befall the log and the ledger.
func (m *machine) accidents() {
	w := &m.from
	if w.left.cuts > 0 && w.log.start < w.log.end-1 {
		m.add0("the log's first record is deleted", func(w *world) { w.left.cuts--; w.log.start++ })
	}
	if w.left.cuts > 0 && w.log.cut == none && w.log.end-1 >= w.log.start {
		m.add0("the log's last record is cut off", func(w *world) { w.left.cuts--; w.log.end--; w.log.cut = w.log.end })
	}
	if w.log.end < w.log.full {
		m.try(-1, "the log grows", ok(func(w *world, _ *process) {
			// Behind a seek the leader epoch is not known until a batch is applied: a cut before that, which the log has grown
			// over, shows nowhere (facts.startAt). The operator did say to go on behind these records.
			if l := &w.ledger; l.epoch == none && w.log.end < l.next {
				l.skipped |= w.log.bit(w.log.end)
			}
			w.log.end++
		}))
	}
	if m.lossy && !w.judge.history && w.before != w.ledger && w.ledger.lock == nobody {
		m.add0("the ledger loses its last transaction", func(w *world) { w.ledger, w.judge.history = w.before, true })
	}
	if m.timeout > 0 && w.left.ticks > 0 {
		m.add0("time passes", func(w *world) { w.tick(m.timeout) })
	}
}

func (w *world) tick(most int8) {
	w.left.ticks--
	for i := range w.p {
		p := &w.p[i]
		if w.group.member[i] {
			w.group.age[i] = min(w.group.age[i]+1, most)
		}
		if p.last != none {
			p.last = min(p.last+1, most)
		}
		if p.beat != none {
			p.beat = min(p.beat+1, most)
		}
	}
}

func (m *machine) add0(what string, do func(w *world)) {
	w := m.from
	do(&w)
	m.add(-1, what, w, true, "")
}
