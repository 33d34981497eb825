package stream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Why an assignment ends: the cause of its context.
var (
	errRevoked  = errors.New("the group revoked the partition")
	errLost     = errors.New("the group gave the partition away")
	errShutdown = errors.New("the process stops")
)

// owner turns what the group assigns into claims, one goroutine for each partition:
//
//	assigned ──▶ claim ──▶ run ──▶ revoked: drain, mirror, release     lost, fenced: drop, write nothing
//	              ▲  └ refused: again as long as it stays assigned
//	              └───── fenced, unknown, recheck
type owner struct {
	cfg     Config
	log     *slog.Logger
	loop    *loop
	mirror  *mirror
	broker  *broker
	pulse   *pulse
	status  *status
	metrics *metrics
	known   known
	renew   context.CancelCauseFunc // ends the clients, so that new ones are made
	copies  *copier
	// cleaning is what every last step lives by, whatever it is made for: it ends when stopping has taken its time.
	cleaning context.Context

	mu      sync.Mutex
	parts   map[topicPartition]*assignment
	closing bool
}

// assignment is a partition as long as the group leaves it here.
type assignment struct {
	at     topicPartition
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed by own

	// own's
	stop *StopError // what it is stopped for
	// lastStop is what the last claim was stopped for, until one has run well again; unread since when it could not be read.
	lastStop *StopError
	unread   time.Time
	slow     int // claims that ran out of time since the last one that did not
}

func (o *owner) assigned(s session, parts []topicPartition) {
	if o.pulse.otherMember(s) {
		parts = append(parts, o.claimAgain(s)...)
	}
	o.pulse.joined(s)
	o.status.join()
	o.log.Info("group session begun", "member", s.member, "generation", s.generation, "new", len(parts))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range parts {
		if o.closing || o.parts[at] != nil {
			continue
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		a := &assignment{at: at, ctx: ctx, cancel: cancel, done: make(chan struct{})}
		o.parts[at] = a
		go o.own(a)
	}
}

// claimAgain gives up what was claimed under a former member id, to be claimed again. A member that was expelled and finds out
// by its JoinGroup joins as somebody else, and kgo calls neither lost nor assigned for what it had (v1.22.2). But nobody
// may have been in the group for a while, and what an operator did to it then only a claim sees.
func (o *owner) claimAgain(s session) []topicPartition {
	o.mu.Lock()
	parts := slices.Collect(maps.Keys(o.parts))
	o.mu.Unlock()
	o.log.Warn("expelled from the group and joined again; claiming what is still assigned again", "member", s.member, "partitions", len(parts))
	o.lost(parts)
	return parts
}

func (o *owner) revoked(parts []topicPartition) { o.end(parts, errRevoked) }

func (o *owner) lost(parts []topicPartition) {
	o.pulse.lost()
	o.status.leave()
	o.end(parts, errLost)
}

// close gives everything up and takes nothing any more. It returns soon after cleaning has ended, whoever does not answer.
func (o *owner) close() {
	o.mu.Lock()
	o.closing = true
	parts := make([]topicPartition, 0, len(o.parts))
	for at := range o.parts {
		parts = append(parts, at)
	}
	o.mu.Unlock()
	o.end(parts, errShutdown)
}

// end ends assignments and waits until their goroutines have cleaned up, which takes a bounded time.
func (o *owner) end(parts []topicPartition, why error) {
	o.mu.Lock()
	var ending []*assignment
	for _, at := range parts {
		if a := o.parts[at]; a != nil {
			a.cancel(why)
			ending = append(ending, a)
		}
	}
	o.mu.Unlock()
	for _, a := range ending {
		<-a.done
		o.mu.Lock()
		if o.parts[a.at] == a {
			delete(o.parts, a.at)
		}
		o.mu.Unlock()
		o.status.forget(a.at)
	}
}

// steady is how long a claim must have run for the next one to be made without waiting longer and longer.
const steady = 10 * time.Second

// own claims and runs a partition until its assignment ends.
func (o *owner) own(a *assignment) {
	defer close(a.done)
	var wait backoff
	for a.ctx.Err() == nil {
		c, err := o.claim(a, &wait)
		if err == nil && c.Partition.TopicID != o.known.ids[a.at.topic] {
			o.releaseUnused(c.Claim)
			o.renew(errRenew)
			<-a.ctx.Done()
			return
		}
		if err == nil {
			began := time.Now()
			err = o.run(a, c)
			if time.Since(began) > steady {
				wait = backoff{}
			}
			if a.ctx.Err() == nil {
				o.log.Warn("claim ended", "topic", a.at.topic, "partition", a.at.number, "reason", err)
			}
		}
		if e, ok := errors.AsType[*StopError](err); ok {
			o.stop(a, e)
			continue
		}
		wait.sleep(a.ctx)
	}
}

// stop leaves a partition alone until it is time to look again: only a person can say what is right. The other
// partitions go on.
func (o *owner) stop(a *assignment, e *StopError) {
	o.tell(a, e)
	timer := time.NewTimer(o.cfg.StopLook)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
	}
}

// tell shows a partition as stopped, and reports it where that is news. The report is kept in the ledger, for people in any process,
// and because what happened may not show any more when somebody looks again.
func (o *owner) tell(a *assignment, e *StopError) {
	switch {
	case e.same(a.lastStop):
		a.stop = a.lastStop
	case !e.same(a.stop):
		if e.Stop.ID == 0 {
			o.broker.date(a.ctx, e)
		}
		o.log.Error("partition stopped", "topic", a.at.topic, "partition", a.at.number, "reason", e.Reason, "error", e)
		o.metrics.stops.WithLabelValues(string(e.Reason)).Inc()
		a.stop = e
	}
	if e.Reason == StopRefused || e.Reason == StopUnreadable || e.Reason == StopPartitions {
		a.lastStop = a.stop
	}
	o.report(a)
	o.status.set(a.at, Stopped, a.stop)
}

// report stores what a partition is stopped for, if it is not stored yet.
func (o *owner) report(a *assignment) {
	e := a.stop
	if !e.Reason.acceptable() || e.Stop.ID != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, claimTimeout)
	defer cancel()
	stored, err := o.cfg.Ledger.Report(ctx, *e.Stop, e.facts.standing.Epoch)
	if err == nil {
		a.stop = &StopError{Partition: e.Partition, Reason: e.Reason, Stop: &stored, facts: e.facts}
	} else if a.ctx.Err() == nil {
		o.log.Warn("stop not stored; trying again", "topic", a.at.topic, "partition", a.at.number, "error", err)
	}
}

// run serves one claim from the lanes' opening to its end, and says why it ended.
func (o *owner) run(a *assignment, got claimed) error {
	c := got.Claim
	own := newOwned(a.at, got)
	own.unread = a.unread
	if got.grown != nil {
		o.tell(a, got.grown)
	}
	o.noteSeek(c)
	if err := o.settle(a, own, got.settle); err != nil {
		o.releaseUnused(c)
		return err
	}
	o.loop.expect(c)
	defer o.loop.forget(c)
	if err := o.cfg.Lanes.Open(a.ctx, c); err != nil {
		o.cfg.Lanes.Drop(c)
		o.releaseUnused(c)
		return err
	}
	var why error
	if o.loop.attach(a.ctx, own) {
		defer o.copies.start(a.ctx, c, o.loop.fenced)()
		defer o.cfg.Questions.start(c)()
		why = o.watch(a, own)
	} else {
		why = context.Cause(a.ctx)
	}
	o.giveUp(own, why)
	if _, stopped := errors.AsType[*StopError](why); !stopped {
		o.status.set(a.at, Claiming, why)
	}
	return why
}

// watch waits for the end of a claim that runs. After a stop it is shown as running only once something was committed, or
// nothing has gone wrong for a while.
func (o *owner) watch(a *assignment, own *owned) (why error) {
	committed, quiet := own.committed, time.Duration(0)
	if a.lastStop != nil {
		quiet = steady
	}
	well := time.NewTimer(quiet)
	defer well.Stop()
	if own.unreading {
		well.Stop()
		committed = nil // it stays stopped
	}
	for {
		select {
		case <-committed:
			a.lastStop, a.unread = nil, time.Time{}
			o.status.set(a.at, Running, nil)
			committed = nil // once is enough
		case <-well.C:
			a.lastStop = nil
			o.status.set(a.at, Running, nil)
		case why = <-own.end:
			if e, ok := errors.AsType[*StopError](why); ok && e.Reason == StopUnreadable {
				a.unread = own.unread
			}
			return why
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
}

func (o *owner) noteSeek(c *ledger.Claim) {
	if c.Seek == nil {
		return
	}
	direction := "back"
	if c.Seek.To > c.Seek.From {
		direction = "forward"
	}
	o.metrics.seeks.WithLabelValues(direction).Inc()
	o.log.Warn("the position was moved", "topic", c.Partition.Topic, "partition", c.Partition.Number,
		"from", c.Seek.From, "to", c.Seek.To, "skipped", max(0, c.Seek.To-c.Seek.From))
}

// settle mirrors the position with our marker before the first batch, where the group's commit is somebody else's.
func (o *owner) settle(a *assignment, own *owned, must bool) error {
	if !must {
		return nil
	}
	var wait backoff
	for {
		ctx, cancel := context.WithTimeout(a.ctx, claimTimeout)
		err := o.mirror.commit(ctx, own.at, own.mirrored())
		cancel()
		if err == nil {
			return nil
		}
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		o.log.Warn("position not mirrored; trying again", "topic", a.at.topic, "partition", a.at.number, "error", err)
		wait.sleep(a.ctx)
	}
}

// giveUp ends a claim the way its reason allows.
func (o *owner) giveUp(own *owned, why error) {
	budget := o.cfg.RebalanceTimeout / 2
	switch {
	case errors.Is(why, errShutdown):
		budget = o.cfg.DrainTimeout - o.lastSteps()
	case errors.Is(why, errLost):
		budget = cleanupTimeout // nothing to drain, and the group is joined anew only afterwards
	}
	ctx, cancel := context.WithTimeoutCause(o.cleaning, budget, errTooSlow)
	defer cancel()
	if errors.Is(why, errLost) {
		o.cfg.Lanes.Drop(own.claim) // first of all: attempts in flight are not ours any more
	}
	still := o.detach(ctx, own)
	select { // what the loop found out in the meantime weighs more
	case found := <-own.end:
		why = found
	default:
	}
	if !still || errors.Is(why, errLost) || errors.Is(why, errFenced) || errors.Is(why, errUnknown) {
		o.cfg.Lanes.Drop(own.claim)
		o.mirror.drop(own.at)
		return
	}
	err := o.cfg.Lanes.Close(ctx, own.claim)
	o.mirrorLast(own)
	if err != nil {
		// The fence stays as it is, so that the next claim is unclean and waits for what may still be in flight.
		o.log.Warn("lanes not drained, fence not released", "topic", own.at.topic, "partition", own.at.number, "error", err)
		return
	}
	o.release(own.claim)
}

// errTooSlow is the cause of what is cut off because a partition must be given up.
var errTooSlow = errors.New("the time to give the partition up is over")

// detach takes the claim from the loop. A transaction that takes longer than ctx is cut off, with all of its
// partitions; the next claims read whether it was written.
func (o *owner) detach(ctx context.Context, own *owned) bool {
	if o.loop.detach(ctx, own) {
		return true
	}
	o.loop.running.abort(errTooSlow)
	ctx, cancel := context.WithTimeout(o.cleaning, cleanupTimeout)
	defer cancel()
	return o.loop.detach(ctx, own)
}

// lastSteps is how much of the time to stop is kept for position, fence and group.
func (o *owner) lastSteps() time.Duration { return min(cleanupTimeout, o.cfg.DrainTimeout/4) }

// mirrorLast leaves time for what does not need the brokers.
func (o *owner) mirrorLast(own *owned) {
	ctx, cancel := context.WithTimeout(o.cleaning, o.lastSteps()/2)
	defer cancel()
	if err := o.mirror.commit(ctx, own.at, own.mirrored()); err != nil {
		o.log.Warn("last position not mirrored", "topic", own.at.topic, "partition", own.at.number, "error", err)
	}
}

// releaseUnused gives back a claim that has started nothing, unless it was unclean: what the owner before it has in
// flight is not over because this one gives up.
func (o *owner) releaseUnused(c *ledger.Claim) {
	if !c.Unclean {
		o.release(c)
	}
}

// release gives the fence back. Not to succeed costs the next owner a wait, nothing else.
func (o *owner) release(c *ledger.Claim) {
	ctx, cancel := context.WithTimeout(o.cleaning, cleanupTimeout)
	defer cancel()
	if err := o.cfg.Ledger.Release(ctx, c); err != nil {
		o.log.Warn("fence not released", "topic", c.Partition.Topic, "partition", c.Partition.Number, "error", err)
	}
}

// cleanupTimeout bounds each of the last steps, so that a revoke ends well within the rebalance timeout.
const cleanupTimeout = 5 * time.Second
