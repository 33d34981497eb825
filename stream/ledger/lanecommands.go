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

// EndAbandoned gives an action up, or takes it as done, in a partition that nobody is to claim any more, and stores the command with its outcome: an owner
// would do it, and none comes. It returns the command's id, and 0 where an owner may live still, which is to be asked then. An open command about
// the action becomes this one. The caller knows that nobody reads the topic, or that the subscription is gone. Kinds: NotFound if the action has no row,
// Invalid if that is neither Discard nor Resolve, Unavailable.
func (l *Ledger) EndAbandoned(ctx context.Context, cmd Command) (id int64, err error) {
	op := fmt.Sprintf("%s action %d of partition %d", cmd.Kind, cmd.LaneSeq, cmd.Claim)
	if cmd.Kind != Discard && cmd.Kind != Resolve {
		return 0, schemas.Errorf(schemas.Invalid, op, "nobody would run it")
	}
	err = l.transact(ctx, func(tx pgx.Tx) (err error) {
		if err = NotMoving(ctx, tx, op, AboutFences, []int32{cmd.Claim}); err == nil {
			id, err = endAbandoned(ctx, tx, cmd)
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, schemas.Errorf(schemas.NotFound, op, "there is none")
	case err != nil:
		return 0, Unavailable(op, err)
	}
	return id, nil
}

func endAbandoned(ctx context.Context, tx pgx.Tx, cmd Command) (id int64, err error) {
	var subscription int32
	var epoch int64
	var owned bool
	err = tx.QueryRow(ctx, `SELECT f.subscription, f.epoch, coalesce(NOT f.released AND greatest(f.claimed_at, p.processed_at) > now() - $2::interval, false)
		FROM fences f LEFT JOIN progress p ON p.fence = f.id WHERE f.id = $1 FOR UPDATE OF f`, cmd.Claim, leftAfter).Scan(&subscription, &epoch, &owned)
	if err != nil || owned {
		return 0, err
	}
	windows := liveWindows{subscription: subscription}
	win, err := windows.read(ctx, tx) // under the lock, as in leaveTopic
	if err != nil {
		return 0, err
	}
	// Should there be an owner all the same, it is fenced, and its next claim reads what the row says.
	if _, err = tx.Exec(ctx, `UPDATE fences SET epoch = epoch + 1, token = NULL WHERE id = $1 AND NOT released`, cmd.Claim); err != nil {
		return 0, err
	}
	var o CommandResult
	var w int32
	if err = tx.QueryRow(ctx, win.own(`SELECT window_id, status FROM {actions} a WHERE fence = $1 AND lane_seq = $2`), cmd.Claim, cmd.LaneSeq).Scan(&w, &o.Status); err != nil {
		return 0, err
	}
	if err = o.change(ctx, tx, w, cmd); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, win.own(`INSERT INTO commands (fence, kind, lane_seq, event_key, entity, clock, asked_by, reason, detail)
		SELECT a.fence, $3, a.lane_seq, a.event_key, e.entity, e.clock, $4, $5, $6 FROM {actions} a
		JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key WHERE a.fence = $1 AND a.lane_seq = $2
		ON CONFLICT (fence, lane_seq) WHERE lane_seq IS NOT NULL AND ended_at IS NULL
		DO UPDATE SET kind = EXCLUDED.kind, asked_by = EXCLUDED.asked_by, reason = EXCLUDED.reason, detail = EXCLUDED.detail, asked_at = now() RETURNING id`),
		cmd.Claim, cmd.LaneSeq, string(cmd.Kind), Clean(cmd.By, 200), Clean(cmd.Reason, 1000), cmd.Detail).Scan(&id)
	if err != nil {
		return 0, err
	}
	return id, exactly(tx.Exec(ctx, `UPDATE commands SET ended_at = now(), outcome = $2, epoch = $3 WHERE id = $1`, id, o.Outcome, epoch))
}

// untilDone runs a transaction that may be repeated until it is known to be committed, another try would fail too (kind Internal), or ctx
// ends (Unavailable).
func (n *Namespace) untilDone(ctx context.Context, op string, f func(pgx.Tx, *windowSet) error) error {
	return n.repeat(ctx, op, func(win *windowSet) error {
		return pgx.BeginFunc(ctx, n.ledger.hot, func(tx pgx.Tx) error { return f(tx, win) })
	})
}

// repeat is untilDone where f makes the transaction.
func (n *Namespace) repeat(ctx context.Context, op string, f func(*windowSet) error) (err error) {
	for try := 0; ; try++ {
		if wait := pg.Backoff(ctx, try); wait != nil {
			return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(wait, pg.Redact(err))}
		}
		err = n.inWindows(ctx, f)
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
// the action's status changes nothing. apply has locked the row: a late report has ended before ReopenDone looks, or finds the action failed (see EndLate).
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
		if _, err := tx.Exec(ctx, ReopenDone, cmd.Claim, cmd.LaneSeq); err != nil {
			return err
		}
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
