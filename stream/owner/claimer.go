package owner

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Why an assignment ends: the cause of its context.
var (
	errRevoked  = errors.New("the group revoked the partition")
	errLost     = errors.New("the group gave the partition away")
	errShutdown = errors.New("the process stops")
)

// claimer turns what the group assigns into claims, one goroutine for each partition:
//
//	assigned ──▶ claim ──▶ run ──▶ revoked: drain, mirror, release     lost, fenced: drop, write nothing
//	              ▲  └ refused: again as long as it stays assigned
//	              └───── fenced, unknown, recheck
type claimer struct {
	cfg     Config
	log     *slog.Logger
	work    Work
	topics  Topics
	mirror  *mirror
	broker  *broker
	pulse   *pulse
	status  *status
	metrics *metrics

	mu      sync.Mutex
	parts   map[reader.TopicPartition]*assignment
	running map[*ledger.Claim]*held
	closing bool
}

// assignment is a partition as long as the group leaves it here.
type assignment struct {
	at     reader.TopicPartition
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

func (o *claimer) assigned(s session, parts []reader.TopicPartition) {
	if o.pulse.otherMember(s) {
		parts = append(parts, o.dropFormerClaims(s)...)
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

// dropFormerClaims gives up what was claimed under a former member id, to be claimed again. A member that was expelled and finds out
// by its JoinGroup joins as somebody else, and kgo calls neither lost nor assigned for what it had (v1.22.2). But nobody
// may have been in the group for a while, and what an operator did to it then only a claim sees.
func (o *claimer) dropFormerClaims(s session) []reader.TopicPartition {
	o.mu.Lock()
	parts := slices.Collect(maps.Keys(o.parts))
	o.mu.Unlock()
	o.log.Warn("expelled from the group and joined again; claiming what is still assigned again", "member", s.member, "partitions", len(parts))
	o.lost(parts)
	return parts
}

func (o *claimer) revoked(parts []reader.TopicPartition) { o.end(parts, errRevoked) }

func (o *claimer) lost(parts []reader.TopicPartition) {
	o.pulse.lost()
	o.status.leave()
	o.end(parts, errLost)
}

// close gives everything up and takes nothing any more. It returns soon after cleaning has ended, whoever does not answer.
func (o *claimer) close() {
	o.mu.Lock()
	o.closing = true
	parts := make([]reader.TopicPartition, 0, len(o.parts))
	for at := range o.parts {
		parts = append(parts, at)
	}
	o.mu.Unlock()
	o.end(parts, errShutdown)
}

// end ends assignments and waits until their goroutines have cleaned up, which takes a bounded time.
func (o *claimer) end(parts []reader.TopicPartition, why error) {
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
func (o *claimer) own(a *assignment) {
	defer close(a.done)
	var wait retry.Backoff
	for a.ctx.Err() == nil {
		c, err := o.claim(a, &wait)
		if err == nil && c.Partition.TopicID != o.topics.ids[a.at.Topic] {
			o.releaseUnused(c.Claim)
			o.work.Renew()
			<-a.ctx.Done()
			return
		}
		if err == nil {
			began := time.Now()
			err = o.run(a, c)
			if time.Since(began) > steady {
				wait = retry.Backoff{}
			}
			if a.ctx.Err() == nil {
				o.log.Warn("claim ended", "topic", a.at.Topic, "partition", a.at.Number, "reason", err)
			}
		}
		if e, ok := errors.AsType[*StopError](err); ok {
			o.stop(a, e)
			continue
		}
		wait.Sleep(a.ctx)
	}
}

// stop leaves a partition alone until it is time to look again: only an operator can say what is right. The other
// partitions go on.
func (o *claimer) stop(a *assignment, e *StopError) {
	o.showStopped(a, e)
	_ = retry.Sleep(a.ctx, o.cfg.StopLook)
}

// showStopped shows a partition as stopped, and reports it where that is news. The report is kept in the ledger, for operators at any process,
// and because what happened may not show any more when somebody looks again.
func (o *claimer) showStopped(a *assignment, e *StopError) {
	switch {
	case e.same(a.lastStop):
		a.stop = a.lastStop
	case !e.same(a.stop):
		if e.Stop.ID == 0 {
			o.broker.date(a.ctx, e)
		}
		o.log.Error("partition stopped", "topic", a.at.Topic, "partition", a.at.Number, "reason", e.Reason, "error", e)
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
func (o *claimer) report(a *assignment) {
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
		o.log.Warn("stop not stored; trying again", "topic", a.at.Topic, "partition", a.at.Number, "error", err)
	}
}

// held is a claim that runs.
type held struct {
	at     reader.TopicPartition
	claim  *ledger.Claim
	member string // that made it
	run    *batch.Partition
	next   ledger.Position // as the loop told it last; the loop's until it is detached
	fenced chan struct{}   // capacity 1: the lanes found the fence lost
}

func newHeld(a *assignment, c claimed) *held {
	h := &held{at: a.at, claim: c.Claim, member: c.member, run: batch.NewPartition(c.Claim, c.partitions), next: c.Next, fenced: make(chan struct{}, 1)}
	h.run.LanesOnly, h.run.Unread = c.grown != nil, a.unread
	return h
}

// mirrored is its position for the mirror.
func (h *held) mirrored() mirrored {
	return mirrored{id: h.claim.Partition.TopicID, at: h.next, member: h.member}
}

// lostFence ends a claim whose fence somebody found lost. It does not wait.
func (o *claimer) lostFence(c *ledger.Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.running[c]; h != nil {
		h.loseFence()
	}
}

func (h *held) loseFence() {
	select {
	case h.fenced <- struct{}{}:
	default: // it is known
	}
}

// hold has lostFence find a claim until the returned function is called.
func (o *claimer) hold(h *held) (letGo func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[h.claim] = h
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, h.claim)
	}
}

// run serves one claim from the lanes' opening to its end, and says why it ended.
func (o *claimer) run(a *assignment, got claimed) error {
	c := got.Claim
	h := newHeld(a, got)
	h.run.Moved = func(next ledger.Position) {
		h.next = next
		o.mirror.set(h.at, h.mirrored())
	}
	if got.grown != nil {
		o.showStopped(a, got.grown)
	}
	o.noteSeek(c)
	if err := o.mirrorFirst(a, h, got.mirrorFirst); err != nil {
		o.releaseUnused(c)
		return err
	}
	defer o.hold(h)() // the lanes may find the fence lost from the moment that they open
	if err := o.work.Lanes.Open(a.ctx, c); err != nil {
		o.work.Lanes.Drop(c)
		o.releaseUnused(c)
		return err
	}
	var why error
	if o.work.Loop.Attach(a.ctx, h.run) {
		defer o.work.Copier.Start(a.ctx, c, h.loseFence)()
		defer o.cfg.Backfills.Start(c)()
		why = o.watch(a, h)
	} else {
		why = context.Cause(a.ctx)
	}
	o.giveUp(h, why)
	if _, stopped := errors.AsType[*StopError](why); !stopped {
		o.status.set(a.at, Claiming, why)
	}
	return why
}

// watch waits for the end of a claim that runs. After a stop it is shown as running only once something was committed, or
// nothing has gone wrong for a while.
func (o *claimer) watch(a *assignment, h *held) (why error) {
	committed, quiet := h.run.Committed(), time.Duration(0)
	if a.lastStop != nil {
		quiet = steady
	}
	well := time.NewTimer(quiet)
	defer well.Stop()
	if h.run.LanesOnly {
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
		case why = <-h.run.Ended():
			return o.ended(a, h, why)
		case <-h.fenced:
			return batch.ErrFenced
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
}

// ended is why the loop ended a run, as a stop where only an operator can say what is right.
func (o *claimer) ended(a *assignment, h *held, why error) error {
	if e, ok := errors.AsType[*batch.RefusedError](why); ok {
		return stop(h.claim.Partition, StopRefused, e.Err)
	}
	if e, ok := errors.AsType[*batch.UnreadableError](why); ok {
		a.unread = e.Since
		return unreadable(h.claim.Partition, e.Offset, e.Since, e.Err)
	}
	e, stops := stopped(o.cfg.Group, h.claim.Partition, why)
	if stops || h.run.LanesOnly && errors.Is(why, batch.ErrRecheck) {
		o.mirror.cl.ForceMetadataRefresh() // the group is to hear of it as well: who gets a new partition shows that it is not read
	}
	if stops {
		return e
	}
	return why
}

func (o *claimer) noteSeek(c *ledger.Claim) {
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

// mirrorFirst mirrors the position with our marker before the first batch, where the group's commit is somebody else's.
func (o *claimer) mirrorFirst(a *assignment, h *held, must bool) error {
	if !must {
		return nil
	}
	var wait retry.Backoff
	for {
		ctx, cancel := context.WithTimeout(a.ctx, claimTimeout)
		err := o.mirror.commit(ctx, h.at, h.mirrored())
		cancel()
		if err == nil {
			return nil
		}
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		o.log.Warn("position not mirrored; trying again", "topic", a.at.Topic, "partition", a.at.Number, "error", err)
		wait.Sleep(a.ctx)
	}
}

// giveUp ends a claim the way its reason allows.
func (o *claimer) giveUp(h *held, why error) {
	budget := o.cfg.RebalanceTimeout / 2
	switch {
	case errors.Is(why, errShutdown):
		budget = o.cfg.DrainTimeout - o.lastSteps()
	case errors.Is(why, errLost):
		budget = cleanupTimeout // nothing to drain, and the group is joined again only afterwards
	}
	ctx, cancel := context.WithTimeoutCause(o.work.Cleaning, budget, ErrTooSlow)
	defer cancel()
	if errors.Is(why, errLost) {
		o.work.Lanes.Drop(h.claim) // first of all: attempts in flight are not ours any more
	}
	still := o.detach(ctx, h)
	select { // what was found out in the meantime weighs more
	case <-h.fenced:
		why = batch.ErrFenced
	case found := <-h.run.Ended():
		why = found
	default:
	}
	if !still || errors.Is(why, errLost) || errors.Is(why, batch.ErrFenced) || errors.Is(why, batch.ErrUnknown) {
		o.work.Lanes.Drop(h.claim)
		o.mirror.drop(h.at)
		return
	}
	err := o.work.Lanes.Close(ctx, h.claim)
	o.mirrorLast(h)
	if err != nil {
		// The fence stays as it is, so that the next claim is unclean and waits for what may still be in flight.
		o.log.Warn("lanes not drained, fence not released", "topic", h.at.Topic, "partition", h.at.Number, "error", err)
		return
	}
	o.release(h.claim)
}

// ErrTooSlow is the cause of what is cut off because a partition must be given up.
var ErrTooSlow = errors.New("the time to give the partition up is over")

// detach takes the claim from the loop. A transaction that takes longer than ctx is cut off, with all of its
// partitions; the next claims read whether it was written.
func (o *claimer) detach(ctx context.Context, h *held) bool {
	if o.work.Loop.Detach(ctx, h.run) {
		return true
	}
	o.work.Loop.Abort(ErrTooSlow)
	ctx, cancel := context.WithTimeout(o.work.Cleaning, cleanupTimeout)
	defer cancel()
	return o.work.Loop.Detach(ctx, h.run)
}

// lastSteps is how much of the time to stop is kept for position, fence and group.
func (o *claimer) lastSteps() time.Duration { return min(cleanupTimeout, o.cfg.DrainTimeout/4) }

// mirrorLast leaves time for what does not need the brokers.
func (o *claimer) mirrorLast(h *held) {
	ctx, cancel := context.WithTimeout(o.work.Cleaning, o.lastSteps()/2)
	defer cancel()
	if err := o.mirror.commit(ctx, h.at, h.mirrored()); err != nil {
		o.log.Warn("last position not mirrored", "topic", h.at.Topic, "partition", h.at.Number, "error", err)
	}
}

// releaseUnused gives back a claim that has started nothing, unless it was unclean: what the owner before it has in
// flight is not over because this one gives up.
func (o *claimer) releaseUnused(c *ledger.Claim) {
	if !c.Unclean {
		o.release(c)
	}
}

// release gives the fence back. Not to succeed costs the next owner a wait, nothing else.
func (o *claimer) release(c *ledger.Claim) {
	ctx, cancel := context.WithTimeout(o.work.Cleaning, cleanupTimeout)
	defer cancel()
	if err := o.cfg.Ledger.Release(ctx, c); err != nil {
		o.log.Warn("fence not released", "topic", c.Partition.Topic, "partition", c.Partition.Number, "error", err)
	}
}

// cleanupTimeout bounds each of the last steps, so that a revoke ends well within the rebalance timeout.
const cleanupTimeout = 5 * time.Second
