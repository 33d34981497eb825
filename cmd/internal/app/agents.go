package app

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/callback"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// longPolicy returns the policy of a destination that may report the result of an action later; the zero policy if it may not.
func longPolicy(l *config.Long) lane.LongPolicy {
	if l == nil {
		return lane.LongPolicy{}
	}
	return lane.LongPolicy{Deadline: l.Deadline.Std(), Heartbeat: l.Heartbeat.Std(), Most: l.Concurrency}
}

// later returns the function that makes the URL and the token with which a destination can report the result of an attempt in the ledger of later; nil
// if the configuration has no listener for such reports.
func later(c *config.Config, keys *callback.Keys, of [16]byte) func(ledger.AttemptRef, schemas.ActionID, trace.Place) sink.Later {
	if c.Listen.Agents == "" || c.Agents.PublicURL == "" {
		return nil
	}
	return func(r ledger.AttemptRef, id schemas.ActionID, span trace.Place) sink.Later {
		return sink.Later{URL: c.Agents.PublicURL + "/v1/actions/" + url.PathEscape(string(id)), Token: keys.Action(of, r, id, span)}
	}
}

// statusURL returns the function that makes the URL at which a sender can ask what became of its event; nil if there is no public URL
// for that. The URL has a token that allows to read this one event and nothing else.
func statusURL(c *config.Config, keys *callback.Keys) func(team, source, id string) string {
	if c.Agents.PublicURL == "" {
		return nil
	}
	return func(team, source, id string) string {
		return c.Agents.PublicURL + "/v1/events/" + url.PathEscape(team) + "/" + url.PathEscape(source) + "/" + url.PathEscape(id) +
			"?token=" + keys.Event(team, source, id)
	}
}

// bindAgents binds the listener for agents, if this process has the stream role and the configuration has an address for it.
func (a *App) bindAgents() error {
	if a.stream == nil || a.file().Listen.Agents == "" {
		return nil
	}
	handler, err := callback.New(callback.Config{
		Keys: a.agentKeys, Ledger: reportLedger{a.stream}, Tracer: a.telemetry.tracer, Logger: a.log, Registerer: a.registry,
	})
	if err == nil {
		a.agents, err = a.listen("agents", a.file().Listen.Agents, handler)
	}
	if err == nil {
		limits := a.limits(agentsShare)
		a.door(a.agents, limits, false)
		a.lessThanWanted(a.agents, limits)
	}
	return err
}

// stopAgents waits up to two seconds for requests in flight. Those that are cut off can be sent to another process.
func (a *App) stopAgents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a.agents.shutdown(ctx)
}

// reportLedger stores the reports of agents in the ledger and answers their questions from it.
type reportLedger struct{ s *streams }

var _ callback.Ledger = reportLedger{}

// ID implements [callback.Ledger].
func (d reportLedger) ID() (id [16]byte, err error) {
	l, err := d.s.openLedger()
	if err != nil {
		return id, err
	}
	return l.ID(), nil
}

func (d reportLedger) Report(ctx context.Context, r ledger.Report) (reports.State, error) {
	l, err := d.s.openLedger()
	if err != nil {
		return "", err
	}
	return reports.New(l).Report(ctx, r)
}

func (d reportLedger) Beat(ctx context.Context, r ledger.AttemptRef) (bool, error) {
	l, err := d.s.openLedger()
	if err != nil {
		return false, err
	}
	return reports.New(l).Beat(ctx, r)
}

func (d reportLedger) ActionState(ctx context.Context, r ledger.AttemptRef) (reports.ActionState, error) {
	ingest.Known(ctx) // its token holds, or nobody would ask
	l, err := d.s.openLedger()
	if err != nil {
		return reports.ActionState{}, err
	}
	return reports.New(l).ActionState(ctx, r)
}

// Event returns what became of an event in every subscription of its source that is of the source's team: who else reads it is not the
// sender's to know. Its status is the one of the subscription in which it is farthest from done, among those that have it (one that began later
// never will); received, if none has. Those whose ledger is another process's are named, and nothing is said of them.
func (d reportLedger) Event(ctx context.Context, team, source, id string) (callback.EventItem, error) {
	ingest.Known(ctx) // likewise
	out := callback.EventItem{Team: team, Source: source, ID: id, Status: "received", Subscriptions: []callback.EventInItem{}}
	l, err := d.s.openLedger()
	if err != nil {
		return out, err
	}
	t := d.s.a.file().Teams[team]
	if t == nil {
		return out, nil
	}
	worst, here := -1, false // rank of out.Status in fromDone; whether one of the subscriptions has this ledger
	for _, name := range sortedKeys(t.Subscriptions) {
		if !slices.ContainsFunc(d.s.a.file().SourcesOf(team, name), func(s config.NamedSource) bool { return s.Team == team && s.Name == source }) {
			continue
		}
		if !d.s.a.file().HasLedger(team, name) {
			out.Elsewhere = append(out.Elsewhere, name)
			continue
		}
		here = true
		item, err := inbox.New(l).Item(ctx, team, name, fullSource(team, source), id)
		if schemas.KindOf(err) == schemas.NotFound {
			continue
		}
		if err != nil {
			return out, err
		}
		out.Subscriptions = append(out.Subscriptions, eventIn(name, &item))
		if rank := slices.Index(fromDone, item.Status); rank > worst || len(out.Subscriptions) == 1 {
			worst, out.Status = rank, item.Status
		}
	}
	if !here && len(out.Elsewhere) > 0 {
		return out, callback.Misdirected("the ledger of %s, which read this source, is not this process's: ask the process that runs them", strings.Join(out.Elsewhere, ", "))
	}
	return out, nil
}

// fromDone has the statuses of an event, the farther from done the later. Statuses that are not in it are final, like done.
var fromDone = []string{"done", "buffered", "received", "processing", "failed", "waiting_budget", "waiting_approval", "parked", "unknown", "dead_letter"}

// eventIn returns what became of an event in a subscription, as the API has it.
func eventIn(subscription string, i *inbox.Item) callback.EventInItem {
	out := callback.EventInItem{Subscription: subscription, Status: i.Status, Decision: string(i.Decision), Reason: string(i.Reason), Actions: []callback.EventActionItem{}}
	for n := range i.Actions {
		a := &i.Actions[n]
		out.Actions = append(out.Actions, callback.EventActionItem{ID: string(a.ID), Name: a.Name, Status: string(a.Status), Attempts: a.Attempts})
	}
	return out
}
