package owner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// session is this process as a member of the group in one generation.
type session struct {
	member     string
	generation int32
	instance   *string // the static member's id; nil of a dynamic one
}

// pulse knows when the coordinator last confirmed this member.
//
// It sends heartbeats of its own, besides the client's, once per heartbeat interval. A hook on the client's heartbeats
// would cost less, but a hook does not see the answer: "unknown member", the answer to a process that wakes after a long sleep,
// would look like a confirmation, and while a revoke is being drained the client goes on heartbeating after a refusal.
//
// An answer confirms the member from the time before the heartbeat was sent: the broker's session timer has started later. An
// answer that refuses the member takes back what was confirmed before, since the partitions may have another owner by now.
type pulse struct {
	timeout  time.Duration // the group's session timeout
	interval time.Duration
	now      func() time.Time                           // a clock that runs on while the machine is suspended
	beat     func(ctx context.Context, s session) error // sends a heartbeat
	kick     chan struct{}                              // has run send a heartbeat at once; capacity 1, never closed

	mu     sync.Mutex
	cur    *session  // nil: not in the group
	last   time.Time // when the last confirmed heartbeat was sent; zero: none counts
	quits  string    // the id of a member that leaves the group, and does not count as alive any more; empty: none does
	rounds uint64    // grows with every change of cur: an answer to an older session does not count
}

func newPulse(timeout, interval time.Duration, beat func(context.Context, session) error) *pulse {
	return &pulse{timeout: timeout, interval: interval, now: nowSuspended(suspended), beat: beat, kick: make(chan struct{}, 1)}
}

// nowSuspended returns a clock that runs on while the machine is suspended, as the broker's does. Go's monotonic clock stands
// still meanwhile: by it, a session that is long over would still have time left.
func nowSuspended(suspended func() time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(suspended()) }
}

// Alive reports whether the coordinator has confirmed the current session within the session timeout: until then it gives the
// partitions to nobody else.
func (p *pulse) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil && !p.leaves(*p.cur) && !p.last.IsZero() && p.now().Sub(p.last) < p.timeout
}

// quit has a member not be alive any more: it leaves the group, which may give its partitions away at once.
func (p *pulse) quit(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quits = member
}

// quitting reports whether quit was called with the session's member.
func (p *pulse) quitting(s session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaves(s)
}

func (p *pulse) leaves(s session) bool { return p.quits != "" && p.quits == s.member }

// otherMember reports whether s has another member id than the session before: then this process was no member in between.
func (p *pulse) otherMember(s session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cur != nil && p.cur.member != s.member
}

// joined is called with every new session, and has a heartbeat sent at once. What was confirmed for the session before still counts:
// the member has not left in between.
func (p *pulse) joined(s session) {
	p.mu.Lock()
	p.cur = &s
	p.rounds++
	p.mu.Unlock()
	p.beatNow()
}

// beatNow has run send a heartbeat at once.
func (p *pulse) beatNow() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// lost ends the session: from now on the process is not alive.
func (p *pulse) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cur, p.last = nil, time.Time{}
	p.rounds++
}

// session returns the current session; false if there is none.
func (p *pulse) session() (session, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return session{}, false
	}
	return *p.cur, true
}

// run sends heartbeats until ctx is done.
func (p *pulse) run(ctx context.Context) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-tick.C:
		}
		p.sendOne(ctx)
	}
}

// sendOne sends a heartbeat for the current session, if there is one, and takes in the answer. An error that does not end the session
// changes nothing: the next heartbeat tries again.
func (p *pulse) sendOne(ctx context.Context) {
	p.mu.Lock()
	cur, round := p.cur, p.rounds
	p.mu.Unlock()
	if cur == nil {
		return
	}
	sent := p.now()
	ctx, cancel := context.WithTimeout(ctx, p.timeout/2)
	defer cancel()
	switch err := p.beat(ctx, *cur); {
	case err == nil:
		p.confirm(round, sent)
	case sessionOver(err):
		p.takeBack(round)
	}
}

// sessionOver reports whether an error is the coordinator's answer that the session is over.
func sessionOver(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.FencedInstanceID)
}

// confirm counts a heartbeat of a round as confirmed, from when it was sent.
func (p *pulse) confirm(round uint64, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rounds == round && sent.After(p.last) {
		p.last = sent
	}
}

// takeBack takes back what was confirmed: the coordinator has refused the session of a round.
func (p *pulse) takeBack(round uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rounds == round {
		p.last = time.Time{}
	}
}
