package batch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// ReplayLedger is what replays need of a [ledger.Namespace].
type ReplayLedger interface {
	ReplayParts(ctx context.Context, claims []*ledger.Claim) ([]ledger.ReplayPart, error)
	Known(ctx context.Context, fence int32, records []ledger.Record, statuses bool) ([]ledger.Known, error)
	ApplyReplay(ctx context.Context, c *ledger.Claim, s ledger.ReplaySlice) (ledger.Applied, error)
	EndReplay(ctx context.Context, c *ledger.Claim, replay int64, why ledger.ReplayEnd, detail string) error
}

var _ ReplayLedger = (*ledger.Namespace)(nil)

// Replays is what a loop needs to run the replays of its partitions.
type Replays struct {
	Ledger ReplayLedger
	// Config is a digest of what decides about an event and what it does. A replay that was planned under another one ends.
	Config string
	// Reader makes the reader of what is replayed, when there is first something to replay: a client reads a partition at one place only.
	Reader func() (Reader, error)
}

const (
	// How often the ledger is asked for replays, besides when it notifies: for those that go on, and where there are none.
	replaySweep     = 2 * time.Second
	replayRestSweep = 30 * time.Second
	// A stretch without anything to decide is written when it has so many records, or after this time.
	maxStretch     = 20_000
	maxStretchTime = time.Second
	roomSweep      = 100 * time.Millisecond // how often full lanes are looked at again
	maxHeld        = 64 << 20               // bytes of what waits for room in lanes, while other partitions are read on
)

// replayer runs the replays of the claimed partitions beside the batches: it reads, and leaves out what was decided before. What is left is
// decided on the loop's goroutine, between two batches. Its fields are its own goroutine's.
type replayer struct {
	l      *Loop
	cfg    *Replays
	reader Reader // nil before the first replay
	parts  []*replay
	steps  []replayStep // read, and not applied yet
	mayAt  time.Time    // when the next step may be applied, by the rate
}

// replay is one partition's part of a replay.
type replay struct {
	ledger.ReplayPart
	of      *Partition
	wants   func(*ledger.Record) bool
	reading *reader.Reading        // nil while its steps wait for room in the lanes
	bytes   int                    // of what was read last
	done    int                    // records since Next that were decided before
	seen    map[seenEvent]struct{} // of a shadow: events that it has seen, of which the ledger has no place in the range
	read    int64                  // up to where it was read: steps, and [Next, read) has nothing to decide
	moved   time.Time              // when Next was last written
	unread  time.Time              // since when the brokers answer and it cannot be read; zero: it can
	failed  time.Time              // when that was last so
}

// seenEvent is the same for an event and its redeliveries.
type seenEvent struct {
	key  schemas.EventKey
	hash schemas.BodyHash
}

// maxSeen is how many events a shadow remembers: some 5 MB.
const maxSeen = 100_000

// redelivered reports whether this shadow has already seen a record's event at an earlier offset of its range: a replay that runs actions skips
// such a record as a duplicate, so the shadow has to skip it as well. Where the ledger says that the event was first decided in the range, that
// settles it. Other events are remembered here, in memory: at most maxSeen, after which all are forgotten, as when the partition gets another
// owner. A broken record names no event.
func (r *replay) redelivered(rec *ledger.Record, known ledger.Known) bool {
	switch {
	case rec.NoEvent():
		return false
	case known.Done && known.First >= r.From:
		return known.First < rec.Offset
	}
	event := seenEvent{rec.Key, rec.Hash}
	if _, ok := r.seen[event]; ok {
		return true
	}
	if r.seen == nil || len(r.seen) >= maxSeen {
		r.seen = map[seenEvent]struct{}{}
	}
	r.seen[event] = struct{}{}
	return false
}

// replayStep is a step to apply, with the events of its records.
type replayStep struct {
	of *replay
	ledger.ReplaySlice
	events []*schemas.Event
}

// runReplays runs replays until the loop ends.
func (l *Loop) runReplays() {
	r := &replayer{l: l, cfg: l.cfg.Replays}
	again := time.NewTimer(0)
	defer again.Stop()
	defer l.cfg.Ledger.Listen(l.forReplays.notify)()
	may := time.NewTimer(0)
	defer may.Stop()
	for l.ctx.Err() == nil {
		select {
		case <-l.forReplays:
			again.Reset(r.sweep())
		case <-again.C:
			again.Reset(r.sweep())
		case u := <-r.out():
			r.unit(u)
		case <-may.C:
		case <-l.ctx.Done():
		}
		for i := r.ready(); i >= 0 && !time.Now().Before(r.mayAt); i = r.ready() {
			r.apply(i)
		}
		r.holdFull()
		if len(r.steps) > 0 {
			may.Reset(max(time.Until(r.mayAt), r.lookAgain()))
		}
	}
}

// out returns the channel of what is read; nil while steps wait for their turn, and the reader with them. Those of parts that are held do not count.
func (r *replayer) out() <-chan reader.Unit {
	held := 0
	for _, rep := range r.parts {
		if rep.reading == nil {
			held += rep.bytes
		}
	}
	if r.reader == nil || held > maxHeld || slices.ContainsFunc(r.steps, func(s replayStep) bool { return s.of.reading != nil }) {
		return nil
	}
	return r.reader.Out()
}

// holdFull has no part read whose next step waits for room in its lanes, so that the others go on. With its last step it is read on.
func (r *replayer) holdFull() {
	if len(r.parts) < 2 || r.l.paused.Load() {
		return
	}
	for i := range r.steps {
		if rep := r.steps[i].of; rep.reading != nil && r.mustWait(&r.steps[i]) {
			r.reader.Drop(r.l.ctx, rep.reading)
			rep.reading = nil
		}
	}
}

// mustWait reports whether a step that may run something has to wait for room in its partition's lanes.
func (r *replayer) mustWait(s *replayStep) bool {
	return len(s.Records) > 0 && s.Known == nil && r.l.cfg.Lanes.Full(s.of.of.Claim)
}

// ready returns the first step that may be applied as soon as the rate allows it, -1 for none. A step that may run something waits while its
// partition's lanes are full, and those behind it: live events would queue behind what a slow destination has not got done, and its errors
// would come too late to end the replay.
func (r *replayer) ready() int {
	if r.l.ctx.Err() != nil || r.l.paused.Load() {
		return -1
	}
	var waits []*replay
	for i, s := range r.steps {
		if !slices.Contains(waits, s.of) && !r.mustWait(&s) {
			return i
		}
		waits = append(waits, s.of)
	}
	return -1
}

// lookAgain is how long it is until steps that are not ready are looked at again.
func (r *replayer) lookAgain() time.Duration {
	switch {
	case r.l.paused.Load():
		return replaySweep
	case r.ready() < 0:
		return roomSweep
	}
	return 0
}

// sweep brings the replays of this process to what the ledger says: it drops what is not open any more or was claimed by others, and begins or
// ends the other parts. It returns how soon to sweep again.
func (r *replayer) sweep() time.Duration {
	byFence := map[int32]*Partition{}
	r.l.do(r.l.ctx, func() {
		for _, p := range r.l.claims {
			byFence[p.Claim.ID] = p
		}
	})
	open, err := r.open(byFence)
	if err != nil {
		r.l.log.Warn("replays not read; trying again", "error", err)
		return replaySweep
	}
	for _, rep := range slices.Clone(r.parts) {
		i := slices.IndexFunc(open, func(p ledger.ReplayPart) bool { return p.Replay == rep.Replay && p.Claim == rep.Claim })
		if i < 0 || byFence[rep.Claim] != rep.of {
			r.drop(rep)
			continue
		}
		rep.Rate, rep.Open = open[i].Rate, open[i].Open
	}
	for _, part := range open {
		if of := byFence[part.Claim]; of != nil {
			r.ensurePart(part, of)
		}
	}
	if len(open) > 0 {
		return replaySweep
	}
	return replayRestSweep
}

// open asks the ledger for the open parts in these partitions.
func (r *replayer) open(byFence map[int32]*Partition) ([]ledger.ReplayPart, error) {
	if len(byFence) == 0 {
		return nil, nil
	}
	claims := make([]*ledger.Claim, 0, len(byFence))
	for _, p := range byFence {
		claims = append(claims, p.Claim)
	}
	ctx, cancel := context.WithTimeout(r.l.ctx, observeTimeout)
	defer cancel()
	return r.cfg.Ledger.ReplayParts(ctx, claims)
}

// ensurePart begins a part that is not under way yet, or ends it if it cannot go on.
func (r *replayer) ensurePart(part ledger.ReplayPart, of *Partition) {
	if why, detail := r.mustEnd(part, of); why != ledger.ReplayComplete {
		r.end(part, of, why, detail)
		return
	}
	if slices.ContainsFunc(r.parts, func(rep *replay) bool { return rep.Claim == part.Claim }) {
		return
	}
	if r.reader == nil {
		rd, err := r.cfg.Reader()
		if err != nil {
			r.l.log.Warn("replay not read; trying again", "replay", part.Replay, "error", err)
			return
		}
		r.reader = rd
	}
	rep := &replay{ReplayPart: part, of: of, wants: reader.Wants(part.Filter), read: part.Next, moved: time.Now()}
	r.read(rep)
	r.parts = append(r.parts, rep)
	r.log(rep).Info("replaying", "from", part.Next, "to", part.To)
}

// read has a part read from where it stands.
func (r *replayer) read(rep *replay) {
	rep.reading = r.reader.Add(r.l.ctx, rep.of.Claim.Partition, rep.of.Partitions, ledger.Position{Offset: rep.read, LeaderEpoch: -1})
}

// mustEnd returns why a part cannot go on in a partition, as an operator reads it.
func (r *replayer) mustEnd(part ledger.ReplayPart, of *Partition) (why ledger.ReplayEnd, detail string) {
	switch {
	case part.TopicID != of.Claim.Partition.TopicID:
		return ledger.ReplayRecreated, "the topic was created again: the plan's offsets are those of the topic before; plan it again"
	case of.LanesOnly:
		return ledger.ReplayGrown, "the topic has more partitions than it had, and nothing of it is read until `forebay topics rekey`; plan it again after that"
	case part.Config != r.cfg.Config:
		return ledger.ReplayConfigChanged, "the subscription's types, order, policies or actions are not those of the plan; " + planFrom(part, of)
	case part.Errors > part.MaxErrors:
		return ledger.ReplayErrors, "more of its actions are dead letters, or of unknown outcome, than --max-errors allows; `forebay dlq list` shows them; " + planFrom(part, of)
	}
	return ledger.ReplayComplete, ""
}

// planFrom says how what a part has left is planned without what it has run.
func planFrom(part ledger.ReplayPart, of *Partition) string {
	return fmt.Sprintf("plan what is left (--from-offset %s/%d=%d)", of.at().Topic, of.at().Number, part.Next)
}

// end ends a part in the ledger, and its reading. If the ledger does not answer, the next sweep tries again.
func (r *replayer) end(part ledger.ReplayPart, of *Partition, why ledger.ReplayEnd, detail string) {
	if i := slices.IndexFunc(r.parts, func(rep *replay) bool { return rep.Claim == part.Claim }); i >= 0 {
		r.drop(r.parts[i])
	}
	ctx, cancel := context.WithTimeout(r.l.ctx, observeTimeout)
	defer cancel()
	err := r.cfg.Ledger.EndReplay(ctx, of.Claim, part.Replay, why, detail)
	if err == nil {
		r.l.metrics.replays.WithLabelValues(string(why)).Inc()
	}
	r.askDeadlines(of)
	r.l.log.Warn("replay ends", "replay", part.Replay, "topic", of.at().Topic, "partition", of.at().Number, "why", string(why), "detail", detail, "error", err)
}

// drop ends the reading of a part, and forgets what was read of it and not applied.
func (r *replayer) drop(rep *replay) {
	if rep.reading != nil {
		r.reader.Drop(r.l.ctx, rep.reading)
	}
	r.parts = slices.DeleteFunc(r.parts, func(x *replay) bool { return x == rep })
	r.steps = slices.DeleteFunc(r.steps, func(s replayStep) bool { return s.of == rep })
	r.askDeadlines(rep.of)
}

// askDeadlines has the ledger asked for the deadlines of a partition again: while a replay was under way, it left out those of what the
// replay has brought.
func (r *replayer) askDeadlines(of *Partition) {
	r.l.do(r.l.ctx, func() { of.gap.ask = true })
}

func (r *replayer) log(rep *replay) *slog.Logger {
	return r.l.log.With("replay", rep.Replay, "topic", rep.of.at().Topic, "partition", rep.of.at().Number)
}

// unit makes steps of what was read.
func (r *replayer) unit(u reader.Unit) {
	for i := range u.Parts {
		read := &u.Parts[i]
		k := slices.IndexFunc(r.parts, func(rep *replay) bool { return rep.reading == read.Of })
		switch {
		case k < 0: // dropped meanwhile
		case read.Err != nil:
			r.readFailed(r.parts[k], read)
		default:
			r.addRead(r.parts[k], read)
		}
	}
}

// readFailed ends a part whose next offset the log does not have any more, or that the brokers do not give although they answer, for as long as
// a partition of live events may. Until then the reader tries again by itself.
func (r *replayer) readFailed(rep *replay, read *reader.Part) {
	ctx, cancel := context.WithTimeout(r.l.ctx, observeTimeout)
	defer cancel()
	start, err := r.l.cfg.Log.Start(ctx, rep.of.at())
	switch {
	case err != nil: // nobody can say whether it can be read
		rep.unread, rep.failed = time.Time{}, time.Time{}
		r.log(rep).Warn("replay not read; trying again", "offset", read.From, "error", read.Err)
		return
	case start > rep.read:
		r.end(rep.ReplayPart, rep.of, ledger.ReplayRetention, "the topic's retention has deleted what was to be replayed next; plan what is left")
		return
	}
	rep.unread = failingSince(rep.unread, rep.failed)
	rep.failed = time.Now()
	if time.Since(rep.unread) >= r.l.cfg.UnreadAfter {
		r.end(rep.ReplayPart, rep.of, ledger.ReplayUnreadable, fmt.Sprintf("offset %d cannot be read since %s: %v; bring the log back, or let a replica that is whole lead, and plan what is left; "+
			"to leave out what cannot be read, plan from behind it on (--from-offset %s/%d=OFFSET)", read.From, rep.unread.UTC().Format(time.RFC3339), read.Err,
			rep.of.at().Topic, rep.of.at().Number))
		return
	}
	r.log(rep).Warn("replay not read; trying again", "offset", read.From, "error", read.Err)
}

// addRead adds the steps of what was read of a part.
func (r *replayer) addRead(rep *replay, read *reader.Part) {
	if rep.Next >= rep.To {
		return
	}
	if read.From != rep.read { // nothing of it would be written; read again, from the ledger's offset
		r.log(rep).Error("what was read for a replay does not begin where the replay stands: this is a fault of forebay, please report it", "stands", rep.read, "read", read.From)
		r.drop(rep)
		return
	}
	n := len(read.Records)
	for n > 0 && read.Records[n-1].Offset >= rep.To {
		n--
	}
	var wanted []ledger.Record
	var events []*schemas.Event
	for i := range n {
		if rep.wants(&read.Records[i]) {
			wanted, events = append(wanted, read.Records[i]), append(events, read.Events[i])
		}
	}
	known, err := r.known(rep, wanted)
	if err != nil {
		r.log(rep).Warn("what was decided before is not read; trying again", "error", err)
		r.drop(rep) // the next sweep begins it again
		return
	}
	c := stepCutter{of: rep, most: r.most(rep), next: rep.Next, done: rep.done}
	for i := range wanted {
		if !rep.Filter.WantsKnown(known[i]) {
			continue
		}
		switch {
		case rep.Mode == ledger.ReplayShadow && rep.redelivered(&wanted[i], known[i]):
			c.done++
		case rep.Mode == ledger.ReplayShadow:
			c.add(wanted[i], events[i])
			c.step.Known = append(c.step.Known, known[i])
		case known[i].Runs(rep.Mode):
			c.add(wanted[i], events[i])
		case rep.Mode != ledger.ReplayReprocess:
			c.done++
		}
	}
	rep.read, rep.unread = min(read.Next.Offset, rep.To), time.Time{}
	if len(c.step.Records) == 0 && rep.read < rep.To && c.done < maxStretch && time.Since(rep.moved) < maxStretchTime {
		rep.done = c.done
		return
	}
	c.cut(rep.read)
	rep.Next, rep.done, rep.moved, rep.bytes = rep.read, 0, time.Now(), read.Bytes
	r.steps = append(r.steps, c.steps...)
}

func (r *replayer) known(rep *replay, records []ledger.Record) ([]ledger.Known, error) {
	if len(records) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.l.ctx, observeTimeout)
	defer cancel()
	return r.cfg.Ledger.Known(ctx, rep.Claim, records, len(rep.Filter.Statuses) > 0)
}

// stepCutter cuts what is to be decided into steps.
type stepCutter struct {
	of    *replay
	most  int   // records of a step
	next  int64 // where the current step begins
	done  int   // records before the current step's next record that were decided before
	step  replayStep
	steps []replayStep
}

// add adds a record to the current step, or to the next one if that is full.
func (c *stepCutter) add(rec ledger.Record, event *schemas.Event) {
	if len(c.step.Records) >= c.most {
		c.cut(rec.Offset)
	}
	c.step.Records, c.step.events = append(c.step.Records, rec), append(c.step.events, event)
}

// cut ends the current step before an offset.
func (c *stepCutter) cut(at int64) {
	c.step.of, c.step.Replay, c.step.From, c.step.Next, c.step.Done = c.of, c.of.Replay, c.next, at, c.done
	if c.of.Mode == ledger.ReplayShadow && c.step.Known == nil {
		c.step.Known = []ledger.Known{} // it runs nothing, although it has nothing to look at
	}
	c.step.Reprocess, c.step.EvenStale, c.step.Stale = c.of.Mode == ledger.ReplayReprocess, c.of.EvenStale, slices.Contains(c.of.Filter.Decisions, gate.Stale)
	c.steps = append(c.steps, c.step)
	c.step, c.next, c.done = replayStep{}, at, 0
}

// share is how many events of a replay may run here in a second: as much of its rate as it has of its open parts here. 0 is no bound.
func (r *replayer) share(rep *replay) float64 {
	here := 0
	for _, x := range r.parts {
		if x.Replay == rep.Replay {
			here++
		}
	}
	return float64(rep.Rate) * float64(here) / float64(max(rep.Open, here, 1))
}

// most is how many records a step has: what may run in a second, so that a replay comes evenly.
func (r *replayer) most(rep *replay) int {
	if rep.Rate == 0 || rep.Mode == ledger.ReplayShadow {
		return r.l.cfg.BatchRecords
	}
	return min(max(1, int(r.share(rep))), r.l.cfg.BatchRecords)
}

// apply has a step decided, on the loop's goroutine.
func (r *replayer) apply(i int) {
	s := r.steps[i]
	goesOn, ran, paused := false, 0, false
	r.l.do(r.l.ctx, func() {
		if paused = r.l.paused.Load(); !paused {
			goesOn, ran = r.l.applyReplay(r.cfg.Ledger, s)
		}
	})
	if paused {
		return
	}
	r.steps = slices.Delete(r.steps, i, i+1)
	if share := r.share(s.of); share > 0 && ran > 0 {
		r.mayAt = time.Now().Add(time.Duration(float64(ran) / share * float64(time.Second)))
	}
	switch {
	case !goesOn:
		r.drop(s.of)
	case s.Next >= s.of.To:
		r.l.metrics.replays.WithLabelValues(replayComplete).Inc()
		r.log(s.of).Info("replayed")
		r.drop(s.of)
	case s.of.reading == nil && s.Next == s.of.read: // it was held, and this was its last step
		r.read(s.of)
	}
}

// applyReplay has a step decided and committed, and hands its actions to the lanes. goesOn is false if the part does not go on with this
// claim; ran is how many events run by it.
func (l *Loop) applyReplay(from ReplayLedger, s replayStep) (goesOn bool, ran int) {
	p := s.of.of
	if p.gone {
		return false, 0
	}
	ctx, done := l.running.start(l.ctx)
	a, err := from.ApplyReplay(ctx, p.Claim, s.ReplaySlice)
	done()
	l.afterTransaction(&part{of: p, Part: reader.Part{Records: s.Records, Events: s.events}}, "step of a replay", a, err)
	for i := range a.Outcomes {
		if a.Outcomes[i].Decision.Runs() {
			ran++
		}
	}
	return !p.gone && !a.ReplayEnded, ran
}
