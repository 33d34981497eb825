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
//	              ▲  └ refused: tried again as long as the partition is assigned
//	              └───── fenced, unknown, recheck: claimed again
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
	joins   context.Context // once it is done, the group is not joined again

	mu      sync.Mutex
	parts   map[reader.TopicPartition]*assignment
	running map[*ledger.Claim]*runningClaim
	closing bool
}

// assignment is a partition while the group assigns it to this process.
type assignment struct {
	at     reader.TopicPartition
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed by own

	// Used by own's goroutine only.
	stop     *StopError // why the partition is stopped; nil: it is not
	lastStop *StopError // why the last run was stopped; nil again once a run has worked (see watch)
	unread   time.Time  // since when the partition could not be read; zero: it could
	failed   error      // why the partition has not run since it last did; nil: it has not failed since
	slow     int        // claims in a row that ran out of time
}

// assigned begins a group session, and starts owning the partitions that are new in it. If this process has another member id than
// before, it claims again what it had.
func (o *claimer) assigned(s session, parts []reader.TopicPartition) {
	if o.pulse.otherMember(s) {
		parts = append(parts, o.dropFormerClaims(s)...)
	}
	o.pulse.joined(s)
	if s.instance == nil { // a static member's place is kept for it until its session times out
		o.cfg.Ledger.Enter(s.member)
	}
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

// dropFormerClaims gives up what was claimed under a former member id, and returns it to be claimed again. A member that was expelled and
// finds out by its JoinGroup joins under another id, and kgo calls neither lost nor assigned for what it had (v1.22.2). But the group may
// have been empty for a while, and an operator may have moved it: only a claim finds that out.
func (o *claimer) dropFormerClaims(s session) []reader.TopicPartition {
	o.mu.Lock()
	parts := slices.Collect(maps.Keys(o.parts))
	o.mu.Unlock()
	o.log.Warn("expelled from the group and joined again; claiming what is still assigned again", "member", s.member, "partitions", len(parts))
	o.drop(parts)
	return parts
}

// revoked gives up partitions that the group takes: drained, mirrored, released.
func (o *claimer) revoked(parts []reader.TopicPartition) { o.end(parts, errRevoked) }

// lost drops partitions that the group has given away, and returns when the group may be joined again.
func (o *claimer) lost(parts []reader.TopicPartition) {
	o.drop(parts)
	o.awaitLedger()
}

// drop drops partitions that the group has given away, and ends the session.
func (o *claimer) drop(parts []reader.TopicPartition) {
	o.pulse.lost()
	o.status.leave()
	o.end(parts, errLost)
}

// close gives up all partitions and takes no new ones. It returns soon after Work.Cleaning has ended, even if brokers or the
// database do not answer.
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

// end ends assignments and waits until their goroutines have given up their claims, which takes a bounded time.
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

// steady is how long a claim must have run to count as working: the next one is then tried without a growing wait.
const steady = 10 * time.Second

// own claims a partition and runs the claim, again and again until the assignment ends.
func (o *claimer) own(a *assignment) {
	defer close(a.done)
	var wait retry.Backoff
	for a.ctx.Err() == nil {
		c, err := o.claim(a, &wait)
		if err == nil && c.Partition.TopicID != o.topics.ids[a.at.Topic] { // created again: the clients hold on to the old id
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
			if a.ctx.Err() == nil && errors.Is(err, batch.ErrSeek) {
				o.log.Info("claimed again to move the position", "topic", a.at.Topic, "partition", a.at.Number)
				continue
			}
			if a.ctx.Err() == nil {
				o.log.Warn("claim ended", "topic", a.at.Topic, "partition", a.at.Number, "reason", err)
			}
		}
		if e, ok := errors.AsType[*StopError](err); ok {
			o.waitStopped(a, e)
			continue
		}
		wait.Sleep(a.ctx)
	}
}

// waitStopped shows a partition as stopped, and waits until it is time to claim it again: by then an operator may have accepted the stop,
// or its cause may be gone. The other partitions go on.
func (o *claimer) waitStopped(a *assignment, e *StopError) {
	o.showStopped(a, e)
	_ = retry.Sleep(a.ctx, o.cfg.StopLook)
}

// showStopped shows a partition as stopped, and logs and counts the stop if it is a new one. The ledger keeps the report: operators
// ask any process, and the log may not show any more what has happened.
func (o *claimer) showStopped(a *assignment, e *StopError) {
	switch {
	case e.same(a.lastStop): // a run that has not worked yet ended as the one before it
		a.stop = a.lastStop
	case !e.same(a.stop): // a new one
		if e.Stop.ID == 0 {
			o.broker.addDates(a.ctx, e)
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

// report stores a partition's stop in the ledger, unless it is stored already or cannot be accepted.
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

// runningClaim is a claim while it runs, in the loop and in the lanes.
type runningClaim struct {
	at     reader.TopicPartition
	claim  *ledger.Claim
	member string           // the member id under which it was claimed
	inLoop *batch.Partition // what is attached to the loop
	next   ledger.Position  // set by the loop; read by others only after Detach
	fenced chan struct{}    // capacity 1: the lanes or the copier found the fence lost
}

func newRunningClaim(a *assignment, c claimed) *runningClaim {
	rc := &runningClaim{at: a.at, claim: c.Claim, member: c.member, inLoop: batch.NewPartition(c.Claim, c.partitions), next: c.Next, fenced: make(chan struct{}, 1)}
	rc.inLoop.LanesOnly, rc.inLoop.Unread = c.grown != nil, a.unread
	return rc
}

// mirrorPosition returns the claim's position for the mirror.
func (rc *runningClaim) mirrorPosition() mirrorPosition {
	return mirrorPosition{id: rc.claim.Partition.TopicID, at: rc.next, member: rc.member}
}

// lostFence ends a running claim whose fence was found lost. It does not block.
func (o *claimer) lostFence(c *ledger.Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if rc := o.running[c]; rc != nil {
		rc.loseFence()
	}
}

// loseFence ends the claim: its fence was found lost. It does not block.
func (rc *runningClaim) loseFence() {
	select {
	case rc.fenced <- struct{}{}:
	default: // known already
	}
}

// register lets lostFence find a claim until unregister is called.
func (o *claimer) register(rc *runningClaim) (unregister func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[rc.claim] = rc
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, rc.claim)
	}
}

// run runs one claim until it ends, gives it up, and returns why it ended.
func (o *claimer) run(a *assignment, got claimed) error {
	c := got.Claim
	rc := newRunningClaim(a, got)
	rc.inLoop.Moved = func(next ledger.Position) {
		rc.next = next
		o.mirror.set(rc.at, rc.mirrorPosition())
	}
	if got.grown != nil {
		o.showStopped(a, got.grown)
	}
	o.reportSeek(c, got.seekRequest)
	if err := o.mirrorFirst(a, rc, got.mirrorFirst); err != nil {
		o.releaseUnused(c)
		return err
	}
	defer o.register(rc)() // before Open: from then on the lanes may find the fence lost
	if err := o.work.Lanes.Open(a.ctx, c); err != nil {
		o.showFailed(a, err)
		o.work.Lanes.Drop(c)
		o.releaseUnused(c)
		return err
	}
	var why error
	if o.work.Loop.Attach(a.ctx, rc.inLoop) {
		defer o.work.Copier.Start(a.ctx, c, rc.loseFence)() // ends after giveUp: what it writes is fenced
		defer o.cfg.Backfills.Start(c)()
		why = o.watch(a, rc)
	} else {
		why = context.Cause(a.ctx)
	}
	o.giveUp(a, rc, why)
	if _, stopped := errors.AsType[*StopError](why); !stopped {
		a.failed = why
		o.status.set(a.at, Claiming, why)
	}
	return why
}

// showFailed shows why a partition does not run. The next claim does not take that back, only a run does. A stopped one stays shown as
// stopped.
func (o *claimer) showFailed(a *assignment, err error) {
	a.failed = err
	if a.stop == nil {
		o.status.set(a.at, Claiming, err)
	}
}

// watch waits until a running claim ends, and returns why. It shows the partition as running: at once or, if the last run was stopped,
// when a batch was committed or the claim has run for long enough to have failed again. A claim that only runs lanes stays shown as stopped.
func (o *claimer) watch(a *assignment, rc *runningClaim) (why error) {
	committed, steadyAfter := rc.inLoop.Committed(), time.Duration(0)
	switch {
	case !a.unread.IsZero():
		steadyAfter = batch.ReadAgain
	case a.lastStop != nil:
		steadyAfter = steady
	}
	steadyTimer := time.NewTimer(steadyAfter)
	defer steadyTimer.Stop()
	if rc.inLoop.LanesOnly {
		steadyTimer.Stop()
		committed = nil
	}
	for {
		select {
		case <-committed:
			a.lastStop, a.unread, a.failed = nil, time.Time{}, nil
			o.status.set(a.at, Running, nil)
			committed = nil // once is enough
		case <-steadyTimer.C:
			a.lastStop, a.unread, a.failed = nil, time.Time{}, nil
			o.status.set(a.at, Running, nil)
		case why = <-rc.inLoop.Ended():
			return o.ended(a, rc, why)
		case <-rc.fenced:
			return batch.ErrFenced
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
}

// ended returns why the loop ended a run: a [StopError] if the partition must not simply be claimed again, otherwise why.
func (o *claimer) ended(a *assignment, rc *runningClaim, why error) error {
	if e, ok := errors.AsType[*batch.RefusedError](why); ok {
		return newStop(rc.claim.Partition, StopRefused, e.Err)
	}
	if e, ok := errors.AsType[*batch.UnreadableError](why); ok {
		a.unread = e.Since
		return unreadable(rc.claim.Partition, e)
	}
	e, stops := asStop(o.cfg.Group, rc.claim.Partition, why)
	if stops || (rc.inLoop.LanesOnly && errors.Is(why, batch.ErrRecheck)) {
		o.mirror.cl.ForceMetadataRefresh() // then the group assigns the new partitions, and their owners show them as stopped
	}
	if stops {
		return e
	}
	return why
}

// reportSeek logs and counts an operator's seek that a claim has carried out, if there was one.
func (o *claimer) reportSeek(c *ledger.Claim, request *ledger.SeekRequest) {
	if c.Seek == nil {
		return
	}
	direction := "back"
	if c.Seek.To > c.Seek.From {
		direction = "forward"
	}
	o.metrics.seeks.WithLabelValues(direction).Inc()
	log := o.log
	if request != nil {
		log = log.With("by", request.By, "reason", request.Reason)
	}
	log.Warn("the position was moved", "topic", c.Partition.Topic, "partition", c.Partition.Number,
		"from", c.Seek.From, "to", c.Seek.To, "skipped", max(0, c.Seek.To-c.Seek.From))
}

// mirrorFirst writes the claim's position to the group before the first batch, where decideStart says that the group's commit must be
// overwritten. A commit that fails is tried again. The only error is why the assignment ended meanwhile.
func (o *claimer) mirrorFirst(a *assignment, rc *runningClaim, needed bool) error {
	if !needed {
		return nil
	}
	var wait retry.Backoff
	for {
		ctx, cancel := context.WithTimeout(a.ctx, claimTimeout)
		err := o.mirror.commit(ctx, rc.at, rc.mirrorPosition())
		cancel()
		if err == nil {
			return nil
		}
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		o.showFailed(a, err)
		o.log.Warn("position not mirrored; trying again", "topic", a.at.Topic, "partition", a.at.Number, "error", err)
		wait.Sleep(a.ctx)
	}
}

// giveUp takes a claim out of the loop and ends it. If the claim still has its fence and the position is known, giveUp drains the lanes,
// mirrors the position and releases the fence. Otherwise it only drops the lanes and the mirror's position.
func (o *claimer) giveUp(a *assignment, rc *runningClaim, why error) {
	if stop, stops := errors.AsType[*StopError](why); stops {
		o.showStopped(a, stop)
	}
	ctx, cancel := o.draining(a, why)
	defer cancel()
	if errors.Is(why, errLost) {
		o.work.Lanes.Drop(rc.claim) // first of all: attempts in flight are not ours any more
	}
	detached := o.detach(ctx, rc)
	select { // what was found meanwhile counts instead of why
	case <-rc.fenced:
		why = batch.ErrFenced
	case found := <-rc.inLoop.Ended():
		why = found
	default:
	}
	if !detached || errors.Is(why, errLost) || errors.Is(why, batch.ErrFenced) || errors.Is(why, batch.ErrUnknown) {
		o.work.Lanes.Drop(rc.claim)
		o.mirror.drop(rc.at)
		return
	}
	err := o.work.Lanes.Close(ctx, rc.claim)
	o.mirrorLast(rc)
	if err != nil {
		// Without a release the next claim is unclean, and waits for what may still be in flight.
		o.log.Warn("lanes not drained, fence not released", "topic", rc.at.Topic, "partition", rc.at.Number, "error", err)
		return
	}
	o.release(rc.claim)
}

// stopDrain is how long the lanes of a partition may take that stops. Nobody waits for it, and a call that is cut short is made again with the next
// look at the stop; but what stops it may be over meanwhile.
const stopDrain = 2 * time.Minute

// draining returns a context that ends when the lanes have had their time. Where the partition stops, and is given up for another reason meanwhile, it
// ends earlier. The function frees it.
func (o *claimer) draining(a *assignment, why error) (context.Context, func()) {
	if _, stops := errors.AsType[*StopError](why); !stops {
		return context.WithTimeoutCause(o.work.Cleaning, o.drainTime(why), ErrTooSlow)
	}
	ctx, cancel := context.WithTimeoutCause(o.work.Cleaning, stopDrain, ErrTooSlow)
	ctx, tooSlow := context.WithCancelCause(ctx)
	forget := context.AfterFunc(a.ctx, func() {
		time.AfterFunc(o.drainTime(context.Cause(a.ctx)), func() { tooSlow(ErrTooSlow) })
	})
	return ctx, func() { forget(); tooSlow(nil); cancel() }
}

// drainTime is how long the lanes of a partition may take that is given up for a reason.
func (o *claimer) drainTime(why error) time.Duration {
	switch {
	case errors.Is(why, errShutdown):
		return o.cfg.DrainTimeout - o.cleanupReserve()
	case errors.Is(why, errLost):
		return cleanupTimeout // there is nothing to drain, and kgo joins the group again only after this
	}
	return o.cfg.RebalanceTimeout / 2
}

// ErrTooSlow is the cause with which work is cancelled when a partition must be given up now.
var ErrTooSlow = errors.New("the time to give the partition up is over")

// detach takes the claim out of the loop. A transaction that is still running when ctx ends is aborted, for all of its partitions;
// their next claims read whether it was committed. detach returns false if the loop still has the claim.
func (o *claimer) detach(ctx context.Context, rc *runningClaim) bool {
	if o.work.Loop.Detach(ctx, rc.inLoop) {
		return true
	}
	o.work.Loop.Abort(ErrTooSlow)
	ctx, cancel := context.WithTimeout(o.work.Cleaning, cleanupTimeout)
	defer cancel()
	return o.work.Loop.Detach(ctx, rc.inLoop)
}

// cleanupReserve returns how much of the drain timeout is kept for mirroring, releasing fences and leaving the group.
func (o *claimer) cleanupReserve() time.Duration { return min(cleanupTimeout, o.cfg.DrainTimeout/4) }

// mirrorLast mirrors the last position. It takes at most half of cleanupReserve: releasing the fence does not need the brokers.
func (o *claimer) mirrorLast(rc *runningClaim) {
	ctx, cancel := context.WithTimeout(o.work.Cleaning, o.cleanupReserve()/2)
	defer cancel()
	if err := o.mirror.commit(ctx, rc.at, rc.mirrorPosition()); err != nil {
		o.log.Warn("last position not mirrored", "topic", rc.at.Topic, "partition", rc.at.Number, "error", err)
	}
}

// releaseUnused releases a claim that has run nothing. An unclean one stays unreleased: calls of the owner before may still be in flight.
func (o *claimer) releaseUnused(c *ledger.Claim) {
	if !c.Unclean {
		o.release(c)
	}
}

// release releases the fence. If that fails, the next claim is unclean, and nothing else happens.
func (o *claimer) release(c *ledger.Claim) {
	ctx, cancel := context.WithTimeout(o.work.Cleaning, cleanupTimeout)
	defer cancel()
	if err := o.cfg.Ledger.Release(ctx, c); err != nil {
		o.log.Warn("fence not released", "topic", c.Partition.Topic, "partition", c.Partition.Number, "error", err)
	}
}

// cleanupTimeout bounds each of the last steps of a claim: a revoke must end well within the rebalance timeout.
const cleanupTimeout = 5 * time.Second
