package ledger

// Replays: a range of the log is decided again for what never ran, or what ran runs again. A step of one is a batch of one partition that
// moves the replay's part in the place of the partition's position. Plans, and what operators ask, are in stream/inbox.
//
// What runs again is a generation of its own, whose number is the replay's: the event gets a second row in events, under a key of that
// generation, and its actions ids of it. All else about them is as of any event: they are behind what was decided before in the lane of
// their entity, and before what comes.
//
// A step is the transaction of apply.go. In it, of the replay's part in place of the partition's position:
//
//	lock    the part, if it is open (lockReplay); if it was cancelled, nothing of the step is written (endedReplay)
//	write   the part's position and its counts (moveReplay)

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// ReplayFilter says which records of its range a replay is about; what is empty is no condition.
type ReplayFilter struct {
	Sources []string          `json:"sources,omitempty"` // "/<team>/<source>"
	Types   []string          `json:"types,omitempty"`   // patterns, as in a subscription
	Entity  schemas.EntityKey `json:"entity,omitempty"`
	Events  []ReplayEvent     `json:"events,omitempty"`
	// Decisions are what the ledger knows of a record before it is replayed: [Undecided], or a decision.
	Decisions []gate.Decision `json:"decisions,omitempty"`
	// Statuses are what the inbox shows of an event when the replay comes to it. What was never decided has none.
	Statuses []string `json:"statuses,omitempty"`
}

// ReplayEvent names an event of the log.
type ReplayEvent struct {
	Source string `json:"source"` // "/<team>/<source>"
	ID     string `json:"id"`
}

// WantsKnown reports whether a filter wants a record of which the ledger knows this, as far as that says; see reader.Wants for the rest.
func (f *ReplayFilter) WantsKnown(k Known) bool {
	return (len(f.Decisions) == 0 || slices.Contains(f.Decisions, k.Decision)) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, k.Status))
}

// Undecided stands, among decisions, for a record that a subscription never decided.
const Undecided gate.Decision = "undecided"

// EndedStatuses are those of events that have run to their end, which is what a reprocess wants that names none: what has not would have its
// actions twice.
func EndedStatuses() []string {
	return []string{"done", "superseded", "discarded", "stale", "skipped", "dropped", "denied"}
}

// ReplayMode is what a replay runs.
type ReplayMode string

const (
	ReplayFill      ReplayMode = "fill"      // what never ran
	ReplayReprocess ReplayMode = "reprocess" // what ran, again
	ReplayShadow    ReplayMode = "shadow"    // nothing: it says what would run, and how that differs from what ran
)

// ReplayEnd is why a part of a replay ended.
type ReplayEnd string

const (
	ReplayComplete      ReplayEnd = ""
	ReplayCancelled     ReplayEnd = "cancelled"
	ReplayErrors        ReplayEnd = "errors"          // more of its actions are dead letters, or of unknown outcome, than it may have
	ReplayRecreated     ReplayEnd = "topic_recreated" // its offsets are those of another topic
	ReplayGrown         ReplayEnd = "topic_grown"     // nothing is read of the topic until it is rekeyed
	ReplayRetention     ReplayEnd = "retention"       // the log does not have its next offset any more
	ReplayConfigChanged ReplayEnd = "config_changed"  // what decides is another than when it was planned
	ReplayLeft          ReplayEnd = "left"            // the topic or the subscription is not configured any more: nobody runs it
	ReplayUnreadable    ReplayEnd = "unreadable"      // the brokers answer, and do not give the record at its next offset
)

// ReplayPart is an open part of a replay: what is left of it in one partition.
type ReplayPart struct {
	Replay         int64
	Mode           ReplayMode
	EvenStale      bool
	Claim          int32 `db:"fence"`
	TopicID        TopicID
	From, To, Next int64 // the range is [From, To), and Next is where it goes on
	Filter         ReplayFilter
	Config         string // the digest of what decides
	Rate           int    // events that run in a second, in all processes together; 0: no bound
	Open           int    // how many parts of the replay are open, in all processes
	MaxErrors      int
	Errors         int // actions of the replay that are dead letters, or of unknown outcome; one more than MaxErrors if there are more
}

// DeadOfReplay selects the actions of replay r that are dead letters or whose outcome nobody knows: those of events in the range of a part
// whose lane_seqs are among those since it began. It looks at each action that is open there, and not at each step of the replay. An unsafe
// attempt has an unknown outcome without a class while its call is under way: that counts once another owner has found it so. The events of a replay
// that was moved here have the number that it had.
const DeadOfReplay = `SELECT FROM replay_parts o JOIN fences h ON h.id = o.fence JOIN {actions} a ON a.fence = o.fence AND a.lane_seq >= o.lane_from AND a.lane_seq < o.lane_to
     AND a.status IN ('dead_letter', 'unknown') AND (a.status = 'dead_letter' OR a.class IS NOT NULL OR a.attempt_epoch < h.epoch)
    JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key AND e.log_offset >= o.from_offset AND e.log_offset < o.to_offset
     AND e.replay IS NOT DISTINCT FROM CASE WHEN r.mode = 'reprocess' THEN coalesce(r.was, r.id) END WHERE o.replay = r.id`

// ReplayParts reads the open parts of replays in the partitions of claims.
func (n *Namespace) ReplayParts(ctx context.Context, claims []*Claim) (list []ReplayPart, err error) {
	err = n.inWindows(ctx, func(win *windowSet) error {
		rows, err := n.ledger.quick.Query(ctx, win.own(`-- replayParts: one look into replay_parts_open per fence, and one count per replay
SELECT p.replay, t.mode, t.even_stale, p.fence, p.topic_id, p.from_offset AS "from", p.to_offset AS "to", p.next_offset AS next, t.filter, t.config, t.rate, t.max_errors, t.open, t.errors
FROM replay_parts p JOIN (SELECT r.*, (SELECT count(*) FROM replay_parts o WHERE o.replay = r.id AND o.ended_at IS NULL)::int AS open,
       (SELECT count(*) FROM (`+DeadOfReplay+` LIMIT r.max_errors + 1) d)::int AS errors
    FROM replays r WHERE r.id IN (SELECT replay FROM replay_parts WHERE fence = ANY ($1) AND ended_at IS NULL) OFFSET 0) t ON t.id = p.replay
WHERE p.fence = ANY ($1) AND p.ended_at IS NULL`), idsOf(claims))
		if err == nil {
			list, err = pgx.CollectRows(rows, pgx.RowToStructByName[ReplayPart])
		}
		for i := range list {
			if p := &list[i]; p.Mode == ReplayReprocess && len(p.Filter.Statuses) == 0 { // an older version has planned it
				p.Filter.Statuses = EndedStatuses()
			}
		}
		return err
	})
	if err != nil {
		return nil, Unavailable("read the replays of "+n.spec.Name, err)
	}
	return list, nil
}

// Known is what the ledger knows of a record.
type Known struct {
	Decision gate.Decision // [Undecided] if there is none
	// Done says that an event of its key and body was decided, so that it would be a duplicate, or that it was rejected and would be
	// rejected again.
	Done bool
	// First is the offset of the event's record that was decided, where that is in this partition; -1: none is.
	First int64
	// Status is what the inbox shows of it: of the newest run again that has not come to its end, or else of its own run. Empty: it was never
	// decided, or not asked for.
	Status string
}

// Runs reports whether a replay of a mode that runs actions decides the record: a fill what was not decided, a reprocess what was. What another
// event has said before (gate.ReasonKey) never ran, and does not run again.
func (k Known) Runs(mode ReplayMode) bool {
	if mode == ReplayReprocess {
		return k.Done && k.Decision != gate.Duplicate
	}
	return !k.Done
}

// Known looks up records of a partition: by their keys, and by their offsets for those that were rejected. Statuses cost
// some probes more for each event.
func (n *Namespace) Known(ctx context.Context, fence int32, records []Record, statuses bool) (list []Known, err error) {
	// A process that has no partition of the subscription plans, too, and no batch of it has noticed that the windows turned.
	if _, err = n.windows.read(ctx, n.ledger.quick); err == nil {
		err = n.inWindows(ctx, func(win *windowSet) error {
			list, err = n.known(ctx, win, fence, records, statuses)
			return err
		})
	}
	if err != nil {
		return nil, Unavailable("look up what was decided by "+n.spec.Name, err)
	}
	return list, nil
}

func (n *Namespace) known(ctx context.Context, win *windowSet, fence int32, records []Record, statuses bool) ([]Known, error) {
	keys, offsets := make([][16]byte, 0, len(records)), make([]int64, len(records))
	for i := range records {
		if offsets[i] = records[i].Offset; !records[i].NoEvent() {
			keys = append(keys, records[i].Key)
		}
	}
	again := map[schemas.EventKey]runAgain{} // by its key
	if statuses && len(records) > 0 {
		replays, err := n.ranAgain(ctx, fence)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			for _, id := range replays {
				again[schemas.EventKey(key).OfGeneration(id)] = runAgain{of: key, replay: id}
			}
		}
		for key := range again {
			keys = append(keys, key)
		}
	}
	event, rejected := `''`, `''`
	var actions string
	if statuses {
		event, rejected = EventStatus, RejectedStatus
		actions = `LEFT JOIN LATERAL (SELECT ` + ActionsStatus + ` AS status FROM ` + ActionStates + `) a ON e.lane_seq IS NOT NULL`
	}
	seen := map[schemas.EventKey]seenAt{}
	rows, err := n.ledger.quick.Query(ctx, win.own(`-- knownEvents: one probe of an unique index per key and window
SELECT e.event_key, e.hash, e.decision, CASE WHEN e.fence = $2 THEN e.log_offset ELSE -1 END, `+event+` FROM {events} e `+actions+` WHERE e.event_key = ANY ($1)`), keys, fence)
	if err != nil {
		return nil, err
	}
	var key, hash [16]byte
	var was wasDecided
	var offset int64
	open := map[schemas.EventKey]runAgain{} // the newest one of each event
	_, err = pgx.ForEachRow(rows, []any{&key, &hash, &was.decision, &offset, &was.status}, func() error {
		switch run, ok := again[key]; {
		case !ok:
			seen[key] = seenAt{was, hash, offset}
		case !Status(was.status).Closed() && run.replay > open[run.of].replay:
			run.status = was.status
			open[run.of] = run
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key, run := range open {
		if own, ok := seen[key]; ok {
			own.status = run.status
			seen[key] = own
		}
	}
	rejectedAt := map[int64]wasDecided{}
	rows, err = n.ledger.quick.Query(ctx, win.own(`-- knownRejected: one probe of an unique index per place and window
SELECT d.log_offset, d.decision, `+rejected+` FROM {rejected_records} d WHERE d.fence = $1 AND d.log_offset = ANY ($2)`), fence, offsets)
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&offset, &was.decision, &was.status}, func() error {
		rejectedAt[offset] = was
		return nil
	})
	list := make([]Known, len(records))
	for i := range records {
		list[i] = knownOf(&records[i], seen, rejectedAt)
	}
	return list, err
}

// ranAgain are the numbers, as keys have them, of the newest replays that ran again what is in a partition. Which offsets they passed says nothing:
// a record of the same event may be anywhere.
func (n *Namespace) ranAgain(ctx context.Context, fence int32) ([]int64, error) {
	rows, err := n.ledger.quick.Query(ctx, `-- ranAgain: the replays of a subscription, and one probe for each reprocess
SELECT coalesce(r.was, r.id) FROM replay_parts p JOIN replays r ON r.id = p.replay
WHERE r.subscription = (SELECT subscription FROM fences WHERE id = $1) AND r.mode = 'reprocess' AND p.fence = $1 AND p.lane_from IS NOT NULL
ORDER BY r.id DESC LIMIT 100`, fence)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// runAgain is a run of an event in a replay.
type runAgain struct {
	of     schemas.EventKey // in the log
	replay int64
	status string
}

// wasDecided is how an event was decided, and its status if that was asked for.
type wasDecided struct {
	decision gate.Decision
	status   string
}

// seenAt is how an event was decided, with which body, and at which offset of the partition; -1: in another one.
type seenAt struct {
	wasDecided
	hash   schemas.BodyHash
	offset int64
}

// knownOf says what is known of a record: seen has the events of its batch that were decided, by key; rejected has how the records of its
// partition were rejected, by offset.
func knownOf(r *Record, seen map[schemas.EventKey]seenAt, rejected map[int64]wasDecided) Known {
	was, isRejected := rejected[r.Offset]
	k := Known{Decision: cmp.Or(was.decision, Undecided), First: -1, Status: was.status}
	before, isSeen := seen[r.Key]
	switch {
	case r.NoEvent(): // it: it can only be rejected again
		k.Done = isRejected
	case isSeen && before.hash == r.Hash:
		return Known{Decision: before.decision, Done: true, First: before.offset, Status: before.status}
	case isSeen: // under its key another body was decided: it is in conflict with that, each time
		k.Done = isRejected
	default: // what was rejected for anything but the filter may be an event by now
		k.Done = isRejected && (r.Filtered || r.Broken != "")
	}
	return k
}

// ReplaySlice is one step of a replay in a partition: what is left to decide of all that the log has in [From, Next).
type ReplaySlice struct {
	Replay int64
	From   int64 // the part's next offset
	Next   int64
	// Records are those to decide, in offset order. Done is how many others were left out because they were decided before.
	Records []Record
	Done    int
	// Reprocess says that the records ran before and are to run again, EvenStale that older snapshots are, too.
	Reprocess, EvenStale bool
	// Known is not nil for a step that runs nothing, and only says what would run: what the ledger knows of each of the records, as many. Stale says
	// that those which were stale are asked for by name, so that they would run again, too.
	Known []Known
	Stale bool
}

// ApplyReplay has the gate decide a step of a replay, and writes it with the part's new position, in one transaction under the fence.
// It returns what Apply returns; if the replay was cancelled, [Applied.ReplayEnded] is set and nothing more of the slice is written. The step that reaches the
// part's end ends the part, too. A step with s.Known, of a shadow replay, only writes what the gate would decide: Outcomes is empty then.
func (n *Namespace) ApplyReplay(ctx context.Context, c *Claim, s ReplaySlice) (Applied, error) {
	op := fmt.Sprintf("replay %d of %s", s.Replay, n.spec.Name)
	if c == nil || c.cache == nil || s.Next <= s.From {
		return Applied{}, schemas.Errorf(schemas.Invalid, op, "no claim of this ledger, or nothing between %d and %d", s.From, s.Next)
	}
	last := s.From - 1
	for i := range s.Records {
		if s.Records[i].Offset <= last || s.Records[i].Offset >= s.Next {
			return Applied{}, schemas.Errorf(schemas.Internal, op, "offset %d is not between %d and %d", s.Records[i].Offset, last, s.Next)
		}
		last = s.Records[i].Offset
	}
	step := &replayStep{id: s.Replay, reprocess: s.Reprocess || s.Known != nil, evenStale: s.EvenStale, stale: s.Stale, done: s.Done}
	if s.Known != nil {
		step.known = make(map[int64]Known, len(s.Known))
		for i := range s.Records {
			step.known[s.Records[i].Offset] = s.Known[i]
		}
	}
	if step.reprocess {
		if s.Replay > math.MaxInt32 {
			return Applied{}, schemas.Errorf(schemas.Internal, op, "its number is too high for a generation, which has 32 bits")
		}
		s.Records = slices.Clone(s.Records)
		for i := range s.Records {
			s.Records[i].Key = s.Records[i].Key.OfGeneration(s.Replay)
		}
	}
	w := &partitionBatch{Slice: Slice{Claim: c, From: s.From, Records: s.Records, Next: Position{Offset: s.Next, LeaderEpoch: -1}}, askAllKeys: true,
		replay: step}
	a, err := batchWriter{n}.applyOne(ctx, w, op)
	if step.isShadow() {
		a.Outcomes = nil // nothing was decided
	}
	return a, err
}

// replayStep is what a step of a replay has beside its records.
type replayStep struct {
	id                   int64
	reprocess, evenStale bool            // as in [ReplaySlice]; reprocess also of a step that runs nothing
	known                map[int64]Known // by offset, as in [ReplaySlice]; nil: the step runs something
	stale                bool            // as in [ReplaySlice]
	done                 int
	stored               int64 // the part's next offset, as the transaction has read it
	found                bool  // the part is open
	ended                bool  // it is not, under a fence that is held
}

// reprocesses reports whether a batch is a step of a replay that runs again what ran; s is nil for one that is no step of any.
func (s *replayStep) reprocesses() bool { return s != nil && s.reprocess }

// generation returns the generation of a batch's actions: own, unless they run again.
func (s *replayStep) generation(own int32) int32 {
	if s.reprocesses() {
		return int32(s.id)
	}
	return own
}

// keyInLog returns the key of an event's record in the log: what runs again has another one in the ledger.
func keyInLog(inLedger schemas.EventKey, reprocessed bool, source, id string) schemas.EventKey {
	if reprocessed {
		return schemas.NewEventKey(source, id)
	}
	return inLedger
}

// rest returns the step of the second part of a slice that is cut in two; what was left out is counted with the first.
func (s *replayStep) rest() *replayStep {
	if s == nil {
		return nil
	}
	return &replayStep{id: s.id, reprocess: s.reprocess, evenStale: s.evenStale, stale: s.stale, known: s.known}
}

// lockReplay queues the lock of the part that a batch moves, if it is a step of a replay: a cancellation waits for the step, or the step
// finds the part ended.
func (t *batchTx) lockReplay(ctx context.Context, w *partitionBatch) error {
	if w.replay == nil {
		return nil
	}
	w.replay.found, w.replay.ended = false, false
	return t.p.Add(ctx, replayLock, func(r *pg.Row) { w.replay.found, w.replay.stored = true, r.Int64() },
		pg.Int64Param(w.replay.id), pg.Int32Param(w.Claim.ID), uuidParam(w.Claim.Partition.TopicID))
}

// endedReplay has nothing written of a step whose part is not open any more.
func (w *partitionBatch) endedReplay() {
	if w.replay != nil && !w.replay.found && !w.fenced {
		w.replay.ended, w.fenced = true, true
	}
}

// moveReplay queues the new position of the part, with what became of the records, and which lane_seqs were given.
func (t *batchTx) moveReplay(ctx context.Context, w *partitionBatch) error {
	if w.replay == nil || w.fenced {
		return nil
	}
	var n [5]int64 // applied, late, stale, waits, rejected
	done := int64(w.replay.done)
	for i := range w.verdicts {
		switch w.would(i) {
		case gate.Duplicate:
			done++
		case gate.Applied:
			n[0]++
		case gate.Late:
			n[1]++
		case gate.Stale:
			n[2]++
		case gate.Buffered, gate.Parked:
			n[3]++
		default:
			n[4]++
		}
	}
	params := [][]byte{pg.Int64Param(w.replay.id), pg.Int32Param(w.Claim.ID), pg.Int64Param(w.Next.Offset), pg.Int64Param(done)}
	for _, count := range n {
		params = append(params, pg.Int64Param(count))
	}
	params = append(params, pg.Int64Param(w.laneAt), pg.Int64Param(w.laneEnd))
	if w.replay.isShadow() {
		if err := t.writeShadow(ctx, w); err != nil {
			return err
		}
	}
	return t.p.Add(ctx, replayMove, nil, params...)
}

func uuidParam(id TopicID) []byte { return id[:] }

var (
	replayLock = pg.NewStatement(`-- replayLock
SELECT next_offset FROM replay_parts WHERE replay = $1 AND fence = $2 AND topic_id = $3 AND ended_at IS NULL FOR UPDATE`)

	replayMove = pg.NewCountedAs(`-- replayMove
UPDATE replay_parts SET next_offset = $3, done = done + $4, applied = applied + $5, late = late + $6, stale = stale + $7, waits = waits + $8,
       rejected = rejected + $9, lane_from = CASE WHEN $10::bigint < $11::bigint THEN coalesce(lane_from, $10) ELSE lane_from END,
       lane_to = CASE WHEN $10::bigint < $11::bigint THEN $11 ELSE lane_to END, moved_at = now(), ended_at = CASE WHEN $3 = to_offset THEN now() END, failure = CASE WHEN $3 = to_offset THEN '' END
WHERE replay = $1 AND fence = $2 AND ended_at IS NULL`, "1")
)

// notReplayed is a condition on a line of a fence: none of what waits on it, with a deadline, has its place in the range of a replay that is
// under way and decides what waits. What that waits for may come later in the range (P5), and a wait that ends takes all of its line along.
func notReplayed(fence, entity, clock string) string {
	under := `(SELECT int8range(y.from_offset, y.to_offset) FROM replay_parts y JOIN replays m ON m.id = y.replay WHERE y.fence = ` + fence + ` AND y.ended_at IS NULL AND m.mode = 'fill')`
	return `CASE WHEN ` + under + ` IS NULL THEN true ELSE NOT EXISTS (SELECT FROM buffer w
    WHERE w.fence = ` + fence + ` AND w.entity = ` + entity + ` AND w.clock = ` + clock + ` AND w.deadline IS NOT NULL AND w.log_offset <@ ` + under + `) END`
}

// EndReplay ends the part of a replay in a claim's partition, under the fence, and says why. A part that has ended stays as it is.
func (n *Namespace) EndReplay(ctx context.Context, c *Claim, replay int64, why ReplayEnd, detail string) error {
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		held, err := c.held(ctx, tx)
		if err != nil || !held {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE replay_parts SET ended_at = now(), failure = $3, detail = nullif($4, '') WHERE replay = $1 AND fence = $2 AND ended_at IS NULL`,
			replay, c.ID, string(why), Clean(detail, MaxErrorText))
		return err
	})
	if err != nil {
		return Unavailable(fmt.Sprintf("end replay %d of %s", replay, n.spec.Name), err)
	}
	return nil
}
