package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// Story is what the ledger knows of how an event came to stand where it stands. It keeps no log of that: an event's row has its last
// decision and a few times, and the rest is read of the rows of others (who released it, what it stands behind).
type Story struct {
	Wait        *Wait             // of an event that waits behind a gap, or is held
	Parked      *time.Time        // when it was parked after it had waited
	Left        *time.Time        // when it left the gap buffer
	VersionLine *VersionLine      // its version line, if it waits or ran behind a gap that was skipped
	Released    *Filler           // the event that let it go on, if it waited behind a gap
	Behind      *Ahead            // what its first open action stands behind
	First       bool              // a conflict: the event that came first under its id is in the ledger
	Commands    []Command         // what operators asked about it, or about its version line while it waited, the oldest first
	Reprocesses []Reprocess       // the replays that run it again
	Backfills   []BackfillRequest // what a provider's API was asked about its version line: the last questions, the oldest first
}

// Wait is an event in the gap buffer.
type Wait struct {
	Since time.Time
	Until *time.Time // null: until an operator or a filler comes
	Held  bool
	Stage gate.Stage
}

// VersionLine is the version line of one clock of an entity.
type VersionLine struct {
	Clock   string
	At      schemas.Version
	Parked  gate.Reason // empty: it is not
	Skipped []gate.Span
	Waiting []int64 // values of kind sequence above At that wait on it, ascending; the lowest 1000, and what is missing above these is not known
}

// Missing returns the values of kind sequence that are missing below a waiting one; the last one's, if upTo is 0.
func (l *VersionLine) Missing(upTo int64) (spans []gate.Span) {
	if l.At.Kind != schemas.Sequence {
		return nil
	}
	next := l.At.Value + 1
	for _, v := range l.Waiting {
		if upTo > 0 && v > upTo {
			break
		}
		if v > next {
			spans = append(spans, gate.Span{From: next, To: v - 1})
		}
		next = max(next, v+1)
	}
	return spans
}

// Filler is an event that let others go on.
type Filler struct {
	Source, EventID string
	DecidedAt       time.Time
}

// Ahead is the open action that an entity's later ones stand behind.
type Ahead struct {
	Action                                 schemas.ActionID
	Source, EventID, Destination, LastText string
	Status                                 ledger.Status
	NextAt                                 *time.Time
}

// Command is what an operator asked of a partition's owner. Other says that it was about another event, or action, of the version line.
type Command struct {
	CommandStatus
	Other bool
}

// BackfillRequest is a question to a provider's API about missing versions, and what came of it.
type BackfillRequest struct {
	From, To int64
	AskedAt  time.Time
	EndedAt  *time.Time
	Failure  string
	Detail   string
	Produced int
}

// Reprocess is a replay that runs an event again.
type Reprocess struct {
	Replay     int32
	At         time.Time // when it decided so
	By, Reason string    // who started it, and why
}

// Story reads an item's story. Kind Unavailable.
func (b *Inbox) Story(ctx context.Context, item *Item) (s Story, err error) {
	for _, read := range []func(context.Context, *Item, *Story) error{b.readCommands, b.readWait, b.readLeft, b.readSkipped, b.readReleased, b.readAhead, b.readFirst, b.readReprocesses} {
		if err := read(ctx, item, &s); err != nil {
			return s, ledger.Unavailable("read the story of "+item.EventID, err)
		}
	}
	return s, nil
}

func (b *Inbox) readCommands(ctx context.Context, item *Item, s *Story) error {
	rows, err := b.slow.Query(ctx, `SELECT id, kind, asked_by, reason, asked_at, ended_at, coalesce(outcome, ''), event_key IS NULL OR event_key <> ALL ($2) FROM commands
		WHERE fence = $1 AND (event_key = ANY ($2) OR kind = 'release' AND entity = $3 AND clock = $4 AND asked_at >= $5) ORDER BY id`,
		item.Fence, item.keys, item.Entity, item.VersionClock, item.DecidedAt)
	if err != nil {
		return err
	}
	var c Command
	_, err = pgx.ForEachRow(rows, []any{&c.ID, &c.Kind, &c.By, &c.Reason, &c.AskedAt, &c.EndedAt, &c.Outcome, &c.Other}, func() error {
		s.Commands = append(s.Commands, c)
		return nil
	})
	return err
}

// readWait reads where an event waits: its row in the gap buffer, its version line, and what was asked about that.
func (b *Inbox) readWait(ctx context.Context, item *Item, s *Story) error {
	if item.Decision != gate.Buffered && item.Decision != gate.Parked {
		return nil
	}
	var w Wait
	var decision string
	err := b.look.QueryRow(ctx, `SELECT buffered_at, deadline, decision, stage FROM buffer WHERE fence = $1 AND log_offset = $2 AND event_key = $3`,
		item.Fence, item.Offset, [16]byte(item.Pointer.Key)).Scan(&w.Since, &w.Until, &decision, &w.Stage)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // released since the item was read
	}
	if err != nil {
		return err
	}
	w.Held = decision == "held"
	s.Wait = &w
	if err := b.readVersionLine(ctx, item, s); err != nil {
		return err
	}
	rows, err := b.slow.Query(ctx, `SELECT * FROM (SELECT from_value, to_value, asked_at, ended_at, coalesce(failure, ''), coalesce(detail, ''), coalesce(produced, 0), id FROM backfills
		WHERE fence = $1 AND entity = $2 AND clock = $3 ORDER BY id DESC LIMIT 5) b ORDER BY id`, item.Fence, item.Entity, item.VersionClock)
	if err != nil {
		return err
	}
	var a BackfillRequest
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&a.From, &a.To, &a.AskedAt, &a.EndedAt, &a.Failure, &a.Detail, &a.Produced, &id}, func() error {
		s.Backfills = append(s.Backfills, a)
		return nil
	})
	return err
}

func (b *Inbox) readVersionLine(ctx context.Context, item *Item, s *Story) error {
	lines, err := b.lines(ctx, item.Fence, schemas.EntityKey(item.Entity))
	for i := range lines {
		if lines[i].Clock == item.VersionClock {
			s.VersionLine = &lines[i]
		}
	}
	return err
}

// readSkipped reads the version line of an event behind a gap that was skipped: it has what was missing, unless that has come since.
func (b *Inbox) readSkipped(ctx context.Context, item *Item, s *Story) error {
	if item.Reason != gate.ReasonGapSkipped && item.Reason != gate.ReasonGapDead {
		return nil
	}
	return b.readVersionLine(ctx, item, s)
}

// readLeft reads when an event that waited was parked, and when it went on.
func (b *Inbox) readLeft(ctx context.Context, item *Item, s *Story) error {
	err := b.look.QueryRow(ctx, item.of.sql(`SELECT parked_at, released_at FROM {events} e WHERE window_id = $1 AND event_key = $2`),
		item.window, [16]byte(item.Pointer.Key)).Scan(&s.Parked, &s.Left)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // a rejected record
	}
	return err
}

// releasedReads is how many events before a released one are looked at for the one that released it: both got their lane_seq in one batch.
const releasedReads = 2000

// readReleased finds the event that let an event go on which had waited behind a gap: the last one before it in its lane that had not.
func (b *Inbox) readReleased(ctx context.Context, item *Item, s *Story) error {
	if item.Reason != gate.ReasonReleased || item.laneSeq == nil {
		return nil
	}
	var f Filler
	err := b.slow.QueryRow(ctx, item.of.sql(`SELECT source, event_id, decided_at FROM (SELECT source, event_id, decided_at, entity, clock, lane_seq FROM {events} e
		WHERE fence = $1 AND lane_seq < $2 AND lane_seq IS NOT NULL AND lane_window IS NULL ORDER BY fence DESC, lane_seq DESC LIMIT $3) e
		WHERE entity = $4 AND clock = $5 AND decided_at >= $6 ORDER BY lane_seq DESC LIMIT 1`),
		item.Fence, *item.laneSeq, releasedReads, item.Entity, item.VersionClock, item.DecidedAt).Scan(&f.Source, &f.EventID, &f.DecidedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // filtered, and so without an action, or gone
	}
	if err == nil {
		s.Released = &f
	}
	return err
}

// readAhead finds what the first open action of an item stands behind: the first action before it in its lane that has been tried, and has
// not ended.
func (b *Inbox) readAhead(ctx context.Context, item *Item, s *Story) error {
	if item.laneSeq == nil {
		return nil
	}
	var a Ahead
	var name, source string
	var class *string
	var generation int32
	err := b.slow.QueryRow(ctx, item.of.sql(`SELECT x.name, x.destination, e.source, e.event_id, coalesce(e.replay, s.generation), a.status, a.next_at, a.class, coalesce(a.error, '')
		FROM {actions} a JOIN effects x ON x.id = a.effect JOIN fences f ON f.id = a.fence JOIN subscriptions s ON s.id = f.subscription
		CROSS JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e
		WHERE a.fence = $1 AND a.open AND a.lane_seq < $2 AND e.entity = $3 AND `+ledger.ParksLane+`
		ORDER BY a.lane_seq LIMIT 1`), item.Fence, item.firstOpen(), item.Entity).
		Scan(&name, &a.Destination, &source, &a.EventID, &generation, &a.Status, &a.NextAt, &class, &a.LastText)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	a.Source = source
	a.Action = schemas.NewActionID(item.Team+"."+item.Subscription, generation, source, a.EventID, name)
	s.Behind = &a
	return nil
}

// readReprocesses reads who started the replays that run an item again.
func (b *Inbox) readReprocesses(ctx context.Context, item *Item, s *Story) error {
	for _, a := range item.reprocesses {
		err := b.look.QueryRow(ctx, `SELECT coalesce(r.started_by, ''), coalesce(r.reason, '') FROM replays r JOIN subscriptions s ON s.id = r.subscription
			WHERE s.name = $1 AND coalesce(r.was, r.id) = $2`, item.Team+"."+item.Subscription, a.Replay).Scan(&a.By, &a.Reason)
		if err != nil {
			return err
		}
		s.Reprocesses = append(s.Reprocesses, a)
	}
	return nil
}

func (b *Inbox) readFirst(ctx context.Context, item *Item, s *Story) error {
	if item.Decision != gate.Conflict {
		return nil
	}
	return b.look.QueryRow(ctx, item.of.sql(`SELECT EXISTS (SELECT FROM {events} e WHERE event_key = $1 AND source = $2 AND event_id = $3)`),
		[16]byte(item.Pointer.Key), item.CESource, item.EventID).Scan(&s.First)
}

// lines returns an entity's version lines in a partition, by their clocks.
func (b *Inbox) lines(ctx context.Context, fence int32, entity schemas.EntityKey) ([]VersionLine, error) {
	of, err := b.linesOf(ctx, fence, []string{string(entity)})
	return of[string(entity)], err
}

// linesOf reads the version lines of entities in a partition, by entity, as far as they are written: a line that simply moves on is written
// later, and one on which events wait never. What the last events have moved is added from their rows.
func (b *Inbox) linesOf(ctx context.Context, fence int32, entities []string) (of map[string][]VersionLine, err error) {
	err = b.ledger.InWindowsOf(ctx, b.slow, fence, func(windows []int32) error {
		return inOrder(ctx, b.slow, func(tx pgx.Tx) (err error) {
			of, err = readLines(ctx, tx, windows, fence, entities)
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // the subscription is gone
	}
	return of, err
}

func readLines(ctx context.Context, tx pgx.Tx, windows []int32, fence int32, entities []string) (map[string][]VersionLine, error) {
	rows, err := tx.Query(ctx, ledger.OfWindows(windows, `-- lines of entities; what waits on one is a range of buffer_by_line
WITH e AS (SELECT DISTINCT ON (entity, clock) entity, clock, epoch, value, sub, lane_seq FROM {events} e
    WHERE fence = $1 AND lane_seq >= (SELECT dirty_lines_from FROM progress WHERE fence = $1) AND lane_seq IS NOT NULL AND lane_window IS NULL
      AND entity = ANY ($2) AND decision = 'applied' AND reason = 'next' AND version_text = '' ORDER BY entity, clock, lane_seq DESC)
SELECT l.entity, l.clock, l.kind, coalesce(e.epoch, l.epoch), coalesce(e.value, l.value), l.version_text, coalesce(e.sub, l.sub), coalesce(l.parked, ''), l.skipped,
       ARRAY(SELECT w.value FROM buffer w WHERE w.fence = $1 AND w.entity = l.entity AND w.clock = l.clock AND w.value > coalesce(e.value, l.value)
             AND w.decision <> 'held' AND w.kind = 'sequence' ORDER BY w.value LIMIT $3)
FROM version_lines l LEFT JOIN e ON e.entity = l.entity AND e.clock = l.clock AND e.lane_seq >= l.as_of WHERE l.fence = $1 AND l.entity = ANY ($2) ORDER BY l.entity, l.clock`), fence, entities, waitingReads)
	if err != nil {
		return nil, err
	}
	of := map[string][]VersionLine{}
	for rows.Next() {
		var (
			entity  string
			l       VersionLine
			skipped []int64
		)
		if err := rows.Scan(&entity, &l.Clock, &l.At.Kind, &l.At.Epoch, &l.At.Value, &l.At.Text, &l.At.Sub, &l.Parked, &skipped, &l.Waiting); err != nil {
			rows.Close()
			return nil, err
		}
		for i := 0; i+1 < len(skipped); i += 2 {
			l.Skipped = append(l.Skipped, gate.Span{From: skipped[i], To: skipped[i+1]})
		}
		l.At.Clock = l.Clock
		of[entity] = append(of[entity], l)
	}
	return of, rows.Err()
}
