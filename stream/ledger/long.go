package ledger

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// AttemptRef names one attempt of an action for as long as the ledger keeps it. Two attempts may have the same number: that of an owner
// which was killed before it recorded it, and that of the next owner. The second has the higher epoch.
type AttemptRef struct {
	Fence   int32
	LaneSeq int64
	Attempt int
	Epoch   int64 // of the owner that made it
}

// Before reports whether the attempt was made before the given one of the same action.
func (r AttemptRef) Before(attempt int, epoch int64) bool {
	return r.Attempt < attempt || r.Attempt == attempt && r.Epoch < epoch
}

// Report is the result of an attempt that a destination answered 202 to, reported later.
type Report struct {
	AttemptRef
	Status   Status        // Done; Failed, to be tried again; or Dead
	Wait     time.Duration // before the next attempt, at least; for Failed
	Code     int
	Error    string
	Response []byte // the first 4 KiB
	Cost     int64  // of the run, as sink.Cost; 0: nothing is said
}

// lateWrite records that a report changed nothing.
const lateWrite = `UPDATE results SET ended_at = now(), outcome = 'late'
WHERE fence = $1 AND lane_seq = $2 AND attempt = $3 AND epoch = $4 AND ended_at IS NULL`

// ReopenDone has the late reports of an action that say done count again, where it is failed now and so to be attempted: what is done must not be
// done again. What they have cost was counted when they were ended.
const ReopenDone = `UPDATE results SET ended_at = NULL, outcome = NULL, cost = 0
WHERE fence = $1 AND lane_seq = $2 AND status = 'done' AND outcome = 'late'`

// Past reports whether an action is past the attempt: the action has ended, or a later attempt is recorded. The action has status is and
// so many recorded attempts, the last of the owner with this epoch. A report of the attempt then changes nothing.
func (r AttemptRef) Past(is Status, attempts int, epoch int64) bool {
	return is.Ended() || r.Before(attempts, epoch)
}

// Ended reports whether an action with status s is not attempted any more, unless an operator asks for it. Empty: it has no row.
func (s Status) Ended() bool {
	switch s {
	case Pending, Failed, Processing, Unknown, WaitingApproval, WaitingBudget, "":
		return false
	}
	return true
}

// Late reports whether a report comes too late to change anything, because its attempt is past. A report of done still counts while the
// later attempts have only failed, wait for a guard, or their outcome is unknown: what is done must not be done again.
func (r *Report) Late(is Status, attempts int, epoch int64) bool {
	spared := r.Status == Done && (is == Failed || is == Unknown || is.Waits())
	return r.Past(is, attempts, epoch) && !spared
}

// OpenReport is a report that its owner has still to apply.
type OpenReport struct {
	Report
	Claim  *Claim
	Entity schemas.EntityKey // empty where the action has no row yet
	Past   bool              // it changes nothing any more
	// What else is known of the action; empty where it has no row yet.
	ID                                 schemas.ActionID
	Name, Destination, Source, EventID string
}

// reportPage is how many reports one query reads.
const reportPage = 1000

// Reports reads the reports that the owner of claims has still to apply, oldest first.
func (n *Namespace) Reports(ctx context.Context, claims []*Claim) (list []OpenReport, err error) {
	own := make(map[int32]*Claim, len(claims))
	for _, c := range claims {
		own[c.ID] = c
	}
	for last, got := int64(0), reportPage; got == reportPage; {
		var page []reportRow
		err := n.inWindows(ctx, func(win *windowSet) error {
			rows, err := n.ledger.hot.Query(ctx, win.own(reportsRead), idsOf(claims), last, reportPage)
			if err == nil {
				page, err = pgx.CollectRows(rows, pgx.RowToStructByName[reportRow])
			}
			return err
		})
		if err != nil {
			return nil, pg.Unavailable("read the results said to "+n.spec.Name, err)
		}
		for i := range page {
			r := &page[i]
			list, last = append(list, r.report(own[r.Fence])), r.ID
		}
		got = len(page)
	}
	return list, nil
}

const reportsRead = `-- reports: one look into results_open per fence
SELECT r.id, r.fence, r.lane_seq, r.attempt, r.epoch, r.status, r.wait_us, r.code, r.error, r.response, r.cost,
    coalesce(a.status, '') AS action_status, coalesce(a.attempts, 0) AS action_attempts,
    coalesce(a.attempt_epoch, 0) AS action_epoch, coalesce(e.entity, '') AS entity, a.action_id, coalesce(x.name, '') AS name,
    coalesce(x.destination, '') AS destination, coalesce(e.source, '') AS source, coalesce(e.event_id, '') AS event_id
FROM results r LEFT JOIN LATERAL (SELECT * FROM {actions} s WHERE s.fence = r.fence AND s.lane_seq = r.lane_seq OFFSET 0) a ON true
LEFT JOIN LATERAL (SELECT * FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) e ON true
LEFT JOIN LATERAL (SELECT name, destination FROM effects f WHERE f.id = a.effect OFFSET 0) x ON true
WHERE r.fence = ANY ($1) AND r.ended_at IS NULL AND r.id > $2 ORDER BY r.id LIMIT $3`

type reportRow struct {
	ID             int64
	Fence          int32
	LaneSeq        int64
	Attempt        int
	Epoch          int64
	Status         Status
	WaitUS         int64
	Code           int
	Error          string
	Response       []byte
	Cost           int64
	ActionStatus   Status // empty: it has no row
	ActionAttempts int
	ActionEpoch    int64
	Entity         schemas.EntityKey
	ActionID       *[16]byte
	Name           string
	Destination    string
	Source         string
	EventID        string
}

// report returns the report of a row for the claim that owns its action. The claim knows whether an action without a row is done.
func (r *reportRow) report(c *Claim) OpenReport {
	o := OpenReport{Claim: c, Entity: r.Entity, Name: r.Name, Destination: r.Destination, Source: r.Source, EventID: r.EventID}
	o.Report = Report{AttemptRef: AttemptRef{r.Fence, r.LaneSeq, r.Attempt, r.Epoch}, Status: r.Status,
		Wait: micros(r.WaitUS), Code: r.Code, Error: r.Error, Response: r.Response, Cost: r.Cost}
	if r.ActionID != nil {
		o.ID = schemas.ActionIDOf(*r.ActionID)
	}
	status := r.ActionStatus
	if status == "" && c.finished(r.LaneSeq) {
		status = Done
	}
	o.Past = o.Late(status, r.ActionAttempts, r.ActionEpoch)
	return o
}

// EndReport ends a report that was read as past. late is false if it has not ended as late: it counts by now, since its action is to run again,
// or was applied.
func (n *Namespace) EndReport(ctx context.Context, r OpenReport) (late bool, err error) {
	late, err = n.ledger.EndLate(ctx, n.ledger.hot, &r.Report)
	return late, pg.Unavailable("end a late result of "+n.spec.Name, err)
}

// EndLate ends a report that was late when its action was read, unless it is not by now, and reports whether it has ended as late. It locks the
// action's row: a replay commits before it, and the report counts, or comes after it, and ReopenDone finds the report.
func (l *Ledger) EndLate(ctx context.Context, from *Pool, r *Report) (late bool, err error) {
	err = l.InWindowsOf(ctx, from, r.Fence, func(windows []int32) error {
		return pgx.BeginFunc(ctx, from, func(tx pgx.Tx) error {
			if late, err = r.stillLate(ctx, tx, windows); err != nil || !late {
				return err
			}
			if _, err := tx.Exec(ctx, lateWrite, r.Fence, r.LaneSeq, r.Attempt, r.Epoch); err != nil {
				return err
			}
			// not by the write itself, which does not see an end that it has waited for
			return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM results WHERE fence = $1 AND lane_seq = $2 AND attempt = $3 AND epoch = $4 AND outcome = 'late')`,
				r.Fence, r.LaneSeq, r.Attempt, r.Epoch).Scan(&late)
		})
	})
	return late && err == nil, err
}

// stillLate reports whether a report that was late is so by the action's row, and locks that. An action without a row is done, or was dropped with
// its window.
func (r *Report) stillLate(ctx context.Context, tx pgx.Tx, windows []int32) (bool, error) {
	for _, w := range windows {
		var (
			is       Status
			attempts int
			epoch    int64
		)
		err := tx.QueryRow(ctx, OfWindow(w, `SELECT status, attempts, attempt_epoch FROM actions_w{w} WHERE fence = $1 AND lane_seq = $2 FOR SHARE`),
			r.Fence, r.LaneSeq).Scan(&is, &attempts, &epoch)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err == nil && r.Late(is, attempts, epoch), err
		}
	}
	return true, nil
}

// SilenceLeft returns, by lane_seq, how long actions of a claim that are processing may still be without a heartbeat, by the ledger's clock.
// Actions that are not processing are left out.
func (n *Namespace) SilenceLeft(ctx context.Context, c *Claim, laneSeqs []int64) (map[int64]time.Duration, error) {
	left := make(map[int64]time.Duration, len(laneSeqs))
	err := n.inWindows(ctx, func(win *windowSet) error {
		rows, err := n.ledger.hot.Query(ctx, win.own(silenceLeftRead), c.ID, laneSeqs)
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
		return nil, pg.Unavailable("read the heartbeats for "+n.spec.Name, err)
	}
	return left, nil
}

const silenceLeftRead = `-- silenceLeft
SELECT a.lane_seq, ` + silenceLeftColumn + ` FROM {actions} a WHERE a.fence = $1 AND a.lane_seq = ANY ($2) AND a.status = 'processing'`

// resultEnd ends a report as applied, in the transaction that writes the action's row, under the fence.
var resultEnd = pg.NewFresh(`-- resultEnd
UPDATE results r SET ended_at = now(), outcome = 'applied' FROM fences f
WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND r.fence = f.id AND r.lane_seq = $4 AND r.attempt = $5 AND r.epoch = $6
    AND r.ended_at IS NULL`)

func (r *Result) resultParams() [][]byte {
	return append(r.Claim.fenceParams(), pg.Int64Param(r.LaneSeq), pg.Int32Param(int32(r.Attempt)), pg.Int64Param(r.attemptEpoch()))
}

// attemptEpoch returns the epoch of the owner that made the attempt.
func (r *Result) attemptEpoch() int64 { return cmp.Or(r.Epoch, r.Claim.Epoch) }

const (
	silenceLeftColumn = `greatest(0, coalesce(extract(epoch FROM a.beat_at - now()) * 1000000 + a.silence_us, 0))::bigint`
	// leftColumns are Action.Left, SilenceLeft and Silence, in microseconds.
	leftColumns = `greatest(0, coalesce(extract(epoch FROM a.result_by - now()) * 1000000, 0))::bigint AS result_in,
       ` + silenceLeftColumn + ` AS silence_left, coalesce(a.silence_us, 0) AS silence`
)

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
