package ledger

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
	"github.com/jackc/pgx/v5"
)

// AttemptRef names one attempt of an action for as long as the ledger keeps it.
type AttemptRef struct {
	Fence   int32
	LaneSeq int64
	Attempt int
}

// Report is what a destination says later of an attempt that it answered 202 to.
type Report struct {
	AttemptRef
	Status   Status        // Done; Failed, to be tried again; or Dead
	Wait     time.Duration // before the next attempt, at least; for Failed
	Code     int
	Error    string
	Response []byte // the first 4 KiB
}

// ReportState is what became of a report.
type ReportState string

const (
	Recorded ReportState = "recorded" // the owner applies it
	Repeated ReportState = "repeated" // the same was said before
	Differs  ReportState = "differs"  // something else was said before, which stands
	Late     ReportState = "late"     // it is kept and changes nothing, see ActionState.Past
)

func (r *Report) validate() error {
	switch {
	case r.LaneSeq <= 0 || r.Attempt <= 0 || r.Attempt > math.MaxInt32:
		return fmt.Errorf("no attempt %d of action %d", r.Attempt, r.LaneSeq)
	case !slices.Contains([]Status{Done, Failed, Dead}, r.Status):
		return fmt.Errorf("status %q is no result", r.Status)
	case r.Wait < 0 || r.Code < 0 || r.Code > 999:
		return fmt.Errorf("wait %s, code %d", r.Wait, r.Code)
	}
	return nil
}

// digest tells reports apart.
func (r *Report) digest() (d [16]byte) {
	h := sha256.New()
	for _, part := range []string{string(r.Status), r.Error, string(r.Response)} {
		_ = binary.Write(h, binary.BigEndian, int64(len(part)))
		h.Write([]byte(part))
	}
	_ = binary.Write(h, binary.BigEndian, []int64{int64(r.Wait), int64(r.Code)})
	copy(d[:], h.Sum(nil))
	return d
}

// Report keeps what a destination said, for the partition's owner to apply. An attempt has one report, the first. It may be
// called by any process.
func (l *Ledger) Report(ctx context.Context, r Report) (ReportState, error) {
	op := fmt.Sprintf("record the result of attempt %d", r.Attempt)
	if err := r.validate(); err != nil {
		return "", &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	r.Error, r.Response = clean(r.Error, maxErrorText), r.Response[:min(len(r.Response), maxResponse)]
	state, err := l.report(ctx, r)
	if err != nil {
		return "", &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return state, nil
}

func (l *Ledger) report(ctx context.Context, r Report) (ReportState, error) {
	digest := r.digest()
	var (
		known   [16]byte
		first   bool
		outcome string
	)
	err := l.quick.QueryRow(ctx, `INSERT INTO results AS r (fence, lane_seq, attempt, status, wait_us, code, error, response, digest)
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
	if state, err := l.ActionState(ctx, r.AttemptRef); err == nil && state.late(&r) && l.late(ctx, r.AttemptRef) {
		return Late, nil
	}
	return Recorded, nil // it is kept; the owner finds out what it still changes
}

// late notes of a report that it changes nothing, unless the owner was as fast: then the action has ended by this very word.
func (l *Ledger) late(ctx context.Context, r AttemptRef) bool {
	ended, err := l.quick.Exec(ctx, lateWrite, r.Fence, r.LaneSeq, r.Attempt)
	return err == nil && ended.RowsAffected() == 1
}

const lateWrite = `UPDATE results SET ended_at = now(), outcome = 'late'
WHERE fence = $1 AND lane_seq = $2 AND attempt = $3 AND ended_at IS NULL`

// Beat notes a sign of life of an attempt that is processing. Not every beat is told to the owner, who looks when the silence
// seems too long. alive is false where the attempt is not processing, or not yet.
func (l *Ledger) Beat(ctx context.Context, r AttemptRef) (alive bool, err error) {
	err = l.inWindowsOf(ctx, r.Fence, func(windows []int32) error {
		for _, w := range windows {
			tag, err := l.quick.Exec(ctx, ofWindow(w, beatWrite), r.Fence, r.LaneSeq, r.Attempt)
			if alive = err == nil && tag.RowsAffected() > 0; err != nil || alive {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, &schemas.Error{Kind: schemas.Unavailable, Op: "note a heartbeat", Err: redact(err)}
	}
	return alive, nil
}

const beatWrite = `UPDATE actions_w{w} SET beat_at = now() WHERE fence = $1 AND lane_seq = $2 AND attempts = $3 AND status = 'processing'`

// ActionState is where one action stands.
type ActionState struct {
	ID           schemas.ActionID
	Subscription string // "<team>.<subscription>"
	Name         string
	Destination  string
	Source       string
	EventID      string
	Status       Status
	Attempts     int // recorded ones; one under way, and not yet answered, is not among them
	// Of a Processing action: until when the result is waited for, and its last sign of life and how long silence may be.
	ResultBy *time.Time
	BeatAt   *time.Time
	Silence  time.Duration // 0: none is asked for
	// What was said of the attempt asked for, and what came of that: empty where nothing was, or where it is not applied yet.
	Reported Status
	Outcome  string // applied or late
}

// Past says that a report of this attempt changes nothing any more: the action has ended, or a later attempt is recorded.
func (s *ActionState) Past(attempt int) bool {
	switch s.Status {
	case Pending, Failed, Processing, Unknown, "":
		return s.Attempts > attempt
	}
	return true
}

// late says that a report changes nothing any more: its attempt is past. One that says done counts for as long as nothing came of
// the later attempts either: what is done is not to be done again.
func (s *ActionState) late(r *Report) bool {
	spared := r.Status == Done && (s.Status == Failed || s.Status == Unknown)
	return s.Past(r.Attempt) && !spared
}

// ActionState reads where the action of an attempt stands. Kind NotFound where the ledger keeps it no longer.
func (l *Ledger) ActionState(ctx context.Context, r AttemptRef) (ActionState, error) {
	const op = "read an action"
	s, err := l.actionState(ctx, r)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, schemas.Errorf(schemas.NotFound, op, "the ledger does not keep it any more")
	case err != nil:
		return s, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: redact(err)}
	}
	return s, nil
}

// actionRead finds the event of an action by the action's row or, where it has none, among the events of its fence.
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
LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + actionStates + `
JOIN effects f ON f.id = coalesce(x.effect, p.effects[n.i + 1])
LEFT JOIN results r ON r.fence = $1 AND r.lane_seq = $2 AND r.attempt = $3
WHERE e.lane_seq + n.i = $2`

func (l *Ledger) actionState(ctx context.Context, r AttemptRef) (s ActionState, err error) {
	var (
		generation int32
		silence    int64
	)
	err = l.inWindowsOf(ctx, r.Fence, func(windows []int32) error {
		return l.quick.QueryRow(ctx, ofWindows(windows, actionRead), r.Fence, r.LaneSeq, r.Attempt).Scan(&s.Subscription, &generation, &s.Name,
			&s.Destination, &s.Source, &s.EventID, &s.Status, &s.Attempts, &s.ResultBy, &s.BeatAt, &silence, &s.Reported, &s.Outcome)
	})
	if err != nil {
		return s, err
	}
	s.Silence = micros(silence)
	if s.Status != Processing {
		s.ResultBy, s.BeatAt, s.Silence = nil, nil, 0
	}
	s.ID = schemas.NewActionID(s.Subscription, generation, s.Source, s.EventID, s.Name)
	return s, nil
}

// OpenReport is a report that its owner has still to apply.
type OpenReport struct {
	Report
	Claim  *Claim
	Entity schemas.EntityKey // empty where the action has no row yet
	Past   bool              // it changes nothing any more
}

// reportPage is how many reports one query reads.
const reportPage = 1000

// Reports reads what is to be applied of what was said to the owner of claims, oldest first.
func (n *Namespace) Reports(ctx context.Context, claims []*Claim) (list []OpenReport, err error) {
	ids, own := make([]int32, len(claims)), make(map[int32]*Claim, len(claims))
	for i, c := range claims {
		ids[i], own[c.ID] = c.ID, c
	}
	for last, got := int64(0), reportPage; got == reportPage; {
		var page []OpenReport
		err := n.inWindows(ctx, func(win *windowSet) error {
			rows, err := n.ledger.hot.Query(ctx, win.own(reportsRead), ids, last, reportPage)
			if err == nil {
				page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (OpenReport, error) { return scanReport(row, own, &last) })
			}
			return err
		})
		if err != nil {
			return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read the results said to " + n.spec.Name, Err: redact(err)}
		}
		list, got = append(list, page...), len(page)
	}
	return list, nil
}

const reportsRead = `-- reports: one look into results_open per fence
SELECT r.id, r.fence, r.lane_seq, r.attempt, r.status, r.wait_us, r.code, r.error, r.response, coalesce(a.status, ''), coalesce(a.attempts, 0), coalesce(e.entity, '')
FROM results r LEFT JOIN LATERAL (SELECT * FROM {actions} s WHERE s.fence = r.fence AND s.lane_seq = r.lane_seq OFFSET 0) a ON true
LEFT JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e ON true
WHERE r.fence = ANY ($1) AND r.ended_at IS NULL AND r.id > $2 ORDER BY r.id LIMIT $3`

func scanReport(row pgx.CollectableRow, own map[int32]*Claim, id *int64) (r OpenReport, err error) {
	var (
		wait int64
		now  ActionState
	)
	err = row.Scan(id, &r.Fence, &r.LaneSeq, &r.Attempt, &r.Status, &wait, &r.Code, &r.Error, &r.Response, &now.Status, &now.Attempts, &r.Entity)
	r.Wait, r.Claim = micros(wait), own[r.Fence]
	if now.Status == "" && r.Claim.over(r.LaneSeq) {
		now.Status = Done
	}
	r.Past = now.late(&r.Report)
	return r, err
}

// over says of an action without a row that it is done.
func (c *Claim) over(laneSeq int64) bool {
	c.mu.Lock()
	below := laneSeq < c.marks.low
	c.mu.Unlock()
	return below || c.ended(laneSeq)
}

// EndReport notes of a report that it changed nothing.
func (n *Namespace) EndReport(ctx context.Context, r OpenReport) error {
	_, err := n.ledger.hot.Exec(ctx, lateWrite, r.Fence, r.LaneSeq, r.Attempt)
	if err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "end a late result of " + n.spec.Name, Err: redact(err)}
	}
	return nil
}

// Quiet says of actions of a claim that are processing for how long they may still be silent, by the ledger's clock; what is
// not processing is left out.
func (n *Namespace) Quiet(ctx context.Context, c *Claim, laneSeqs []int64) (map[int64]time.Duration, error) {
	left := make(map[int64]time.Duration, len(laneSeqs))
	err := n.inWindows(ctx, func(win *windowSet) error {
		rows, err := n.ledger.hot.Query(ctx, win.own(quietRead), c.ID, laneSeqs)
		if err == nil {
			var seq, us int64
			_, err = pgx.ForEachRow(rows, []any{&seq, &us}, func() error {
				left[seq] = micros(us)
				return nil
			})
		}
		return err
	})
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read the heartbeats for " + n.spec.Name, Err: redact(err)}
	}
	return left, nil
}

const quietRead = `-- quiet
SELECT a.lane_seq, ` + quietColumn + ` FROM {actions} a WHERE a.fence = $1 AND a.lane_seq = ANY ($2) AND a.status = 'processing'`

// resultEnd notes that a report is applied. It goes with the action's own row, under the fence.
var resultEnd = newFresh(`-- resultEnd
UPDATE results r SET ended_at = now(), outcome = 'applied' FROM fences f
WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND r.fence = f.id AND r.lane_seq = $4 AND r.attempt = $5 AND r.ended_at IS NULL`)

func (r *Result) resultParams() [][]byte {
	return append(r.Claim.fenceParams(), int64Param(r.LaneSeq), int32Param(int32(r.Attempt)))
}

const (
	quietColumn = `greatest(0, coalesce(extract(epoch FROM a.beat_at - now()) * 1000000 + a.silence_us, 0))::bigint`
	// leftColumns are Action.Left, Quiet and Silence, in microseconds.
	leftColumns = `greatest(0, coalesce(extract(epoch FROM a.result_by - now()) * 1000000, 0))::bigint, ` + quietColumn + `, coalesce(a.silence_us, 0)`
)

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
