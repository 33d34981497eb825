package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// command is a command of an operator, and its outcome.
type command struct {
	ledger.Command
	key         schemas.EventKey
	requestedAt time.Time
	ended       bool
	outcome     string
	epoch       int64
}

func (c *command) end(_ *Memory, outcome string, epoch int64) {
	c.ended, c.outcome, c.epoch = true, outcome, epoch
}

// command finds one by its id. The caller holds mu.
func (m *Memory) command(id int64) *command {
	if id < 1 || int(id) > len(m.commands) {
		return nil
	}
	return m.commands[id-1]
}

// Ask is inbox.Inbox.Ask, about an event that waits or is held.
func (m *Memory) Ask(source, id string, kind ledger.CommandKind, by, reason string) (int64, error) {
	op := fmt.Sprintf("%s %s %s", kind, source, id)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return 0, err
	}
	m.mu.Lock()
	key := schemas.NewEventKey(source, id)
	for _, f := range m.fences {
		for offset, w := range f.waits {
			allowed := kind == ledger.Release || (w.held && kind == ledger.Discard)
			if w.Key == key && allowed {
				c := &command{Command: ledger.Command{Claim: f.id, Kind: kind, Offset: offset, VersionLine: w.line(), By: by, Reason: reason}, key: key}
				return m.keepCommand(c), nil
			}
		}
	}
	m.mu.Unlock()
	return 0, schemas.Errorf(schemas.Invalid, op, "only what waits or is held can be released, and only what is held discarded")
}

// keepCommand keeps a command and tells those who listen. It gives mu back.
func (m *Memory) keepCommand(c *command) int64 {
	c.ID, c.requestedAt = int64(len(m.commands)+1), m.now()
	m.commands = append(m.commands, c)
	m.tellListeners()
	return c.ID
}

// tellListeners gives mu back and tells those who listen.
func (m *Memory) tellListeners() {
	var listeners []func()
	for _, notify := range m.listeners {
		listeners = append(listeners, notify)
	}
	m.mu.Unlock()
	for _, notify := range listeners {
		notify()
	}
}

// Listen is [ledger.Namespace.Listen].
func (p *Process) Listen(notify func()) (stop func()) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listener++
	id := m.listener
	m.listeners[id] = func() {
		m.mu.Lock()
		deaf := p.killed || p.frozen || m.listeners[id] == nil
		m.mu.Unlock()
		if !deaf {
			notify()
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listeners, id)
	}
}

// Commands is [ledger.Namespace.Commands].
func (p *Process) Commands(ctx context.Context, claims []*ledger.Claim, after int64) (list []ledger.Command, err error) {
	ids := idsOf(claims)
	err = p.read(ctx, "commands", func() error {
		for _, f := range p.m.fences {
			if r := f.seekRequest(f.partition.TopicID); r != nil && after == 0 && slices.Contains(ids, f.id) {
				list = append(list, ledger.Command{Claim: f.id, Kind: ledger.SeekTo, Offset: r.To, By: r.By, Reason: r.Reason})
			}
		}
		limit := len(list) + ledger.MaxCommands
		for _, c := range p.m.commands {
			if !c.ended && c.ID > after && slices.Contains(ids, c.Claim) && len(list) < limit {
				list = append(list, c.Command)
			}
		}
		return nil
	})
	if err != nil {
		return nil, unavailable("read the commands for "+p.spec.Name, err)
	}
	return list, nil
}

// AskAction is inbox.Inbox.AskAction.
func (m *Memory) AskAction(id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (int64, error) {
	op := fmt.Sprintf("%s action %s", kind, id)
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return 0, err
	}
	switch {
	case kind != ledger.Replay && kind != ledger.Discard && kind != ledger.Resolve:
		return 0, schemas.Errorf(schemas.Invalid, op, "an action can only be replayed, discarded or resolved")
	case kind == ledger.Resolve && d.Status != ledger.Done:
		return 0, schemas.Errorf(schemas.Invalid, op, "an action can be resolved as done only, not as %q", d.Status)
	}
	m.mu.Lock()
	f, a := m.find(id)
	err := mayAsk(op, a, kind, d)
	if err == nil && slices.ContainsFunc(m.commands, func(c *command) bool { return !c.ended && c.Claim == f.id && c.LaneSeq == a.laneSeq }) {
		err = schemas.Errorf(schemas.Conflict, op, "it has a command already that the owner of its partition has not applied yet")
	}
	if err != nil {
		m.mu.Unlock()
		return 0, err
	}
	return m.keepCommand(&command{
		Command: ledger.Command{Claim: f.id, Kind: kind, LaneSeq: a.laneSeq, Detail: d, By: by, Reason: reason,
			VersionLine: gate.VersionLineKey{Entity: a.event.Entity, Clock: a.event.version.Clock}},
		key: a.event.Key,
	}), nil
}

// find finds an action that has a row by its id.
func (m *Memory) find(id schemas.ActionID) (*fence, *action) {
	for _, f := range m.fences {
		for _, a := range f.actions {
			known := a.identified || a.status == ledger.Dead || a.status == ledger.Unknown
			if a.withRow && known && schemas.NewActionID(m.name, m.generation, a.event.Source, a.event.ID, a.effect.Name) == id {
				return f, a
			}
		}
	}
	return nil, nil
}

// mayAsk refuses a command about an action that it cannot be given for.
func mayAsk(op string, a *action, kind ledger.CommandKind, d ledger.CommandDetail) error {
	switch {
	case a == nil:
		return schemas.Errorf(schemas.NotFound, op, "no action of that id is dead, unknown or under way")
	case a.status == ledger.Stale && kind == ledger.Replay && d.Force:
	case a.status == ledger.Stale && kind == ledger.Replay:
		return schemas.Errorf(schemas.Conflict, op, "it is stale: forced it runs all the same")
	case a.status != ledger.Dead && a.status != ledger.Unknown:
		return schemas.Errorf(schemas.Conflict, op, "it is %s: only an action that is dead_letter or unknown can be replayed, discarded or resolved", a.status)
	case kind == ledger.Replay && a.status == ledger.Unknown && !d.OutcomeUnknown:
		return schemas.Errorf(schemas.Invalid, op, "its outcome is unknown: run again it may be done twice")
	}
	return nil
}

// ApplyLaneCommand is [ledger.Namespace.ApplyLaneCommand].
func (p *Process) ApplyLaneCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (o ledger.CommandResult, err error) {
	op := fmt.Sprintf("apply command %d of %s", cmd.ID, p.spec.Name)
	if c == nil || c.ID != cmd.Claim || cmd.LaneSeq == 0 {
		return o, schemas.Errorf(schemas.Invalid, op, "no claim of its action")
	}
	err = p.untilDone(ctx, "lanecommand", shared, []int32{c.ID}, 0, func() error {
		o = ledger.CommandResult{}
		return p.applyLaneCommand(&o, c, cmd)
	})
	if err != nil {
		return o, &schemas.Error{Kind: kindOf(err), Op: op, Err: err}
	}
	return o, nil
}

func (p *Process) applyLaneCommand(o *ledger.CommandResult, c *ledger.Claim, cmd ledger.Command) error {
	f := p.m.fenceOf(c)
	if o.Fenced = f == nil; o.Fenced {
		return nil
	}
	a := f.actions[cmd.LaneSeq]
	if a != nil && a.withRow {
		o.Status = a.status
	}
	known := p.m.command(cmd.ID)
	switch {
	case known == nil:
		return badData{fmt.Errorf("there is no command %d", cmd.ID)}
	case known.ended:
		o.Outcome = known.outcome
		return nil
	}
	p.change(o, a, cmd)
	known.end(p.m, o.Outcome, c.Epoch)
	return nil
}

// change brings the action's row to what is asked.
func (p *Process) change(o *ledger.CommandResult, a *action, cmd ledger.Command) {
	was, now := o.Status, p.m.now()
	switch {
	case was == ledger.Stale && cmd.Kind == ledger.Replay && cmd.Detail.Force:
	case cmd.Kind == ledger.AskGuards && was.Waits():
		o.Outcome = ledger.AskedAgain
		return
	case was != ledger.Dead && was != ledger.Unknown:
		if was == "" {
			was = "done or has not been tried yet"
		}
		o.Outcome = fmt.Sprintf("nothing to do: it is %s", was)
		return
	case cmd.Kind == ledger.Replay && was == ledger.Unknown && !cmd.Detail.OutcomeUnknown:
		o.Outcome = "refused: its outcome is unknown by now, so that it may be done twice"
		return
	}
	died := int32(0)
	if was == ledger.Dead {
		died = 1
	}
	switch cmd.Kind {
	case ledger.Replay:
		o.Status, o.Outcome = ledger.Failed, ledger.RunsAgain
		a.forced = cmd.Detail.Force || a.parks()
		a.status, a.next, a.finished, a.replayed, a.spent = ledger.Failed, now, zero, now, a.attempts
		a.deaths, a.twice = a.deaths+died, cmd.Detail.OutcomeUnknown
		for i := range a.attemptRows {
			a.attemptRows[i].anew = false
		}
		p.m.reopenDone(ledger.AttemptRef{Fence: cmd.Claim, LaneSeq: cmd.LaneSeq})
		return
	case ledger.Discard:
		o.Status, o.Outcome = ledger.Discarded, "given up"
	case ledger.Resolve:
		o.Status, o.Outcome = ledger.Done, "resolved as done"
	default:
		o.Outcome = fmt.Sprintf("refused: an action can only be replayed, discarded or resolved, and this is %s", cmd.Kind)
		return
	}
	exported := a.exported >= a.deaths+died
	a.status, a.finished, a.deaths = o.Status, now, a.deaths+died
	if exported {
		a.packed = nil
	}
}
