package lane

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

const smallPage = 64 // the fewest actions that the first read of a refill asks for

// loader reads actions that were left in the ledger when there is room for them, and makes room in full windows. It belongs to
// one goroutine.
type loader struct {
	s         *scheduler
	ledger    Ledger
	log       *slog.Logger
	refilling map[*lane]int64 // the lanes of the refill under way, each with the last action it left; guarded by mu
	noRoom    time.Time       // when maxSpilled was last found to be reached; guarded by mu
	warned    time.Time       // when it last said so
}

// run loads until ctx ends.
func (l *loader) run(ctx context.Context) {
	wait := 100 * time.Millisecond
	for {
		worked, err := l.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.log.Warn("open actions could not be read; retrying", "error", err, "wait", wait)
			sleep(ctx, wait)
			wait = min(2*wait, 5*time.Second)
		default:
			if wait = 100 * time.Millisecond; !worked {
				l.wait(ctx)
			}
		}
	}
}

// wait waits for something to load, and makes room in full windows meanwhile.
func (l *loader) wait(ctx context.Context) {
	var look <-chan time.Time
	if l.underPressure() {
		timer := time.NewTimer(spillEvery)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-l.s.q.toLoad:
	case <-look:
		l.makeRoom()
	case <-ctx.Done():
	}
}

// round reads for every partition of which a read would bring something: a page for its [latest], a page behind what is loaded, and what
// lanes with room have no more of. It reports whether there was such a partition. An error of a partition that has ended is ignored, any
// other ends the round.
func (l *loader) round(ctx context.Context) (worked bool, err error) {
	for _, p := range l.worthReading() {
		for _, begin := range []func(*partition) scan{l.latest, l.page, l.refill} {
			if err := l.read(p, begin); err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
				return worked, err
			}
		}
		worked = true
	}
	return worked, nil
}

// scan is a read of a partition's open actions, in the order of their lane_seq. What it calls holds mu.
type scan struct {
	after int64                                              // the lane_seq behind which it begins
	size  int                                                // of its first page; 0: nothing is to be read
	take  func(actions []ledger.Action, more bool) (on bool) // takes a page, and says whether the next one is wanted
	next  func() int64                                       // the lane_seq up to which nothing more is wanted; nil: of everything something may be
}

// read reads pages, twice the size each time, until the scan has what it wants.
func (l *loader) read(p *partition, begin func(*partition) scan) error {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r := begin(p)
	for on := r.size > 0; on; r.size = min(2*r.size, pageSize) {
		s.mu.Unlock()
		actions, more, err := l.ledger.Open(p.ctx, p.claim, r.after, r.size)
		s.mu.Lock()
		if err != nil {
			l.requeueRefills(p) // a refill's lanes still need it
			return err
		}
		if len(actions) > 0 {
			r.after = actions[len(actions)-1].LaneSeq
		}
		on = r.take(actions, more)
		if on && r.next != nil {
			if next := r.next(); next > r.after+pageSize { // what lies between are lanes that go on waiting
				r.after, r.size = next, smallPage/2
			}
		}
		s.q.dispatch.wake()
	}
	return nil
}

// worthReading returns the partitions of which a read would bring something.
func (l *loader) worthReading() (partitions []*partition) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for _, p := range l.s.q.partitions {
		if p.worthReading() {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// latest reads the next page of a partition's open actions into its [latest]. After the last page its lanes begin to run.
func (l *loader) latest(p *partition) scan {
	if !p.latest.unread() || p.ending() {
		return scan{}
	}
	return scan{after: p.latest.readTo, size: pageSize, take: func(actions []ledger.Action, more bool) bool {
		if p.latest.addPage(actions, more); more || p.ending() {
			return false
		}
		for _, la := range p.lanes {
			if la.state == idle && la.head != nil {
				l.s.q.schedule(la)
			}
		}
		return false
	}}
}

// page reads the next page behind what is loaded.
func (l *loader) page(p *partition) scan {
	left := p.left
	return scan{after: p.loadedTo, size: p.roomForPage(), take: func(actions []ledger.Action, more bool) bool {
		l.takePage(p, actions, more, left)
		return false
	}}
}

// takePage pushes the actions of a page. p.more becomes false only if the page was the last, and nothing was left to a later one
// since the read began: p.left is still what it was then. The caller holds mu.
func (l *loader) takePage(p *partition, actions []ledger.Action, more bool, left uint64) {
	if p.ending() {
		return
	}
	for i := range actions {
		if seq := actions[i].LaneSeq; seq > p.loadedTo {
			p.loadedTo = seq
			l.s.q.cameBehind(p, &actions[i])
			l.s.q.push(p, &actions[i], nil, false)
		}
	}
	p.doubts.noteLoadedTo(p.loadedTo, !more)
	p.more = more || p.left != left
	for laneSeq, entity := range p.rerun { // the page may show them as they were before
		if laneSeq <= p.loadedTo {
			delete(p.rerun, laneSeq)
			l.s.q.rerun(p, entity, laneSeq)
		}
	}
	if !p.more {
		clear(p.rerun) // what no page has shown has ended
	}
}

// refill reads on for the lanes that left actions in the ledger and have room again. One scan serves them all. It begins at the
// lowest of their tails, leaves out what lies far before the next one, and each lane takes only the actions above its own tail: none twice, none
// left out. Its first page is of as many as the lanes have room for, so that one lane alone does not read a whole page each time.
func (l *loader) refill(p *partition) scan {
	if p.ending() {
		return scan{}
	}
	l.s.q.spilled.reloadLeft(p)
	if len(p.needsRefill) == 0 {
		return scan{}
	}
	size := 0
	l.refilling = map[*lane]int64{}
	for la := range p.needsRefill {
		if la.headToReload != 0 {
			l.refilling[la] = la.headToReload
			size++
			continue
		}
		l.refilling[la] = la.skippedTo
		size += max(1, l.s.q.cfg.LaneWindow-la.n)
	}
	clear(p.needsRefill)
	return scan{after: l.lowest(), size: min(max(size, smallPage), pageSize), next: l.lowest, take: func(actions []ledger.Action, more bool) bool {
		seen := int64(math.MaxInt64) // the scan has seen everything up to here
		if more && len(actions) > 0 {
			seen = actions[len(actions)-1].LaneSeq
		}
		return !l.takeRefill(p, actions, seen)
	}}
}

// lowest returns up to which action all lanes of the refill under way have loaded theirs.
func (l *loader) lowest() int64 {
	from := int64(math.MaxInt64)
	for la := range l.refilling {
		from = min(from, la.tail)
	}
	return from
}

// requeueRefills ends a refill: lanes that still have actions in the ledger need another one, the others do not.
func (l *loader) requeueRefills(p *partition) {
	for la := range l.refilling {
		switch {
		case la.state == processing || la.state == retired:
		case la.overflow():
			p.needsRefill[la] = struct{}{}
		default: // the page had all that it left; pop may have asked for a refill meanwhile
			delete(p.needsRefill, la)
		}
	}
	clear(l.refilling)
}

// takeRefill appends the actions of a page to their lanes, and reports whether the refill has ended. For one lane it ends when
// the lane is full, has everything that it left in the ledger, or is retired: then another lane reads the rest.
// The caller holds mu.
func (l *loader) takeRefill(p *partition, actions []ledger.Action, seen int64) (ended bool) {
	if p.ending() {
		clear(l.refilling)
		return true
	}
	for i := range actions {
		la := p.lanes[laneKeyOf(actions[i].Entity)]
		goal, wanted := l.refilling[la]
		if la == nil || !wanted || actions[i].LaneSeq <= la.tail || actions[i].LaneSeq > goal {
			continue
		}
		if la.state == processing || la.n >= l.s.q.cfg.LaneWindow || la.n > 0 && p.open >= l.s.q.cfg.MaxOpen {
			delete(l.refilling, la) // pop asks for the next refill
			continue
		}
		if !p.roomToRefill() {
			l.requeueRefills(p)
			break
		}
		l.s.q.append(la, &actions[i], nil, false)
	}
	for la, goal := range l.refilling {
		if seen >= goal || la.state == retired {
			delete(l.refilling, la)
			l.refilled(la, goal)
		}
	}
	return len(l.refilling) == 0
}

// refilled ends the refill of a lane: everything up to goal was read for it.
func (l *loader) refilled(la *lane, goal int64) {
	if la.state == processing || la.state == retired {
		return
	}
	la.headToReload = 0 // even if the head was not found
	if la.skippedTo == goal {
		la.skippedTo = 0
		delete(la.partition.needsRefill, la)
	} else { // more actions were left in the ledger meanwhile
		la.tail = max(la.tail, goal)
	}
	if la.head == nil && la.state == idle {
		l.s.q.schedule(la)
		signal(l.s.q.toLoad)
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
