package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// ReportState is what became of a report.
type ReportState string

const (
	Recorded ReportState = "recorded" // the owner applies it
	Repeated ReportState = "repeated" // the same was said before
	Differs  ReportState = "differs"  // something else was said before, which stands
	Late     ReportState = "late"     // it is kept and changes nothing, see ActionState.Past
)

func validate(r *ledger.Report) error {
	switch {
	case r.LaneSeq <= 0 || r.Attempt <= 0 || r.Attempt > math.MaxInt32:
		return fmt.Errorf("no attempt %d of action %d", r.Attempt, r.LaneSeq)
	case !slices.Contains([]ledger.Status{ledger.Done, ledger.Failed, ledger.Dead}, r.Status):
		return fmt.Errorf("status %q is no result", r.Status)
	case r.Wait < 0 || r.Code < 0 || r.Code > 999:
		return fmt.Errorf("wait %s, code %d", r.Wait, r.Code)
	}
	return nil
}

// digestOf returns a digest of a report, to tell a repeated one from a different one.
func digestOf(r *ledger.Report) (d [16]byte) {
	h := sha256.New()
	for _, part := range []string{string(r.Status), r.Error, string(r.Response)} {
		_ = binary.Write(h, binary.BigEndian, int64(len(part)))
		h.Write([]byte(part))
	}
	_ = binary.Write(h, binary.BigEndian, []int64{int64(r.Wait), int64(r.Code)})
	copy(d[:], h.Sum(nil))
	return d
}

// Report stores a destination's report, which the partition's owner applies. Only the first report of an attempt counts. Any process may
// call it.
func (b *Inbox) Report(ctx context.Context, r ledger.Report) (ReportState, error) {
	op := fmt.Sprintf("record the result of attempt %d", r.Attempt)
	if err := validate(&r); err != nil {
		return "", &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	r.Error, r.Response = ledger.Clean(r.Error, ledger.MaxErrorText), r.Response[:min(len(r.Response), ledger.MaxResponse)]
	state, err := b.report(ctx, r)
	if err != nil {
		return "", ledger.Unavailable(op, err)
	}
	return state, nil
}

// report stores a report unless there is one for its attempt, and returns what became of it.
func (b *Inbox) report(ctx context.Context, r ledger.Report) (ReportState, error) {
	digest := digestOf(&r)
	var (
		known   [16]byte
		first   bool
		outcome string
	)
	err := b.quick.QueryRow(ctx, `INSERT INTO results AS r (fence, lane_seq, attempt, status, wait_us, code, error, response, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (fence, lane_seq, attempt) DO UPDATE SET digest = r.digest RETURNING r.digest, xmax = 0, coalesce(outcome, '')`,
		r.Fence, r.LaneSeq, r.Attempt, r.Status, r.Wait.Microseconds(), r.Code, r.Error, r.Response, digest).Scan(&known, &first, &outcome)
	switch {
	case err != nil:
		return "", err
	case known != digest:
		return Differs, nil
	case outcome == "late":
		return Late, nil
	case !first:
		return Repeated, nil
	}
	if state, err := b.ActionState(ctx, r.AttemptRef); err == nil && r.Late(state.Status, state.Attempts) && b.late(ctx, r.AttemptRef) {
		return Late, nil
	}
	return Recorded, nil // it is kept; the owner finds out what it still changes
}

// late marks a report as late, and returns true. It returns false if the owner has applied the report meanwhile.
func (b *Inbox) late(ctx context.Context, r ledger.AttemptRef) bool {
	ended, err := b.quick.Exec(ctx, ledger.LateWrite, r.Fence, r.LaneSeq, r.Attempt)
	return err == nil && ended.RowsAffected() == 1
}

// Beat notes a heartbeat of an attempt that is processing. The owner is not notified: it reads heartbeats before it gives up waiting.
// alive is false if the attempt is not processing, or not yet.
func (b *Inbox) Beat(ctx context.Context, r ledger.AttemptRef) (alive bool, err error) {
	err = b.ledger.InWindowsOf(ctx, r.Fence, func(windows []int32) error {
		for _, w := range windows {
			tag, err := b.quick.Exec(ctx, ledger.OfWindow(w, beatWrite), r.Fence, r.LaneSeq, r.Attempt)
			if alive = err == nil && tag.RowsAffected() > 0; err != nil || alive {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, ledger.Unavailable("note a heartbeat", err)
	}
	return alive, nil
}

const beatWrite = `UPDATE actions_w{w} SET beat_at = now() WHERE fence = $1 AND lane_seq = $2 AND attempts = $3 AND status = 'processing'`

// ActionState is the state of one action.
type ActionState struct {
	ID           schemas.ActionID
	Subscription string // "<team>.<subscription>"
	Name         string
	Destination  string
	Source       string
	EventID      string
	Status       ledger.Status
	Attempts     int // recorded ones; one under way, and not yet answered, is not among them
	// Of a Processing action: when the wait for the result ends, its last heartbeat, and the longest time without one.
	ResultBy *time.Time
	BeatAt   *time.Time
	Silence  time.Duration // 0: none is asked for
	// The report on the attempt that was asked for, empty if there is none, and what became of it, empty if it is not applied yet.
	Reported ledger.Status
	Outcome  string // applied or late
}

// Past reports whether a report of this attempt changes nothing any more: the action has ended, or a later attempt is recorded.
func (s *ActionState) Past(attempt int) bool {
	return s.Status.Past(s.Attempts, attempt)
}

// ActionState reads the state of an attempt's action. Kind NotFound if the ledger no longer keeps the action.
func (b *Inbox) ActionState(ctx context.Context, r ledger.AttemptRef) (ActionState, error) {
	const op = "read an action"
	s, err := b.actionState(ctx, r)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, schemas.Errorf(schemas.NotFound, op, "the ledger does not keep it any more")
	case err != nil:
		return s, ledger.Unavailable(op, err)
	}
	return s, nil
}

// actionRead finds the event of an action by the action's row or, if it has none, among the events of its fence.
const actionRead = `-- actionRead: index scans of each window of the subscription by (fence, lane_seq), then one event and its action
WITH at AS (
    (SELECT event_window AS w, event_key AS key FROM {actions} a WHERE fence = $1 AND lane_seq = $2)
    UNION ALL
    (SELECT window_id, event_key FROM {events} e WHERE fence = $1 AND lane_seq <= $2 AND lane_seq IS NOT NULL AND lane_window IS NULL
     ORDER BY fence DESC, lane_seq DESC LIMIT 1)
    LIMIT 1
)
SELECT s.name, s.generation, f.name, f.destination, e.source, e.event_id,
       coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' WHEN c.superseded THEN 'superseded' ELSE 'done' END),
       coalesce(x.attempts, (NOT c.superseded)::int, 0),
       x.result_by, x.beat_at, coalesce(x.silence_us, 0), coalesce(r.status, ''), coalesce(r.outcome, '')
FROM at JOIN {events} e ON e.window_id = at.w AND e.event_key = at.key
JOIN fences w ON w.id = e.fence JOIN subscriptions s ON s.id = w.subscription
LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + ledger.ActionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
LEFT JOIN results r ON r.fence = $1 AND r.lane_seq = $2 AND r.attempt = $3
WHERE e.lane_seq + n.i = $2`

// actionState reads the state of an attempt's action.
func (b *Inbox) actionState(ctx context.Context, r ledger.AttemptRef) (s ActionState, err error) {
	var (
		generation int32
		silence    int64
	)
	err = b.ledger.InWindowsOf(ctx, r.Fence, func(windows []int32) error {
		return b.quick.QueryRow(ctx, ledger.OfWindows(windows, actionRead), r.Fence, r.LaneSeq, r.Attempt).Scan(&s.Subscription, &generation, &s.Name,
			&s.Destination, &s.Source, &s.EventID, &s.Status, &s.Attempts, &s.ResultBy, &s.BeatAt, &silence, &s.Reported, &s.Outcome)
	})
	if err != nil {
		return s, err
	}
	s.Silence = time.Duration(silence) * time.Microsecond
	if s.Status != ledger.Processing {
		s.ResultBy, s.BeatAt, s.Silence = nil, nil, 0
	}
	s.ID = schemas.NewActionID(s.Subscription, generation, s.Source, s.EventID, s.Name)
	return s, nil
}
