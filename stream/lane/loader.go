package lane

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

const (
	pageSize  = 1000 // actions that one read of the ledger gives at most
	smallPage = 64   // actions that a read asks for at least where another may follow
)

// loader reads what was left in the ledger as room appears, and makes room where windows are full. It belongs to one goroutine.
type loader struct {
	s         *scheduler
	ledger    Ledger
	log       *slog.Logger
	refilling map[*lane]int64 // the lanes of the refill under way, each with the last action it left; guarded by mu
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
			l.log.Warn("read open actions, again in a moment", "error", err, "wait", wait)
			sleep(ctx, wait)
			wait = min(2*wait, 5*time.Second)
		case worked:
			wait = 100 * time.Millisecond
		default:
			l.wait(ctx)
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

// round reads one page of each kind for every partition that has room. It says whether there was any.
func (l *loader) round(ctx context.Context) (worked bool, err error) {
	for _, p := range l.worthReading() {
		for _, read := range []func(context.Context, *partition) error{l.readLatest, l.readPage, l.refill} {
			if err := read(p.ctx, p); err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
				return worked, err
			}
		}
		worked = true
	}
	return worked, nil
}

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

// readLatest reads the next page of all open actions, for what a partition with backlog: latest has to know of them. Once that
// is all, its lanes go on.
func (l *loader) readLatest(ctx context.Context, p *partition) error {
	s := l.s
	s.mu.Lock()
	reading := p.latest.unread() && !p.ended()
	s.mu.Unlock()
	if !reading {
		return nil
	}
	actions, more, err := l.ledger.Open(ctx, p.claim, p.latest.readTo, pageSize) // readTo is the loader's alone
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.latest.read(actions, more)
	if more || p.ended() {
		return nil
	}
	for _, la := range p.lanes {
		if la.state == idle && la.head != nil {
			s.q.schedule(la)
		}
	}
	s.q.dispatch.wake()
	return nil
}

// readPage reads the next page behind what is loaded.
func (l *loader) readPage(ctx context.Context, p *partition) error {
	s := l.s
	s.mu.Lock()
	after, room, adds := p.loadedTo, p.roomForPage(), p.adds
	s.mu.Unlock()
	if room == 0 {
		return nil
	}
	actions, more, err := l.ledger.Open(ctx, p.claim, after, room)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.takePage(p, actions, more, adds)
	s.q.dispatch.wake()
	return nil
}

// takePage takes what a read brought. The window reaches the ledger's end only where the read saw it and nothing was left in
// the ledger since the read began. Called with mu held.
func (l *loader) takePage(p *partition, actions []ledger.Action, more bool, adds uint64) {
	if p.ended() {
		return
	}
	for i := range actions {
		if seq := actions[i].LaneSeq; seq > p.loadedTo {
			p.loadedTo = seq
			l.s.q.push(p, &actions[i], nil, false)
		}
	}
	p.doubts.loaded(p.loadedTo, !more)
	p.more = more || p.adds != adds
	for laneSeq, entity := range p.rerun { // the page may have been read before these were to run again
		if laneSeq <= p.loadedTo {
			delete(p.rerun, laneSeq)
			l.s.q.rerun(p, entity, laneSeq)
		}
	}
}

// refill reads on for the lanes that left actions in the ledger and have room again. One scan serves them all: it
// begins at the lowest of their tails and takes of each lane what lies behind its own, so that nothing is taken
// twice and nothing left out.
func (l *loader) refill(ctx context.Context, p *partition) error {
	from, size := l.beginRefill(p)
	for ; size > 0; size = min(2*size, pageSize) {
		actions, more, err := l.ledger.Open(ctx, p.claim, from, size)
		if err != nil {
			l.abortRefill(p)
			return err
		}
		from = math.MaxInt64 // the scan has seen everything up to here
		if more && len(actions) > 0 {
			from = actions[len(actions)-1].LaneSeq
		}
		if l.takeRefill(p, actions, from) {
			return nil
		}
	}
	return nil
}

// beginRefill sets the lanes to refill. It says where to begin, and how much to read first: what they have room for, so that
// a lane that is alone does not read a page for a part of it each time; 0: there are none.
func (l *loader) beginRefill(p *partition) (from int64, size int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if p.ended() || len(p.needsRefill) == 0 {
		return 0, 0
	}
	from, l.refilling = math.MaxInt64, map[*lane]int64{}
	for la := range p.needsRefill {
		from = min(from, la.tail)
		if la.first != 0 {
			l.refilling[la] = la.first
			size++
			continue
		}
		l.refilling[la] = la.skippedTo
		size += max(1, l.s.q.cfg.LaneWindow-la.n)
	}
	clear(p.needsRefill)
	return from, min(max(size, smallPage), pageSize)
}

// abortRefill ends a refill whose read failed: its lanes still need it.
func (l *loader) abortRefill(p *partition) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.requeueRefills(p)
}

func (l *loader) requeueRefills(p *partition) {
	for la := range l.refilling {
		switch {
		case la.loadsNothing() || la.state == retired:
		case la.overflow():
			p.needsRefill[la] = struct{}{}
		default: // the page had all it left; its head may have ended meanwhile and asked for a refill
			delete(p.needsRefill, la)
		}
	}
	clear(l.refilling)
}

// takeRefill gives the lanes what a page has for them, and reports whether the refill has ended. A lane's ends when it is full,
// or has all it left behind, or is retired: what is left then is another lane's.
func (l *loader) takeRefill(p *partition, actions []ledger.Action, seen int64) (ended bool) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended() {
		clear(l.refilling)
		return true
	}
	for i := range actions {
		la := p.lanes[actions[i].Entity]
		goal, wanted := l.refilling[la]
		if la == nil || !wanted || actions[i].LaneSeq <= la.tail || actions[i].LaneSeq > goal {
			continue
		}
		if la.loadsNothing() || la.n >= s.q.cfg.LaneWindow || la.n > 0 && p.open >= s.q.cfg.MaxOpen {
			delete(l.refilling, la) // it needs a refill again when its head is done
			continue
		}
		if !p.roomToRefill() {
			l.requeueRefills(p)
			break
		}
		s.q.append(la, &actions[i], nil, false)
	}
	for la, goal := range l.refilling {
		if seen >= goal || la.state == retired {
			delete(l.refilling, la)
			l.refilled(la, goal)
		}
	}
	s.q.dispatch.wake()
	return len(l.refilling) == 0
}

// refilled ends the refill of a lane for which everything up to goal was read.
func (l *loader) refilled(la *lane, goal int64) {
	if la.loadsNothing() || la.state == retired {
		return
	}
	la.first = 0 // also where it is not there any more
	if la.skippedTo == goal {
		la.skippedTo = 0
		delete(la.partition.needsRefill, la)
	} else { // more was left meanwhile
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
