package lane

import (
	"context"
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// pageSize is how many actions one read of the ledger gives at most, smallPage how many a read asks for at least that may be
// followed by more.
const (
	pageSize  = 1000
	smallPage = 64
)

// load reads what was left to the ledger, as room appears, until ctx ends.
func (l *Lanes) load(ctx context.Context) {
	wait := 100 * time.Millisecond
	for {
		worked, err := l.loadOne(ctx)
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
			l.rested(ctx)
		}
	}
}

// rested waits for something to load, and makes room in full windows meanwhile.
func (l *Lanes) rested(ctx context.Context) {
	var again <-chan time.Time
	if l.anyUnderPressure() {
		timer := time.NewTimer(spillEvery)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-l.toLoad:
	case <-again:
		l.makeRoom()
	case <-ctx.Done():
	}
}

// loadOne reads one page for every part that has room for one. It says whether there was any.
func (l *Lanes) loadOne(ctx context.Context) (worked bool, err error) {
	for _, p := range l.roomy() {
		if err := l.readBacklog(p.ctx, p); err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
			return worked, err
		}
		if err := l.advance(p.ctx, p); err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
			return worked, err
		}
		if err := l.refill(p.ctx, p); err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
			return worked, err
		}
		worked = true
	}
	return worked, nil
}

// roomy lists the parts that a read would help.
func (l *Lanes) roomy() (parts []*part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if !p.closing && !p.gone && (l.room(p) > 0 || len(p.needsRefill) > 0 && l.headroom(p) || p.latest.unread()) {
			parts = append(parts, p)
		}
	}
	return parts
}

// room is how many actions of a part the next page may bring; 0 as long as the window is nearly full, so that pages
// are worth their read.
func (l *Lanes) room(p *part) int {
	room := l.cfg.MaxOpen - p.open
	if !p.more || p.closing || p.gone || room < max(1, l.cfg.MaxOpen/4) {
		return 0
	}
	return min(room, pageSize)
}

// advance reads the next page behind the partition's cursor.
func (l *Lanes) advance(ctx context.Context, p *part) error {
	l.mu.Lock()
	after, room, adds := p.loadedTo, l.room(p), p.adds
	l.mu.Unlock()
	if room == 0 {
		return nil
	}
	actions, more, err := l.cfg.Ledger.Open(ctx, p.claim, after, room)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takePage(p, actions, more, adds)
	l.dispatch.wake()
	return nil
}

// takePage takes what a read brought. The window reaches the ledger's end only when the read saw it and nothing was
// left to the ledger since the read began.
func (l *Lanes) takePage(p *part, actions []ledger.Action, more bool, adds uint64) {
	if p.gone || p.closing {
		return
	}
	for i := range actions {
		if seq := actions[i].LaneSeq; seq > p.loadedTo {
			p.loadedTo = seq
			l.push(p, &actions[i], nil, false)
		}
	}
	p.doubts.passed(p.loadedTo, !more)
	p.more = more || p.adds != adds
	l.arrived(p)
}

// refill reads on for the lanes that left actions in the ledger and have room again. One scan serves them all: it
// begins at the lowest of their cursors and takes of each lane what lies behind its own, so that nothing is taken
// twice and nothing left out.
func (l *Lanes) refill(ctx context.Context, p *part) error {
	from, size, goals := l.goals(p)
	for ; len(goals) > 0; size = min(2*size, pageSize) {
		actions, more, err := l.cfg.Ledger.Open(ctx, p.claim, from, size)
		if err != nil {
			l.thirstAgain(p, goals)
			return err
		}
		seen := int64(math.MaxInt64) // the scan has seen everything up to here
		if more && len(actions) > 0 {
			seen = actions[len(actions)-1].LaneSeq
		}
		l.quench(p, goals, actions, seen)
		from = seen
	}
	return nil
}

// goals are the lanes to refill, each with the last action it is known to have left, where to begin, and how much to read
// first: what they have room for, so that a lane that is alone does not read a page for a part of it each time.
func (l *Lanes) goals(p *part) (from int64, size int, goals map[*lane]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, goals = math.MaxInt64, map[*lane]int64{}
	for la := range p.needsRefill {
		from = min(from, la.tail)
		if la.first != 0 {
			goals[la] = la.first
			size++
			continue
		}
		goals[la] = la.skippedTo
		size += max(1, l.cfg.LaneWindow-la.n)
	}
	clear(p.needsRefill)
	if p.gone || p.closing {
		return from, 0, nil
	}
	return from, min(max(size, smallPage), pageSize), goals
}

// thirstAgain puts back the lanes of a scan that did not come to its end.
func (l *Lanes) thirstAgain(p *part, goals map[*lane]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thirst(p, goals)
}

func (l *Lanes) thirst(p *part, goals map[*lane]int64) {
	for la := range goals {
		if !la.still() && la.state != retired && la.overflow() {
			p.needsRefill[la] = struct{}{}
		}
	}
}

// quench gives the lanes what a page has for them. A lane leaves goals when it is full, has all it left behind, or is there no more:
// what is left then is another lane's.
func (l *Lanes) quench(p *part, goals map[*lane]int64, actions []ledger.Action, seen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.gone || p.closing {
		clear(goals)
		return
	}
	for i := range actions {
		la := p.lanes[actions[i].Entity]
		goal, wanted := goals[la]
		if la == nil || !wanted || actions[i].LaneSeq <= la.tail || actions[i].LaneSeq > goal {
			continue
		}
		if la.still() || la.n >= l.cfg.LaneWindow || la.n > 0 && p.open >= l.cfg.MaxOpen {
			delete(goals, la) // in overflow still: needsRefill again when its head is done
			continue
		}
		if !l.headroom(p) {
			l.thirst(p, goals)
			clear(goals)
			break
		}
		l.append(la, &actions[i], nil, false)
	}
	for la, goal := range goals {
		if seen >= goal || la.state == retired {
			delete(goals, la)
			l.quenched(la, goal)
		}
	}
	l.dispatch.wake()
}

// quenched ends the scan of a lane that saw everything up to goal.
func (l *Lanes) quenched(la *lane, goal int64) {
	if la.still() || la.state == retired {
		return
	}
	la.first = 0 // also where it is not there any more

	if la.skippedTo == goal { // else more was left meanwhile
		la.skippedTo = 0
		delete(la.part.needsRefill, la)
	} else {
		la.tail = max(la.tail, goal)
	}
	if la.head == nil && la.state == idle {
		l.arm(la)
		signal(l.toLoad)
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
