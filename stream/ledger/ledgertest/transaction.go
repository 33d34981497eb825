package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Point is a place in a transaction at which a hook may delay or fail it.
type Point string

const (
	// Before is before the transaction: nothing is locked or written. An error means that the database was not reached.
	Before Point = "before"
	// Within is inside: what it locks is locked, nothing is written; of a claim, Confirm has been asked. An error rolls it back, as a lost connection does.
	Within Point = "within"
	// After is behind COMMIT: all is written, nothing is locked. An error loses its answer.
	After Point = "after"
)

// Call says what a hook is asked about.
type Call struct {
	Process string
	// Op is the transaction: claim, apply, expire, record, open, ..., or resolve, which finds out whether a COMMIT without an
	// answer happened.
	Op     string
	Point  Point
	Reads  bool    // it writes nothing
	Fences []int32 // that it is about, as far as it locks any; sorted
}

// reads are the transactions that write nothing.
var reads = map[string]bool{
	"began": true, "deadline": true, "open": true, "withoutcopy": true, "commands": true, "backfills": true, "overtaken": true,
	"unexported": true, "deadpayload": true, "resolve": true, "reports": true, "silence": true,
}

// Hook is asked at each Point of each transaction, without locks of its own: it may wait, kill processes and call the ledger.
// An error is one of the connection, after which the ledger does what the real one does: it tries again, looks whether it
// was committed, or tells its caller.
type Hook func(ctx context.Context, c Call) error

// SetHook sets the hook of all processes; nil is none.
func (m *Memory) SetHook(h Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

// at asks the hook, and waits while the process is frozen.
func (p *Process) at(ctx context.Context, op string, at Point, fences []int32) error {
	if err := p.awake(ctx); err != nil {
		return err
	}
	p.m.mu.Lock()
	hook := p.m.hook
	p.m.mu.Unlock()
	if hook == nil {
		return nil
	}
	if err := hook(ctx, Call{Process: p.name, Op: op, Point: at, Reads: reads[op], Fences: fences}); err != nil {
		return err
	}
	return p.awake(ctx)
}

// lostAnswer marks an error behind COMMIT.
type lostAnswer struct{ error }

func (e lostAnswer) Unwrap() error { return e.error }

func isLostAnswer(err error) bool {
	_, ok := errors.AsType[lostAnswer](err)
	return ok
}

// refusal marks an error of the ledger's own: nothing was written, and trying again helps nobody.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }

// badData marks what the database refuses of a row's data.
type badData struct{ error }

func (e badData) Unwrap() error { return e.error }

func final(err error) bool {
	if isLostAnswer(err) {
		return false
	}
	_, ours := errors.AsType[refusal](err)
	_, data := errors.AsType[badData](err)
	return ours || data
}

// transaction runs do, which writes or refuses, under the fences' locks. An error before COMMIT wrote nothing; one that
// isLostAnswer wrote all.
func (p *Process) transaction(ctx context.Context, op string, how lockMode, fences []int32, do func() error) error {
	fences = slices.Compact(slices.Sorted(slices.Values(fences)))
	if err := p.at(ctx, op, Before, fences); err != nil {
		return err
	}
	if err := p.lock(ctx, how, fences); err != nil {
		return err
	}
	err := p.at(ctx, op, Within, fences)
	if err == nil {
		err = p.write(do)
	}
	p.unlock(how, fences)
	if err != nil {
		return err
	}
	if err := p.at(ctx, op, After, fences); err != nil {
		return lostAnswer{err}
	}
	return nil
}

// write runs do, unless the process was killed meanwhile.
func (p *Process) write(do func() error) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.killed {
		return errKilled
	}
	return do()
}

// waitIfKilled waits for ctx to end if the process was killed: its calls return nothing before that.
func (p *Process) waitIfKilled(ctx context.Context, err error) error {
	if errors.Is(err, errKilled) {
		<-ctx.Done()
	}
	return err
}

// untilDone runs a transaction that may be repeated until it is known to be committed, at most tries times; 0 is until ctx ends.
func (p *Process) untilDone(ctx context.Context, op string, how lockMode, fences []int32, tries int, do func() error) error {
	for try := 0; ; try++ {
		err := p.transaction(ctx, op, how, fences, do)
		if err == nil {
			return nil
		}
		if err := p.waitIfKilled(ctx, err); ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if final(err) || tries > 0 && try+1 >= tries {
			return err
		}
		if wait := backoff(ctx, try+1); wait != nil {
			return errors.Join(wait, err)
		}
	}
}

// maxTries is how often the ledger tries what it does not try until its context ends.
const maxTries = 9

// read is a transaction that only reads, of one try.
func (p *Process) read(ctx context.Context, op string, do func() error) error {
	err := p.transaction(ctx, op, shared, nil, do)
	return p.waitIfKilled(ctx, err)
}

// backoff waits before try number n, as the ledger does, but without chance: a history is to repeat itself.
func backoff(ctx context.Context, n int) error {
	return retry.Sleep(ctx, min(5*time.Millisecond<<min(n-1, 10), time.Second))
}

func unavailable(op string, err error) error {
	if err == nil {
		return nil
	}
	return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: err}
}

func kindOf(err error) schemas.Kind {
	if _, ours := errors.AsType[refusal](err); ours {
		return schemas.Conflict
	}
	if final(err) {
		return schemas.Internal
	}
	return schemas.Unavailable
}

// lockMode is how a transaction holds fences: batches share them, a claim has its own alone.
type lockMode int

const (
	shared lockMode = iota
	exclusive
)

// locks are the rows' locks: who holds them, by fence. As in Postgres nobody is held up by one who waits. Guarded by Memory.mu.
type locks struct {
	shared    map[int32]int
	exclusive map[int32]bool
	freed     chan struct{} // closed when some lock is given back; nil: nobody waits
}

// take takes a lock unless somebody has it in a mode that excludes this one, and reports whether it did. It does not wait.
func (l *locks) take(how lockMode, id int32) bool {
	if l.shared == nil {
		l.shared, l.exclusive = map[int32]int{}, map[int32]bool{}
	}
	switch {
	case l.exclusive[id], how == exclusive && l.shared[id] > 0:
		return false
	case how == exclusive:
		l.exclusive[id] = true
	default:
		l.shared[id]++
	}
	return true
}

// give gives a lock back and wakes those who wait.
func (l *locks) give(how lockMode, id int32) {
	if how == exclusive {
		delete(l.exclusive, id)
	} else {
		l.shared[id]--
	}
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}

// lock takes the locks of fences in their order, and waits for each; with an error it holds none.
func (p *Process) lock(ctx context.Context, how lockMode, fences []int32) error {
	for i, id := range fences {
		if err := p.lockOne(ctx, how, id); err != nil {
			p.unlock(how, fences[:i])
			return err
		}
	}
	return nil
}

func (p *Process) lockOne(ctx context.Context, how lockMode, id int32) error {
	m := p.m
	for {
		m.mu.Lock()
		if p.killed {
			m.mu.Unlock()
			return errKilled
		}
		if m.locks.take(how, id) {
			m.mu.Unlock()
			return nil
		}
		if m.locks.freed == nil {
			m.locks.freed = make(chan struct{})
		}
		p.waits++
		if m.waited != nil {
			close(m.waited)
			m.waited = nil
		}
		freed, change := m.locks.freed, m.change
		m.mu.Unlock()
		select {
		case <-freed:
		case <-change:
		case <-ctx.Done():
		}
		m.mu.Lock()
		p.waits--
		m.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Waits waits until a call of the process waits for a lock that another holds.
func (p *Process) Waits(ctx context.Context) error {
	for {
		p.m.mu.Lock()
		if p.m.waited == nil {
			p.m.waited = make(chan struct{})
		}
		waits, waited := p.waits, p.m.waited
		p.m.mu.Unlock()
		if waits > 0 {
			return nil
		}
		select {
		case <-waited:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *Process) unlock(how lockMode, fences []int32) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for _, id := range fences {
		p.m.locks.give(how, id)
	}
}

func idsOf(claims []*ledger.Claim) []int32 {
	ids := make([]int32, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
	}
	return ids
}

func claimsSorted(claims []*ledger.Claim) []*ledger.Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b *ledger.Claim) int { return cmp.Compare(a.ID, b.ID) })
}
