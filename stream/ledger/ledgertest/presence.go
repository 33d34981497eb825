package ledgertest

import (
	"context"
	"time"
)

// member is a member of the group, and the process that is it.
type member struct {
	of     *Process
	judged bool
}

// How often a process looks, and for how long others are away before they are judged; as of the real one.
const (
	lookEvery = 500 * time.Millisecond
	awayFor   = 3 * lookEvery
)

// Away has a process lose the connection by which others know that it lives, until Back. All else it may do.
func (p *Process) Away() { p.set(func() { p.away = time.Now() }) }

// Back gives it that connection again. Of a process that was killed it does nothing.
func (p *Process) Back() {
	p.set(func() {
		if !p.killed {
			p.away = time.Time{}
		}
	})
}

// Enter is [ledger.Namespace.Enter].
func (p *Process) Enter(id string) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if known := p.m.members[id]; id != "" && !p.killed && (known == nil || !known.judged) {
		p.m.members[id] = &member{of: p}
		if p.entered == nil {
			p.entered = map[string]bool{}
		}
		p.entered[id] = true
	}
}

// Present is [ledger.Namespace.Present].
func (p *Process) Present(id string) bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	known := p.m.members[id]
	return !p.killed && (!p.entered[id] || known != nil && !known.judged && p.away.IsZero()) // one that was forgotten had been judged
}

// Unknown is [ledger.Namespace.Unknown]: the row of every member is there at once.
func (*Process) Unknown(string) bool { return false }

// Absent is [ledger.Namespace.Absent].
func (p *Process) Absent(tell func(members []string)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if absent := p.absent(); len(absent) > 0 {
				tell(absent)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// absent judges members whose processes have been away for long enough, and returns all that are judged.
func (p *Process) absent() (ids []string) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.killed || p.frozen || !p.away.IsZero() {
		return nil
	}
	for id, known := range p.m.members {
		if away := known.of.away; !away.IsZero() && time.Since(away) >= awayFor {
			known.judged = true
		}
		if known.judged {
			ids = append(ids, id)
		}
	}
	return ids
}

// Left is [ledger.Namespace.Left].
func (p *Process) Left(notify func()) (stop func()) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.m.listener++
	id := p.m.listener
	p.m.toldOfLeft[id] = func() {
		if !p.killed && !p.frozen {
			notify()
		}
	}
	return func() {
		p.m.mu.Lock()
		defer p.m.mu.Unlock()
		delete(p.m.toldOfLeft, id)
	}
}

// ForgetMember is [ledger.Namespace.ForgetMember].
func (p *Process) ForgetMember(ctx context.Context, id string) error {
	if err := p.awake(ctx); err != nil {
		return err
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	delete(p.m.members, id)
	for _, notify := range p.m.toldOfLeft {
		notify()
	}
	return nil
}
