package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/jackc/pgx/v5"
)

// CommandStatus is what became of a command.
type CommandStatus struct {
	ID      int64              `json:"id"`
	Kind    ledger.CommandKind `json:"kind"`
	By      string             `json:"by"`
	Reason  string             `json:"reason"`
	AskedAt time.Time          `json:"asked_at"`
	EndedAt *time.Time         `json:"ended_at"` // null: not yet
	Outcome string             `json:"outcome"`
	Owner   string             `json:"-"` // owner of the partition, empty if it has none; only from Inbox.CommandStatus
}

// Ask writes a command, release or discard, about an item that waits in the gap buffer or is held; only a held one can be discarded.
// Kinds: Invalid if by or reason is empty, if the item no longer waits and is not held, or if discard is asked of one that is not held;
// Unavailable.
func (b *Inbox) Ask(ctx context.Context, item Item, kind ledger.CommandKind, by, reason string) (id int64, err error) {
	op := fmt.Sprintf("%s %s %s", kind, item.Source, item.EventID)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return 0, err
	}
	err = asking(ctx, b.look, op, ledger.AboutFences, []int32{item.Fence}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO commands (fence, kind, log_offset, event_key, entity, clock, asked_by, reason)
			SELECT fence, $3, log_offset, event_key, entity, clock, $4, $5 FROM buffer
			WHERE fence = $1 AND log_offset = $2 AND event_key = $6 AND (decision = 'held' OR $3 = 'release') RETURNING id`,
			item.Fence, item.Offset, string(kind), ledger.Clean(by, 200), ledger.Clean(reason, 1000), [16]byte(item.Pointer.Key)).Scan(&id)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, schemas.Errorf(schemas.Invalid, op, "it was read as %s (%s): only what still waits or is held can be released, and only what is held discarded",
			item.Decision, item.Reason)
	case err != nil:
		return 0, ledger.Unavailable(op, err)
	}
	return id, nil
}

// CommandStatus returns what became of a command. Kinds: NotFound if no command has that id, Unavailable.
func (b *Inbox) CommandStatus(ctx context.Context, id int64) (s CommandStatus, err error) {
	op := fmt.Sprintf("read command %d", id)
	err = b.look.QueryRow(ctx, `SELECT c.id, c.kind, c.asked_by, c.reason, c.asked_at, c.ended_at, coalesce(c.outcome, ''),
		CASE WHEN f.released THEN '' ELSE f.owner END FROM commands c JOIN fences f ON f.id = c.fence WHERE c.id = $1`, id).
		Scan(&s.ID, &s.Kind, &s.By, &s.Reason, &s.AskedAt, &s.EndedAt, &s.Outcome, &s.Owner)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, schemas.Errorf(schemas.NotFound, op, "there is none")
	case err != nil:
		return s, ledger.Unavailable(op, err)
	}
	return s, nil
}

// ActionRef names an action in the ledger, by Fence and LaneSeq. Status is filled in by FindAction only.
type ActionRef struct {
	Fence   int32
	LaneSeq int64
	Status  ledger.Status
}

// FindAction finds the row of an action by its id. Kinds: NotFound if it has no row (most actions that succeeded at their first attempt
// have none), Invalid if that is no action's id, Unavailable.
func (b *Inbox) FindAction(ctx context.Context, id schemas.ActionID) (ref ActionRef, err error) {
	op := fmt.Sprintf("find action %s", ledger.Clean(string(id), 64))
	hash, ok := id.Hash()
	if !ok {
		return ref, schemas.Errorf(schemas.Invalid, op, "it is no id of an action: act_ and 26 characters")
	}
	ref, err = b.findAction(ctx, nil, hash)
	switch {
	case err != nil:
		return ref, ledger.Unavailable(op, err)
	case ref == ActionRef{}:
		return ref, schemas.Errorf(schemas.NotFound, op, "no action of that id is dead, unknown or under way")
	}
	return ref, nil
}

// The two ways to find an action: by one probe of actions_w*_id per window, and among the dead letters that never had an attempt, whose rows
// have no id. The second goes over all of these: it is asked as lists are, so that who asks for what is not there holds up no probe.
const (
	actionByID = `-- actionByID
SELECT fence, lane_seq, status FROM {actions} a WHERE action_id = $1 LIMIT 1`
	actionOfDead = `-- actionOfDead
SELECT a.fence, a.lane_seq, a.status FROM {actions} a JOIN fences f ON f.id = a.fence JOIN subscriptions s ON s.id = f.subscription
    JOIN effects x ON x.id = a.effect JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
    WHERE a.status IN ('dead_letter', 'unknown') AND a.action_id IS NULL
      AND action_id(s.name, coalesce(e.replay, s.generation), e.source, e.event_id, x.name) = $1 LIMIT 1`
)

// findAction finds the row of an action among those of some teams, or of all where teams is nil. It returns the zero ActionRef if there is none.
func (b *Inbox) findAction(ctx context.Context, teams []string, hash [16]byte) (ref ActionRef, err error) {
	for _, way := range []struct {
		sql  string
		pool pool
	}{{actionByID, b.look}, {actionOfDead, b.slow}} {
		err = b.inTeams(ctx, teams, func(of scope) error {
			if ref != (ActionRef{}) {
				return nil
			}
			err := way.pool.QueryRow(ctx, of.sql(way.sql), hash).Scan(&ref.Fence, &ref.LaneSeq, &ref.Status)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		if err != nil || ref != (ActionRef{}) {
			break
		}
	}
	return ref, err
}

// AskAction writes a command about an action: replay, discard or resolve. The owner of its partition applies it, now or later. Kinds:
// NotFound if the action has no row, Conflict if it is neither dead nor unknown, nor a stale one that is forced, or has an open command already, Invalid if by or reason
// is empty, id is no action's, or the command is none of the three or lacks what it needs; Unavailable.
func (b *Inbox) AskAction(ctx context.Context, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (command int64, err error) {
	op := fmt.Sprintf("%s action %s", kind, ledger.Clean(string(id), 64))
	ref, err := b.askable(ctx, op, id, kind, d, by, reason)
	if err != nil {
		return 0, err
	}
	err = b.ledger.InWindowsOf(ctx, b.look, ref.Fence, func(windows []int32) error {
		return asking(ctx, b.look, op, ledger.AboutFences, []int32{ref.Fence}, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, ledger.OfWindows(windows, `INSERT INTO commands (fence, kind, lane_seq, event_key, entity, clock, asked_by, reason, detail)
				SELECT a.fence, $3, a.lane_seq, a.event_key, e.entity, e.clock, $4, $5, $6 FROM {actions} a
				JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
				WHERE a.fence = $1 AND a.lane_seq = $2
				ON CONFLICT (fence, lane_seq) WHERE lane_seq IS NOT NULL AND ended_at IS NULL DO NOTHING RETURNING id`),
				ref.Fence, ref.LaneSeq, string(kind), ledger.Clean(by, 200), ledger.Clean(reason, 1000), d).Scan(&command)
		})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, schemas.Errorf(schemas.Conflict, op, "it has a command already that the owner of its partition has not applied yet")
	case err != nil:
		return 0, ledger.Unavailable(op, err)
	}
	return command, nil
}

// EndAbandoned is AskAction for a discard or a resolve in a partition that nobody is to claim any more: it is carried out at once. Where an owner
// may live still, the command is 0, and nothing was done.
func (b *Inbox) EndAbandoned(ctx context.Context, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (command int64, err error) {
	ref, err := b.askable(ctx, fmt.Sprintf("%s action %s", kind, ledger.Clean(string(id), 64)), id, kind, d, by, reason)
	if err != nil {
		return 0, err
	}
	return b.ledger.EndAbandoned(ctx, ledger.Command{Claim: ref.Fence, LaneSeq: ref.LaneSeq, Kind: kind, Detail: d, By: by, Reason: reason})
}

// askable finds an action of which a command may be asked, or says why not.
func (b *Inbox) askable(ctx context.Context, op string, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (ref ActionRef, err error) {
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return ref, err
	}
	switch {
	case kind != ledger.Replay && kind != ledger.Discard && kind != ledger.Resolve && kind != ledger.AskGuards:
		return ref, schemas.Errorf(schemas.Invalid, op, "an action can only be replayed, discarded or resolved")
	case kind == ledger.Resolve && d.Status != ledger.Done:
		return ref, schemas.Errorf(schemas.Invalid, op, "an action can be resolved as done only, not as %q", d.Status)
	}
	if ref, err = b.FindAction(ctx, id); err != nil {
		return ref, err
	}
	return ref, mayAsk(op, ref.Status, kind, d)
}

// RanAgain lists who has had an action run again: by a replay of the dead letter, and by one of its event.
func (b *Inbox) RanAgain(ctx context.Context, id schemas.ActionID) (names []string, err error) {
	ref, err := b.FindAction(ctx, id)
	if err != nil {
		return nil, err
	}
	err = b.ledger.InWindowsOf(ctx, b.look, ref.Fence, func(windows []int32) error {
		rows, err := b.look.Query(ctx, ledger.OfWindows(windows, `SELECT asked_by FROM commands WHERE fence = $1 AND lane_seq = $2 AND kind = 'replay'
			UNION SELECT r.started_by FROM {actions} a JOIN {events} e ON e.window_id = a.event_window AND e.event_key = a.event_key
			JOIN fences f ON f.id = a.fence JOIN replays r ON r.subscription = f.subscription AND coalesce(r.was, r.id) = e.replay
			WHERE a.fence = $1 AND a.lane_seq = $2 AND r.started_by IS NOT NULL`), ref.Fence, ref.LaneSeq)
		if err == nil {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		return nil, ledger.Unavailable("read who has had an action run again", err)
	}
	return names, nil
}

// mayAsk refuses a command that an action with this status cannot have: with kind Conflict if it is neither dead nor unknown (one that is
// stale because it was overtaken can be forced), with
// Invalid if it is to be replayed, its outcome is unknown, and the command does not say that this is known.
func mayAsk(op string, status ledger.Status, kind ledger.CommandKind, d ledger.CommandDetail) error {
	switch {
	case status == ledger.Stale && kind == ledger.Replay && d.Force, kind == ledger.AskGuards && status.Waits():
		return nil
	case status == ledger.Stale && kind == ledger.Replay:
		return schemas.Errorf(schemas.Conflict, op, "it is stale: its entity had a newer version before it was to run again; --force runs it all the same")
	case status != ledger.Dead && status != ledger.Unknown:
		return schemas.Errorf(schemas.Conflict, op, "it is %s: only an action that is dead_letter or unknown can be replayed, discarded or resolved", status)
	case kind == ledger.Replay && status == ledger.Unknown && !d.OutcomeUnknown:
		return schemas.Errorf(schemas.Invalid, op, "its outcome is unknown: run again it may be done twice; say that this is known (--outcome-unknown), or resolve it")
	}
	return nil
}

// MayAsk returns the error that AskAction would return for the status and the open command of a dead letter as it was read; nil if
// these two allow the command.
func MayAsk(dead DeadLetter, kind ledger.CommandKind, d ledger.CommandDetail) error {
	if dead.HasCommand {
		return schemas.Errorf(schemas.Conflict, fmt.Sprintf("%s action %s", kind, dead.ID), "it has a command already")
	}
	return mayAsk(fmt.Sprintf("%s action %s", kind, dead.ID), dead.Status, kind, d)
}
