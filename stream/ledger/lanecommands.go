package ledger

// A command about an action, in one transaction.
//
//	lock    the fence, the action's row, the command
//	read    whether the command was carried out before: then its outcome is returned
//	decide  what the command makes of an action of this status
//	write   the action's row, and the command's outcome

import (
	"context"
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// CommandDetail goes with a command; all but Ran and Of about an action.
type CommandDetail struct {
	// Force runs an action again although its entity has a newer version (P4).
	Force bool `json:"force,omitempty"`
	// OutcomeUnknown lets an action run again although its outcome is unknown, or its sink cannot find out whether an earlier attempt
	// took effect: it may be done twice.
	OutcomeUnknown bool `json:"outcome_unknown,omitempty"`
	// Status is what became of the action, of a Resolve: Done.
	Status Status `json:"status,omitempty"`
	// Ran and Of are how many events the steps of a Release so far have let run, and how many they have found.
	Ran int `json:"ran,omitempty"`
	Of  int `json:"of,omitempty"`
}

// RunsAgain is the outcome of a Replay that was carried out. Without Force, an action that had not parked its lane ends as Stale instead if
// it is a snapshot, and its entity has a newer version by then.
const RunsAgain = "runs again"

// AskedAgain is the outcome of an AskGuards that found its action waiting.
const AskedAgain = "asked again"

// CommandResult is the result of a command about an action.
type CommandResult struct {
	Fenced  bool   // somebody else holds the fence: nothing was written
	Outcome string // for operators
	Status  Status // of the action now; empty if it has no row
}

// ApplyLaneCommand carries out a command about an action and stores its outcome in the same transaction, under the fence: a crash
// cannot make it happen twice. It tries again until the transaction is committed, its error is permanent, or ctx ends. Applied again, a
// command changes nothing, and the first outcome is returned. The caller owns the lane: no attempt of the action runs, and none has a result
// that is not recorded.
func (n *Namespace) ApplyLaneCommand(ctx context.Context, c *Claim, cmd Command) (o CommandResult, err error) {
	op := fmt.Sprintf("apply command %d of %s", cmd.ID, n.spec.Name)
	if c == nil || c.ID != cmd.Claim || cmd.LaneSeq == 0 {
		return o, schemas.Errorf(schemas.Invalid, op, "the claim is not that of its action, or it names none")
	}
	err = n.untilDone(ctx, op, func(tx pgx.Tx, win *windowSet) error {
		o = CommandResult{}
		return o.apply(ctx, tx, win, c, cmd)
	})
	return o, err
}

// untilDone runs a transaction that may be repeated until it is known to be committed, another try would fail too (kind Internal), or ctx
// ends (Unavailable).
func (n *Namespace) untilDone(ctx context.Context, op string, f func(pgx.Tx, *windowSet) error) (err error) {
	for try := 0; ; try++ {
		if wait := pg.Backoff(ctx, try); wait != nil {
			return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(wait, pg.Redact(err))}
		}
		err = n.inWindows(ctx, func(win *windowSet) error {
			return pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error { return f(tx, win) })
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && (troubleOf(err) == pg.Permanent || troubleOf(err) == pg.BadData):
			return &schemas.Error{Kind: schemas.Internal, Op: op, Err: pg.Redact(err)}
		}
		n.ledger.cfg.Logger.WarnContext(ctx, "ledger transaction failed; trying again", "of", op, "try", try+1, "error", pg.Redact(err))
	}
}

// apply carries out a command and stores its outcome. If that was done before, o gets the stored outcome. If the claim has lost its fence,
// nothing is done, and o says so.
func (o *CommandResult) apply(ctx context.Context, tx pgx.Tx, win *windowSet, c *Claim, cmd Command) error {
	held, err := c.held(ctx, tx)
	if err != nil {
		return err
	}
	if !held {
		o.Fenced = true
		return nil
	}
	w := win.windowOf(c, cmd.LaneSeq)
	if w != 0 { // else no window has the action any more: o.Status stays empty, and change finds nothing to do
		err = tx.QueryRow(ctx, OfWindow(w, `SELECT status FROM actions_w{w} WHERE fence = $1 AND lane_seq = $2 FOR UPDATE`), c.ID, cmd.LaneSeq).Scan(&o.Status)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	var before *string
	if err = tx.QueryRow(ctx, `SELECT outcome FROM commands WHERE id = $1 FOR UPDATE`, cmd.ID).Scan(&before); err != nil {
		return err
	}
	if before != nil {
		o.Outcome = *before
		return nil
	}
	if err = o.change(ctx, tx, w, cmd); err != nil {
		return err
	}
	return exactly(tx.Exec(ctx, `UPDATE commands SET ended_at = now(), outcome = $2, epoch = $3 WHERE id = $1`, cmd.ID, o.Outcome, c.Epoch))
}

// change changes the action's row, in window w, as the command asks, and sets the outcome and the new status. A command that does not fit
// the action's status changes nothing.
func (o *CommandResult) change(ctx context.Context, tx pgx.Tx, w int32, cmd Command) error {
	was := o.Status
	switch {
	case was == Stale && cmd.Kind == Replay && cmd.Detail.Force: // it was overtaken when it was to run again, and is to run all the same
	case cmd.Kind == AskGuards && was.Waits():
		o.Outcome = AskedAgain // its lane is read again, and asks
		return nil
	case was != Dead && was != Unknown:
		if was == "" {
			was = "done or has not been tried yet"
		}
		o.Outcome = fmt.Sprintf("nothing to do: it is %s", was)
		return nil
	case cmd.Kind == Replay && was == Unknown && !cmd.Detail.OutcomeUnknown:
		o.Outcome = "refused: its outcome is unknown by now, so that it may be done twice"
		return nil
	}
	switch cmd.Kind {
	case Replay:
		o.Status, o.Outcome = Failed, RunsAgain
		return exactly(tx.Exec(ctx, OfWindow(w, `UPDATE actions_w{w} a SET status = 'failed', open = true, next_at = now(), finished_at = NULL, replayed_at = now(), spent = a.attempts,
			deaths = a.deaths + (a.status = 'dead_letter')::int, forced = $3 OR `+ParksLane+`, twice = $4 FROM effects x
			WHERE a.fence = $1 AND a.lane_seq = $2 AND x.id = a.effect`), cmd.Claim, cmd.LaneSeq, cmd.Detail.Force, cmd.Detail.OutcomeUnknown))
	case Discard:
		o.Status, o.Outcome = Discarded, "given up"
	case Resolve:
		o.Status, o.Outcome = Done, "resolved as done"
	default:
		o.Outcome = fmt.Sprintf("refused: an action can only be replayed, discarded or resolved, and this is %s", cmd.Kind)
		return nil
	}
	return exactly(tx.Exec(ctx, OfWindow(w, `UPDATE actions_w{w} SET status = $3, open = false, finished_at = now(), deaths = deaths + (status = 'dead_letter')::int,
		packed = CASE WHEN `+unexported+` THEN packed END WHERE fence = $1 AND lane_seq = $2`), cmd.Claim, cmd.LaneSeq, string(o.Status)))
}
