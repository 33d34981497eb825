// Package reports stores what destinations report of long work, and reads where its actions stand. It has a pool of connections of its own:
// however much people look at, it holds up no result and no heartbeat. A report is a row that the partition's owner finds and applies under
// its fence.
package reports

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Reports stores what destinations report of long work, and reads where its actions stand. Safe for concurrent use.
type Reports struct {
	ledger *ledger.Ledger
	quick  *ledger.Pool
}

// New returns the reports of a ledger. It uses the ledger's connections, and need not be closed.
func New(l *ledger.Ledger) *Reports {
	return &Reports{ledger: l, quick: l.ReportPool()}
}

// State is what became of a report.
type State string

const (
	Recorded State = "recorded" // the owner applies it
	Repeated State = "repeated" // the same was reported before
	Differs  State = "differs"  // something else was reported before, and counts
	Late     State = "late"     // it is kept and changes nothing, see ledger.Report.Late
)

// validate refuses a report that no attempt can have.
func validate(r *ledger.Report) error {
	switch {
	case r.LaneSeq <= 0 || r.Attempt <= 0 || r.Attempt > math.MaxInt32 || r.Epoch <= 0:
		return fmt.Errorf("no attempt %d of action %d by the owner with epoch %d", r.Attempt, r.LaneSeq, r.Epoch)
	case !slices.Contains([]ledger.Status{ledger.Done, ledger.Failed, ledger.Dead}, r.Status):
		return fmt.Errorf("status %q is no result", r.Status)
	case r.Wait < 0 || r.Code < 0 || r.Code > 999:
		return fmt.Errorf("wait %s, code %d", r.Wait, r.Code)
	case r.Cost < 0:
		return fmt.Errorf("cost %d", r.Cost)
	}
	return nil
}

// digestOf returns a digest of what a report says, to tell a repeated one from a different one.
func digestOf(r *ledger.Report) (d [16]byte) {
	h := sha256.New()
	for _, part := range []string{string(r.Status), r.Error, string(r.Response)} {
		_ = binary.Write(h, binary.BigEndian, int64(len(part)))
		h.Write([]byte(part))
	}
	_ = binary.Write(h, binary.BigEndian, []int64{int64(r.Wait), int64(r.Code), r.Cost})
	copy(d[:], h.Sum(nil))
	return d
}

// Report stores a destination's report, which the partition's owner applies. Only the first report of an attempt counts. Any process may
// call it. Kinds: Invalid if no attempt can have such a report, Unavailable.
func (rs *Reports) Report(ctx context.Context, r ledger.Report) (State, error) {
	op := fmt.Sprintf("record the result of attempt %d", r.Attempt)
	if err := validate(&r); err != nil {
		return "", &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	r.Error, r.Response = ledger.Clean(r.Error, ledger.MaxErrorText), r.Response[:min(len(r.Response), ledger.MaxResponse)]
	state, err := rs.report(ctx, r)
	if err != nil {
		return "", ledger.Unavailable(op, err)
	}
	return state, nil
}

// report stores a report unless its attempt has one, and returns what became of it. Whether one that is not ended is late is found out on a
// best effort here, each time it comes; the owner does so again.
func (rs *Reports) report(ctx context.Context, r ledger.Report) (State, error) {
	digest := digestOf(&r)
	var ( // of the report that is stored now
		known   [16]byte
		first   bool // it is this one
		outcome string
	)
	err := rs.quick.QueryRow(ctx, `INSERT INTO results AS r (fence, lane_seq, attempt, epoch, status, wait_us, code, error, response, cost, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (fence, lane_seq, attempt, epoch) DO UPDATE SET digest = r.digest RETURNING r.digest, xmax = 0, coalesce(outcome, '')`,
		r.Fence, r.LaneSeq, r.Attempt, r.Epoch, r.Status, r.Wait.Microseconds(), r.Code, r.Error, r.Response, r.Cost, digest).Scan(&known, &first, &outcome)
	switch {
	case err != nil:
		return "", err
	case known != digest:
		return Differs, nil
	case outcome == "late" && r.Status != ledger.Done:
		return Late, nil
	case outcome == "applied":
		return Repeated, nil
	}
	state, err := rs.ActionState(ctx, r.AttemptRef)
	late := err == nil && state.Outcome != "applied" && r.Late(state.Status, state.Attempts, state.AttemptEpoch)
	switch {
	case outcome == "late" && err == nil && !late: // by now it counts, as one that comes for the first time
		_, err = rs.quick.Exec(ctx, ledger.ReopenDone, r.Fence, r.LaneSeq)
		return Recorded, err
	case outcome == "late":
		return Late, nil
	case late && (r.Cost > 0 || rs.markLate(ctx, &r)): // what it has cost counts all the same: the owner ends it
		return Late, nil
	case first:
		return Recorded, nil
	}
	return Repeated, nil
}

// markLate marks a report as late, unless the owner has. It returns false if it counts by now, the owner has applied it, or the database fails.
func (rs *Reports) markLate(ctx context.Context, r *ledger.Report) bool {
	late, err := rs.ledger.EndLate(ctx, rs.quick, r)
	return err == nil && late
}

// Beat records a heartbeat of an attempt that is processing. The owner is not notified: it reads heartbeats before it gives up waiting.
// alive is false if the attempt is not processing: not yet, no longer, or the ledger does not know it. Kind Unavailable.
func (rs *Reports) Beat(ctx context.Context, r ledger.AttemptRef) (alive bool, err error) {
	err = rs.ledger.InWindowsOf(ctx, rs.quick, r.Fence, func(windows []int32) error {
		for _, w := range windows {
			tag, err := rs.quick.Exec(ctx, ledger.OfWindow(w, beatWrite), r.Fence, r.LaneSeq, r.Attempt, r.Epoch)
			if err != nil {
				return err
			}
			if tag.RowsAffected() > 0 {
				alive = true
				return nil
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // no rows: no such fence
		return false, ledger.Unavailable("record a heartbeat", err)
	}
	return alive, nil
}

const beatWrite = `UPDATE actions_w{w} SET beat_at = now() WHERE fence = $1 AND lane_seq = $2 AND attempts = $3 AND attempt_epoch = $4
    AND status = 'processing'`

// ActionState is the state of one action.
type ActionState struct {
	ID           schemas.ActionID
	Subscription string // "<team>.<subscription>"
	Name         string
	Destination  string
	Source       string
	EventID      string
	Status       ledger.Status
	Attempts     int   // recorded ones; one under way, and not yet answered, is not among them
	AttemptEpoch int64 // of the owner that made the last of them
	Epoch        int64 // of the owner that has the action's partition now
	// Of a Processing action: when the wait for the result ends, its last heartbeat, and the longest time without one.
	ResultBy *time.Time
	BeatAt   *time.Time
	Silence  time.Duration // 0: heartbeats are not asked for
	Newer    bool          // its result is not wanted any more: its entity has a newer version, see [ledger.Namespace.Cancel]
	// The report that is stored for the attempt whose action was read.
	Reported ledger.Status // empty: there is none
	Outcome  string        // applied or late; empty: not applied yet
}

// Past reports whether the action is past an attempt: the action has ended, or a later attempt is recorded.
func (s *ActionState) Past(r ledger.AttemptRef) bool {
	return r.Past(s.Status, s.Attempts, s.AttemptEpoch)
}

// Lost reports whether an attempt was not recorded before another owner took over, and so never will be. The other owner makes another
// attempt with the same number.
func (s *ActionState) Lost(r ledger.AttemptRef) bool {
	recorded := r.Attempt < s.Attempts || r.Attempt == s.Attempts && r.Epoch == s.AttemptEpoch
	return !s.Status.Ended() && r.Epoch < s.Epoch && !recorded
}

// ActionState reads the state of an attempt's action. The kind of its error is NotFound if the ledger does not have the
// action, or not any more, and Unavailable if it cannot be read.
func (rs *Reports) ActionState(ctx context.Context, r ledger.AttemptRef) (ActionState, error) {
	const op = "read an action"
	s, err := rs.actionState(ctx, r)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, schemas.Errorf(schemas.NotFound, op, "the ledger does not have it, or not any more")
	case err != nil:
		return s, ledger.Unavailable(op, err)
	}
	return s, nil
}

// actionRead finds the event of an action by the action's row; without a row it is the last event of the fence at or before its lane_seq.
const actionRead = `-- actionRead: index scans of each window of the subscription by (fence, lane_seq), then one event and its action
WITH at AS (
    (SELECT event_window AS w, event_key AS key FROM {actions} a WHERE fence = $1 AND lane_seq = $2)
    UNION ALL
    (SELECT window_id, event_key FROM {events} e WHERE fence = $1 AND lane_seq <= $2 AND lane_seq IS NOT NULL AND lane_window IS NULL
     ORDER BY fence DESC, lane_seq DESC LIMIT 1)
    LIMIT 1
)
SELECT s.name, coalesce(e.replay, s.generation), f.name, f.destination, e.source, e.event_id,
       coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' WHEN c.superseded THEN 'superseded' ELSE 'done' END),
       coalesce(x.attempts, (NOT c.superseded)::int, 0), coalesce(x.attempt_epoch, 0), w.epoch,
       x.result_by, x.beat_at, coalesce(x.silence_us, 0), coalesce(x.newer_at IS NOT NULL, false), coalesce(r.status, ''), coalesce(r.outcome, '')
FROM at JOIN {events} e ON e.window_id = at.w AND e.event_key = at.key
JOIN fences w ON w.id = e.fence JOIN subscriptions s ON s.id = w.subscription
LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + ledger.ActionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
LEFT JOIN results r ON r.fence = $1 AND r.lane_seq = $2 AND r.attempt = $3 AND r.epoch = $4
WHERE e.lane_seq + n.i = $2`

// actionState is ActionState with the database's own errors; pgx.ErrNoRows if there is no such action.
func (rs *Reports) actionState(ctx context.Context, r ledger.AttemptRef) (s ActionState, err error) {
	var (
		generation int32
		silence    int64
	)
	err = rs.ledger.InWindowsOf(ctx, rs.quick, r.Fence, func(windows []int32) error {
		return rs.quick.QueryRow(ctx, ledger.OfWindows(windows, actionRead), r.Fence, r.LaneSeq, r.Attempt, r.Epoch).Scan(&s.Subscription, &generation, &s.Name,
			&s.Destination, &s.Source, &s.EventID, &s.Status, &s.Attempts, &s.AttemptEpoch, &s.Epoch, &s.ResultBy, &s.BeatAt, &silence, &s.Newer, &s.Reported, &s.Outcome)
	})
	if err != nil {
		return s, err
	}
	s.Silence = time.Duration(silence) * time.Microsecond
	if s.Status != ledger.Processing {
		s.ResultBy, s.BeatAt, s.Silence, s.Newer = nil, nil, 0, false
	}
	s.ID = schemas.NewActionID(s.Subscription, generation, s.Source, s.EventID, s.Name)
	return s, nil
}
