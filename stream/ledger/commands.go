package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// CommandKind is what somebody asks a partition's owner to do.
type CommandKind string

const (
	// Release lets a held event run, or skips a gap for everything that waits on its version line.
	Release CommandKind = "release"
	// Discard gives up a held event, or an action that is dead or whose outcome is unknown.
	Discard CommandKind = "discard"
	// Replay lets an action run again that is dead or whose outcome is unknown, and what stands behind it go on in order.
	Replay CommandKind = "replay"
	// Resolve sets the outcome of an action whose outcome is unknown, or that somebody has done by hand.
	Resolve CommandKind = "resolve"
	// AskGuards has the guards of an action that waits for them asked at once.
	AskGuards CommandKind = "ask"
	// SeekTo has the owner claim its partition again, because a seek is asked for: the claim carries it out. It has no ID.
	SeekTo CommandKind = "seek"
)

// Command is one such request, for the owner.
type Command struct {
	ID          int64
	Claim       int32 `db:"fence"`
	Kind        CommandKind
	Offset      int64               `db:"log_offset"` // of the event in the gap buffer
	VersionLine gate.VersionLineKey `db:"-"`
	// LaneSeq is that of the action that the command is about; 0: it is about an event in the gap buffer.
	LaneSeq int64
	Detail  CommandDetail
	By      string `db:"asked_by"`
	Reason  string
}

// MaxCommands is how many commands are read at once, those of kind SeekTo aside.
const MaxCommands = 100

// commandRow is a row of the query of Commands.
type commandRow struct {
	Command
	Entity schemas.EntityKey
	Clock  string
}

// Listen calls notify whenever a command was written for the namespace's subscription, and after every reconnection, until stop is called;
// after stop it is not called any more. notify must not wait. A notification is a hint: commands are to be looked for as well.
func (n *Namespace) Listen(notify func()) (stop func()) {
	return n.ledger.commandListeners.Add(strconv.Itoa(int(n.id)), notify)
}

// Commands reads the commands for the owner of claims, oldest first, at most MaxCommands with an ID above after. With after 0 it also reads
// of which of the claims a seek is asked.
func (n *Namespace) Commands(ctx context.Context, claims []*Claim, after int64) ([]Command, error) {
	rows, err := n.ledger.hot.Query(ctx, `-- commands: one look into commands_open and into seek_requests_open per fence
(SELECT c.id, c.fence, c.kind, coalesce(c.log_offset, 0) AS log_offset, c.entity, c.clock, c.asked_by, c.reason, coalesce(c.lane_seq, 0) AS lane_seq, coalesce(c.detail, '{}') AS detail FROM commands c
WHERE c.fence = ANY ($1) AND c.ended_at IS NULL AND c.id > $2 ORDER BY c.id LIMIT $3)
UNION ALL SELECT 0, r.fence, 'seek', r.to_offset, '', '', r.asked_by, r.reason, 0, '{}' FROM seek_requests r
WHERE $2 = 0 AND r.fence = ANY ($1) AND r.ended_at IS NULL ORDER BY id`, idsOf(claims), after, MaxCommands)
	var list []Command
	if err == nil {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Command, error) {
			r, err := pgx.RowToStructByName[commandRow](row)
			r.VersionLine = gate.VersionLineKey{Entity: r.Entity, Clock: r.Clock}
			return r.Command, err
		})
	}
	return list, pg.Unavailable("read the commands for "+n.spec.Name, err)
}

// ApplyCommand carries out a command about an event and stores its outcome, in one transaction under the fence. Errors and results are as
// those of Apply. If the event no longer waits, the outcome says so.
func (n *Namespace) ApplyCommand(ctx context.Context, c *Claim, cmd Command) (Applied, error) {
	op := fmt.Sprintf("apply command %d of %s", cmd.ID, n.spec.Name)
	if c == nil || c.cache == nil || c.ID != cmd.Claim || cmd.LaneSeq != 0 {
		return Applied{}, schemas.Errorf(schemas.Invalid, op, "no claim of its partition")
	}
	return batchWriter{n}.applyOne(ctx, &partitionBatch{Slice: Slice{Claim: c}, expire: true, command: &cmd}, op)
}

// decideCommand has the gate carry out a command: release lets a held event run, or all that waits on the version line of another one;
// discard gives a held event up. Nothing happens if the command has ended, its event is not there any more, or an event that is not held
// is to be discarded.
func (w *partitionBatch) decideCommand(policy gate.Policy) {
	if w.commandEvent == nil {
		return
	}
	release := w.command.Kind == Release
	switch held := w.isAboutHeld(); {
	case held && release:
		w.applied.Outcomes = []gate.Outcome{gate.Redrive(w.state, w.commandEvent)}
	case held:
		w.applied.Outcomes = []gate.Outcome{gate.Discard(w.commandEvent)}
	case release:
		w.applied.Outcomes = gate.Release(w.state, w.keys, policy)
	}
}

// isAboutHeld reports whether the batch is a command about a held event.
func (w *partitionBatch) isAboutHeld() bool {
	return w.commandEvent != nil && w.commandEvent.Decision == rowHeld
}

// endCommand queues the end of the command that the batch is, if it is one. A release that has let go as many events as one transaction may,
// and left others, stays open: from then on it is about the last event that waits there, and it is applied again.
func (t *batchTx) endCommand(ctx context.Context, w *partitionBatch) error {
	if w.command == nil || w.fenced {
		return nil
	}
	id, step, did := pg.Int64Param(w.command.ID), pg.Int32Param(int32(w.command.Detail.Of)), w.command.Detail.After(w.applied.Outcomes)
	if left := w.waiting(w.command.VersionLine); len(left) > 0 && w.commandEvent != nil && !w.isAboutHeld() && w.command.Kind == Release {
		last := &left[len(left)-1]
		detail, err := json.Marshal(did)
		return errors.Join(err, t.p.Add(ctx, commandGoesOn, nil, id, step, pg.Int64Param(last.Offset), last.Key[:], detail))
	}
	end := commandEnd
	if w.commandEvent != nil {
		end = commandEndOfOpen
	}
	return t.p.Add(ctx, end, nil, id, step, []byte(did.Outcome(len(w.applied.Outcomes))), pg.Int64Param(w.Claim.Epoch))
}

// After returns d with the outcomes of one more step.
func (d CommandDetail) After(step []gate.Outcome) CommandDetail {
	for _, o := range step {
		if d.Of++; o.Decision.Runs() {
			d.Ran++
		}
	}
	return d
}

// Outcome returns what operators see of a command about waiting or held events, whose last step has found as many as last: how many it has
// found, and how many of them run. Where the last step has found none, another command or the gate has dealt with them before.
func (d CommandDetail) Outcome(last int) string {
	switch {
	case d.Of == 0:
		return "nothing waits there any more"
	case last == 0:
		return fmt.Sprintf("%d of %d events run, and those that followed them", d.Ran, d.Of)
	}
	return fmt.Sprintf("%d of %d events run", d.Ran, d.Of)
}

var (
	// aboutRead reads the event that a command is about. Of a command that has ended, or has gone on, it finds nothing: applying it twice
	// does nothing.
	aboutRead = pg.NewFresh(`-- aboutRead
SELECT ` + waitingColumns + ` FROM commands c JOIN buffer b ON b.fence = c.fence AND b.log_offset = c.log_offset AND b.event_key = c.event_key
WHERE c.id = $1 AND ` + atStep("$2"))

	commandEnd = pg.NewFresh(commandEndWrite)

	// commandEndOfOpen ends a command that aboutRead has found. It fails if the command has ended meanwhile.
	commandEndOfOpen = pg.NewCounted(commandEndWrite, "ARRAY[$1]").Planned()

	// commandGoesOn has a release go on in another transaction: with the event $3, $4.
	commandGoesOn = pg.NewCounted(`-- commandGoesOn
UPDATE commands SET log_offset = $3, event_key = $4, detail = $5::text::jsonb WHERE id = $1 AND `+atStep("$2"), "ARRAY[$1]").Planned()
)

// atStep is true for an open command whose steps have found as many events as of says; see CommandDetail.Of.
func atStep(of string) string {
	return `ended_at IS NULL AND coalesce((detail->>'of')::int, 0) = ` + of
}

var commandEndWrite = `-- commandEnd
UPDATE commands SET ended_at = now(), outcome = $3, epoch = $4 WHERE id = $1 AND ` + atStep("$2")
