package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/replay"
)

const (
	countWithin    = 8 * time.Second // how long one question counts on in a plan
	earlierReplays = 50              // of the subscription that a plan is compared with
)

// replaysAPI plans and starts replays. The owners of the partitions run them, in whatever process.
type replaysAPI struct{ *inboxAPI }

// decides returns a digest of what decides about a subscription's events, and what it does for them.
func decides(c *config.Config, at nameInTeam) string {
	spec, sub := specOf(c, at), subscriptionIn(c, at)
	var whens []string
	for _, a := range sub.Actions {
		whens = append(whens, a.When)
	}
	text, err := json.Marshal(struct {
		Types   []string
		Match   string
		Also    *config.Also
		Whens   []string
		Policy  gate.Policy
		Actions []ledger.ActionSpec
		Latest  bool
		MaxAge  time.Duration
	}{sub.Types, sub.Match, sub.Dedupe.Also, whens, spec.Policy, spec.Actions, spec.Latest, spec.MaxAge})
	if err != nil {
		panic(err) // no value of these types fails
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// subscriptionOf returns a subscription's part of the file and of the ledger.
func (a *replaysAPI) subscriptionOf(at nameInTeam) (*config.Subscription, *ledger.Namespace, error) {
	team := a.s.a.file().Teams[at.team]
	if team == nil || team.Subscriptions[at.name] == nil {
		return nil, nil, schemas.Errorf(schemas.NotFound, "", "no subscription %s.%s is configured; `forebay subscriptions list -o id` lists them", at.team, at.name)
	}
	if err := a.s.a.here(at); err != nil {
		return nil, nil, err
	}
	if !a.s.a.file().Runs(at.team, at.name) {
		return nil, nil, schemas.Errorf(schemas.Conflict, "", "this process does not run %s.%s, by its --subscriptions: ask one that does, by --url", at.team, at.name)
	}
	if why := a.s.barred(at); why != "" {
		return nil, nil, schemas.Errorf(schemas.Conflict, "", "%s.%s does not run: %s; `forebay attention --kind %s` lists what to do", at.team, at.name, why, api.KindBarred)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	ns := a.s.spaces[at]
	if ns == nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, "", "subscription %s.%s has not started in this process yet; /readyz says why", at.team, at.name)
	}
	return team.Subscriptions[at.name], ns, nil
}

// withLog runs f with what asks the log of a subscription.
func (a *replaysAPI) withLog(at nameInTeam, f func(log *reader.Log, cfg reader.Config) error) error {
	cfg := a.s.readerConfig(at)
	options, err := reader.ClientOptions(cfg)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(reader.NewLog(client), cfg)
}

// readerConfig returns the configuration of a reader of a subscription's topics.
func (s *streams) readerConfig(at nameInTeam) reader.Config {
	file := s.a.file()
	match, err := policy.Select(subscriptionIn(file, at).Match, "")
	if err != nil {
		panic(err) // config.Load has checked it
	}
	return reader.Config{Select: match, Client: KafkaOptions(file, config.RoleStream), Filter: reader.Globs(subscriptionIn(file, at).Types), BatchRecords: 1000, BatchBytes: 16 << 20,
		MaxRecordBytes: s.recordBytes(), OnError: func(error) {}}
}

// PlanReplay implements [api.Replays].
func (a *replaysAPI) PlanReplay(ctx context.Context, r api.ReplayPlan) (*api.ReplayItem, error) {
	at := nameInTeam{r.Team, r.Subscription}
	op := fmt.Sprintf("plan a replay of %s.%s", at.team, at.name)
	box, _, err := a.open()
	if err != nil {
		return nil, err
	}
	sub, _, err := a.subscriptionOf(at)
	if err != nil {
		return nil, err
	}
	if err := checkPlan(op, r); err != nil {
		return nil, err
	}
	q, filter, err := a.query(op, at, sub, r)
	if err != nil {
		return nil, err
	}
	named, err := a.byName(ctx, op, at, r, &q, &filter)
	if err != nil {
		return nil, err
	}
	p := &inbox.Replay{Subscription: q.Subscription, Mode: ledger.ReplayMode(r.Mode), EvenStale: r.EvenStale, Filter: filter, Config: decides(a.s.a.file(), at), Rate: r.Rate, MaxErrors: r.MaxErrors, PlannedBy: cmp.Or(r.By, "unknown")}
	positions, err := box.Positions(ctx, q.Subscription)
	if err != nil {
		return nil, err
	}
	err = a.withLog(at, func(log *reader.Log, _ reader.Config) (err error) {
		p.Bounds, err = replay.Bounds(ctx, log, positions, q)
		return err
	})
	if err == nil {
		err = checkNamed(op, named, p.Bounds)
	}
	if err == nil {
		err = box.CheckRemembered(ctx, q.Subscription, p.Bounds, replay.Skew)
	}
	if err != nil {
		return nil, err
	}
	id, err := box.SaveReplay(ctx, p)
	if err != nil {
		return nil, err
	}
	return a.CountReplay(ctx, id)
}

// checkPlan refuses what is nothing to plan.
func checkPlan(op string, r api.ReplayPlan) error {
	switch {
	case !slices.Contains([]ledger.ReplayMode{ledger.ReplayFill, ledger.ReplayReprocess, ledger.ReplayShadow}, ledger.ReplayMode(r.Mode)):
		return schemas.Errorf(schemas.Invalid, op, "mode %q is none of fill, reprocess, shadow", r.Mode)
	case r.EvenStale && r.Mode == string(ledger.ReplayFill):
		return schemas.Errorf(schemas.Invalid, op, "fill never runs older snapshots: leave --even-stale out, or use --mode reprocess or shadow")
	case r.Rate < 0 || r.MaxErrors < 0:
		return schemas.Errorf(schemas.Invalid, op, "rate %d or max_errors %d is negative", r.Rate, r.MaxErrors)
	case len(r.Offsets) > 0 && (r.Since != nil || r.Until != nil):
		return schemas.Errorf(schemas.Invalid, op, "a range is given by offsets or by time, not both")
	}
	return cmp.Or(checkDecisions(op, r), checkStatuses(op, r))
}

// decisionsOf are the decisions of what a mode is about.
func decisionsOf(mode string) []string {
	switch ledger.ReplayMode(mode) {
	case ledger.ReplayShadow:
		return append(decisions(), string(ledger.Undecided))
	case ledger.ReplayReprocess:
		return []string{string(gate.Applied), string(gate.Late), string(gate.Stale)}
	}
	return []string{string(ledger.Undecided), string(gate.Filtered), string(gate.Conflict), string(gate.Quarantined)}
}

// checkDecisions refuses a filter by decisions that the mode leaves out.
func checkDecisions(op string, r api.ReplayPlan) error {
	why := map[ledger.ReplayMode]string{ledger.ReplayFill: "what was decided otherwise is done, and fill leaves it out",
		ledger.ReplayShadow: "no record has another one", ledger.ReplayReprocess: "reprocess runs again what was decided; what never ran is for fill"}
	for _, d := range r.Decisions {
		if allowed := decisionsOf(r.Mode); !slices.Contains(allowed, d) {
			return schemas.Errorf(schemas.Invalid, op, "decision %q is none of %s: %s", d, strings.Join(allowed, ", "), why[ledger.ReplayMode(r.Mode)])
		}
	}
	return nil
}

// statusesFor are the statuses of what a mode is about. What runs again is at the end of its own run: what is not goes on by itself, or by what
// operators ask of it.
func statusesFor(mode string) []string {
	switch ledger.ReplayMode(mode) {
	case ledger.ReplayShadow:
		return inbox.Statuses()
	case ledger.ReplayReprocess:
		return ledger.EndedStatuses()
	}
	return []string{"filtered", "conflict", "quarantined", "discarded"}
}

// checkStatuses refuses a filter by statuses that the mode leaves out, and one that fits none of the decisions that are asked for.
func checkStatuses(op string, r api.ReplayPlan) error {
	for _, s := range r.Statuses {
		if allowed := statusesFor(r.Mode); !slices.Contains(allowed, s) {
			return schemas.Errorf(schemas.Invalid, op, "status %q is none of %s: %s", s, strings.Join(allowed, ", "), insteadOf(r.Mode, s))
		}
		if len(r.Decisions) > 0 && len(decisionsWith([]string{s}, r.Decisions)) == 0 {
			return schemas.Errorf(schemas.Invalid, op, "no event is %s that was decided %s: leave out one of the two", s, strings.Join(r.Decisions, ", "))
		}
	}
	if len(r.Statuses) == 0 {
		return nil
	}
	for _, d := range r.Decisions {
		switch {
		case d == string(ledger.Undecided):
			return schemas.Errorf(schemas.Invalid, op, "what was never decided has no status: plan --decision %s without --status", d)
		case len(decisionsWith(r.Statuses, []string{d})) == 0:
			return schemas.Errorf(schemas.Invalid, op, "no event that was decided %s is %s: leave out one of the two", d, strings.Join(r.Statuses, ", "))
		}
	}
	return nil
}

// insteadOf says what to do about events of a status that a mode leaves out.
func insteadOf(mode, status string) string {
	switch status {
	case "received", "pending", "processing", "failed":
		return "its run goes on by itself"
	case "waiting_approval":
		return "it runs once it is approved: `forebay approvals list`"
	case "waiting_budget":
		return "it runs once its budget has room again"
	case "dead_letter", "unknown":
		return "`forebay dlq replay` runs the event on under the ids that it has; after `forebay dlq discard` it is discarded, and can run again"
	case "buffered":
		return "the event runs once what it waits for is there; `forebay inbox redrive` has it run without that"
	case "parked":
		return "the event runs once what stands before it has: `forebay dlq replay` for a dead letter of its entity, `forebay inbox redrive` where it waits or is held"
	case "redriven":
		return "the record was produced again, and is an event since"
	}
	switch {
	case !slices.Contains(inbox.Statuses(), status):
		return "no event has another one"
	case mode == string(ledger.ReplayFill):
		return "fill runs what never ran; --mode reprocess runs again what did"
	}
	return "reprocess runs again what ran; what never did is for --mode fill"
}

// decisionsWith returns those of some decisions that an event with one of the statuses can have.
func decisionsWith(statuses, of []string) (list []string) {
	for _, d := range of {
		if slices.ContainsFunc(inbox.StatusesOf(gate.Decision(d)), func(s string) bool { return slices.Contains(statuses, s) }) {
			list = append(list, d)
		}
	}
	return list
}

// wantedDecisions are those that a plan is of: what it asks for or, of a mode that knows them, those that its statuses are of; none: of all.
func wantedDecisions(r api.ReplayPlan) []string {
	switch {
	case len(r.Decisions) > 0:
		return r.Decisions
	case len(r.Statuses) > 0 && r.Mode != string(ledger.ReplayShadow):
		return decisionsWith(r.Statuses, decisionsOf(r.Mode))
	case r.Mode == string(ledger.ReplayReprocess):
		return []string{string(gate.Applied), string(gate.Late)} // what ran
	}
	return nil
}

// wantedStatuses are those that a plan is of: what it asks for or, of what is to run again, those of an event that has run to its end: what has not
// would have its actions twice; none: of all.
func wantedStatuses(r api.ReplayPlan) []string {
	if len(r.Statuses) == 0 && r.Mode == string(ledger.ReplayReprocess) {
		return statusesFor(r.Mode)
	}
	return r.Statuses
}

// query returns which part of the log a plan is about, and its filter.
func (a *replaysAPI) query(op string, at nameInTeam, sub *config.Subscription, r api.ReplayPlan) (q replay.Query, filter ledger.ReplayFilter, err error) {
	q = replay.Query{Subscription: at.team + "." + at.name}
	filter = ledger.ReplayFilter{Types: r.Types, Entity: schemas.EntityKey(r.Entity), Statuses: wantedStatuses(r)}
	for _, d := range wantedDecisions(r) {
		filter.Decisions = append(filter.Decisions, gate.Decision(d))
	}
	sources := a.s.a.file().SourcesOf(at.team, at.name)
	for _, name := range r.Sources {
		i := slices.IndexFunc(sources, func(s config.NamedSource) bool {
			return s.Team+"/"+s.Name == name || s.Team == at.team && s.Name == name
		})
		if i < 0 {
			return q, filter, schemas.Errorf(schemas.NotFound, op, "source %s is none of the subscription's: %s", name, strings.Join(sub.Sources, ", "))
		}
		filter.Sources = append(filter.Sources, "/"+sources[i].Team+"/"+sources[i].Name)
	}
	for _, s := range sources {
		if (len(r.Sources) == 0 || slices.Contains(filter.Sources, "/"+s.Team+"/"+s.Name)) && !slices.Contains(q.Topics, s.Topic) {
			q.Topics = append(q.Topics, s.Topic)
		}
	}
	if r.Since != nil {
		q.Since = *r.Since
	}
	if r.Until != nil {
		q.Until = *r.Until
	}
	for _, o := range r.Offsets {
		if o.Topic == "" && len(q.Topics) == 1 {
			o.Topic = q.Topics[0]
		}
		if o.Topic == "" {
			return q, filter, schemas.Errorf(schemas.Invalid, op, "partition %d is of which topic? The subscription has %s", o.Partition, strings.Join(q.Topics, ", "))
		}
		if q.Offsets == nil {
			q.Offsets = map[reader.TopicPartition]replay.Offsets{}
		}
		bounds := replay.Offsets{From: -1, To: -1}
		if o.From != nil {
			bounds.From = *o.From
		}
		if o.To != nil {
			bounds.To = *o.To
		}
		q.Offsets[reader.TopicPartition{Topic: o.Topic, Number: o.Partition}] = bounds
	}
	return q, filter, nil
}

// CountReplay implements [api.Replays].
func (a *replaysAPI) CountReplay(ctx context.Context, id int64) (*api.ReplayItem, error) {
	box, p, err := a.replay(ctx, id)
	if err != nil || p.State() != inbox.ReplayCounting {
		return a.item(p), err
	}
	at := subscriptionOf(p.Subscription)
	_, ns, err := a.subscriptionOf(at)
	if err != nil {
		return nil, err
	}
	before, complete := p.Bounds, false
	var stuck error // what was counted until then is kept
	err = a.withLog(at, func(_ *reader.Log, cfg reader.Config) error {
		complete, stuck = replay.Count(ctx, cfg, ns, p, countWithin)
		return nil
	})
	if err == nil {
		err = a.refuseHole(ctx, box, at, p)
	}
	if err == nil && complete {
		err = a.refuseSlip(ctx, box, at, p)
	}
	if err == nil {
		err = box.CountReplay(ctx, p, before, complete)
	}
	switch {
	case err != nil || stuck == nil:
	case errors.Is(stuck, kerr.OffsetOutOfRange): // retention has overtaken the plan
		err = schemas.Errorf(schemas.KindOf(stuck), "", "%w; plan it again", stuck)
	default:
		err = schemas.Errorf(schemas.KindOf(stuck), "", "%w; `forebay replay plan --continue %d` goes on from what is counted", stuck, id)
	}
	if err != nil {
		return nil, err
	}
	return a.Replay(ctx, id)
}

// refuseHole cancels a plan to fill in some of an entity's events where their versions must follow each other, and says what to do.
func (a *replaysAPI) refuseHole(ctx context.Context, box *inbox.Inbox, at nameInTeam, p *inbox.Replay) error {
	if p.Counts.Hole == "" || p.Mode != "fill" || specOf(a.s.a.file(), at).Policy.Order == gate.OrderArrival {
		return nil
	}
	err := schemas.Errorf(schemas.Invalid, fmt.Sprintf("plan a replay of %s", p.Subscription),
		"the versions of %s must follow each other, and what the plan names (by events, --type, --decision or --status) leaves out some that were never decided; "+
			"the events after them would wait in vain. Leave that filter out, or plan the whole entity (--entity)", p.Counts.Hole)
	return a.refuse(ctx, box, p, err)
}

// refuseSlip cancels a plan whose entity or type is that of no event: neither in its range nor in the ledger.
func (a *replaysAPI) refuseSlip(ctx context.Context, box *inbox.Inbox, at nameInTeam, p *inbox.Replay) error {
	if p.Counts.Records > 0 {
		return nil
	}
	of := api.InboxFilter{Team: at.team, Subscription: at.name}
	ask := of
	ask.Entity = p.Filter.Entity
	err := a.nothing(ctx, box, ask, nil)
	for _, t := range p.Filter.Types {
		if err == nil {
			ask = of
			ask.Type = t
			err = a.nothing(ctx, box, ask, nil)
		}
	}
	if err == nil {
		return nil
	}
	return a.refuse(ctx, box, p, err)
}

// refuse cancels a plan for a reason, and returns that.
func (a *replaysAPI) refuse(ctx context.Context, box *inbox.Inbox, p *inbox.Replay, why error) error {
	if err := box.CancelReplay(ctx, p.ID, "forebay", why.Error()); err != nil {
		return err
	}
	return why
}

// StartReplay implements [api.Replays].
func (a *replaysAPI) StartReplay(ctx context.Context, id int64, r api.ReplayRequest) (*api.ReplayItem, error) {
	op := fmt.Sprintf("start replay %d", id)
	box, p, err := a.replay(ctx, id)
	if err != nil {
		return nil, err
	}
	at := subscriptionOf(p.Subscription)
	_, _, err = a.subscriptionOf(at)
	if schemas.KindOf(err) == schemas.NotFound {
		return nil, schemas.Errorf(schemas.Conflict, op, "subscription %s is not configured any more: nobody would run it", p.Subscription)
	}
	if err != nil {
		return nil, err
	}
	if decides(a.s.a.file(), at) != p.Config {
		return nil, schemas.Errorf(schemas.Conflict, op, "the types, match, order, policies or actions of %s are not those of the plan; plan it again", p.Subscription)
	}
	var topics []string
	for _, source := range a.s.a.file().SourcesOf(at.team, at.name) {
		topics = append(topics, source.Topic)
	}
	positions, err := box.Positions(ctx, p.Subscription)
	if err != nil {
		return nil, err
	}
	err = a.withLog(at, func(log *reader.Log, _ reader.Config) error {
		return replay.Check(ctx, log, topics, positions, p.Bounds)
	})
	if err == nil {
		err = box.StartReplay(ctx, p, cmp.Or(r.By, "unknown"), r.Reason, replay.Skew)
	}
	if err != nil {
		return nil, err
	}
	a.s.a.log.Warn("replay started", "replay", id, "subscription", p.Subscription, "mode", p.Mode, "by", r.By, "why", r.Reason)
	return a.Replay(ctx, id)
}

// CancelReplay implements [api.Replays].
func (a *replaysAPI) CancelReplay(ctx context.Context, id int64, r api.ReplayRequest) (*api.ReplayItem, error) {
	box, _, err := a.open()
	if err == nil {
		err = a.s.a.hintOtherLedgers("", box.CancelReplay(ctx, id, cmp.Or(r.By, "unknown"), r.Reason))
	}
	if err != nil {
		return nil, err
	}
	a.s.a.log.Warn("replay cancelled", "replay", id, "by", r.By, "why", r.Reason)
	return a.Replay(ctx, id)
}

// Replay implements [api.Replays].
func (a *replaysAPI) Replay(ctx context.Context, id int64) (*api.ReplayItem, error) {
	box, p, err := a.replay(ctx, id)
	if err != nil {
		return nil, err
	}
	item := a.item(p)
	item.Left = whatIsLeft(p)
	switch {
	case p.Mode != ledger.ReplayShadow && p.StartedAt == nil:
		item.Notes, err = a.notes(ctx, box, p)
		return item, err
	case p.Mode != ledger.ReplayShadow:
		return item, nil
	}
	found, err := box.Shadow(ctx, id)
	if err != nil {
		return nil, err
	}
	item.Shadow, item.Differences = found.Counts, []api.ReplayDifference{}
	for _, d := range found.Differences {
		name := names.Event{Team: item.Team, Subscription: item.Subscription, Source: strings.TrimPrefix(d.Source, "/"+item.Team+"/"), ID: d.EventID}
		item.Differences = append(item.Differences, api.ReplayDifference{Event: name.String(), Type: d.Type, Entity: d.Entity, Was: d.Was, Would: d.Would, Differs: d.Differs,
			Ran: d.Ran, Runs: d.Runs})
	}
	return item, nil
}

// notes returns the notes of a plan.
func (a *replaysAPI) notes(ctx context.Context, box *inbox.Inbox, p *inbox.Replay) ([]string, error) {
	at := subscriptionOf(p.Subscription)
	team := a.s.a.file().Teams[at.team]
	if team == nil || team.Subscriptions[at.name] == nil {
		return nil, nil // nobody starts it
	}
	earlier, err := box.Replays(ctx, "", p.Subscription, math.MaxInt64, earlierReplays)
	return notesOf(p, earlier, gate.Order(team.Subscriptions[at.name].Order)), err
}

func (a *replaysAPI) replay(ctx context.Context, id int64) (*inbox.Inbox, *inbox.Replay, error) {
	box, _, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	p, err := box.Replay(ctx, id)
	return box, p, a.s.a.hintOtherLedgers("", err)
}

// Replays implements [api.Replays].
func (a *replaysAPI) Replays(ctx context.Context, f api.ReplayFilter) (out api.Page[api.ReplayItem], err error) {
	before := int64(math.MaxInt64)
	if f.Cursor != "" { // the id of the last one of the page before
		if before, err = strconv.ParseInt(f.Cursor, 10, 64); err != nil || before < 1 {
			return out, schemas.Errorf(schemas.Invalid, "", "cursor is not one of this list's")
		}
	}
	box, _, err := a.open()
	if err != nil {
		return out, err
	}
	if _, err := a.resolve(ctx, box, queryNames{&f.Team, &f.Subscription, new(string), new(string)}); err != nil {
		return out, err
	}
	of := ""
	if f.Subscription != "" {
		of = f.Team + "." + f.Subscription
	}
	list, err := box.Replays(ctx, f.Team, of, before, f.Limit+1)
	if len(list) > f.Limit {
		list = list[:f.Limit]
		out.Next = strconv.FormatInt(list[f.Limit-1].ID, 10)
	}
	out.Elsewhere = a.s.a.leftOut(f.Team, f.Subscription)
	for i := range list {
		out.Items = append(out.Items, *a.item(&list[i]))
	}
	return out, err
}

// item returns a replay as operators see it; nil for nil.
func (a *replaysAPI) item(p *inbox.Replay) *api.ReplayItem {
	if p == nil {
		return nil
	}
	at := subscriptionOf(p.Subscription)
	item := &api.ReplayItem{
		ID: strconv.FormatInt(p.ID, 10), Team: at.team, Subscription: at.name, Mode: string(p.Mode), EvenStale: p.EvenStale, State: p.State(), Sources: []string{}, Types: append([]string{}, p.Filter.Types...), Decisions: []string{}, Events: eventNames(at, p.Filter.Events), Statuses: append([]string{}, p.Filter.Statuses...), Entity: string(p.Filter.Entity),
		Rate: p.Rate, MaxErrors: p.MaxErrors, PlannedAt: utc(p.PlannedAt), PlannedBy: p.PlannedBy, CountedAt: utc(p.CountedAt), StartedAt: utc(p.StartedAt), StartedBy: p.StartedBy,
		Reason: p.Reason, CancelledAt: utc(p.CancelledAt), CancelledBy: p.CancelledBy, CancelledReason: p.CancelledReason,
		Records: p.Counts.Records, Runs: p.Counts.Runs, ByType: p.Counts.Types, ByEntity: p.Counts.Entities, EntityRest: p.Counts.EntityRest, ByDecision: map[string]int64{}, Errors: p.Errors,
	}
	for d, n := range p.Counts.Decisions {
		item.ByDecision[string(d)] = n
	}
	for _, d := range p.Filter.Decisions {
		item.Decisions = append(item.Decisions, string(d))
	}
	for _, s := range p.Filter.Sources {
		item.Sources = append(item.Sources, strings.TrimPrefix(s, "/"))
	}
	if team := a.s.a.file().Teams[at.team]; team != nil && team.Subscriptions[at.name] != nil {
		item.Actions = p.Counts.Runs * int64(len(team.Subscriptions[at.name].Actions))
	}
	if p.Rate > 0 {
		item.Seconds = (p.Counts.Runs + int64(p.Rate) - 1) / int64(p.Rate)
	}
	for _, b := range p.Bounds {
		item.Range.Offsets += b.To - b.From
		item.Range.Counted += b.Counted - b.From
		part := api.ReplayPartition{Topic: b.Topic, Partition: b.Partition, From: b.From, To: b.To, Counted: b.Counted, FirstAt: utc(b.FirstAt)}
		addProgress(item, &part, p.Parts)
		item.Partitions = append(item.Partitions, part)
	}
	return item
}

// addProgress copies how far a partition of a replay has come into part, and adds it to the totals of item. A partition is in parts once at
// most. item's detail is that of the last partition that has one, or else names the first one whose replay goes on and that nobody reads.
func addProgress(item *api.ReplayItem, part *api.ReplayPartition, parts []inbox.ReplayProgress) {
	for i := range parts {
		p := &parts[i]
		if p.Topic != part.Topic || p.Partition != part.Partition {
			continue
		}
		part.Next, part.MovedAt, part.EndedAt, part.Detail, part.Owner = &p.Next, utc(p.MovedAt), utc(p.EndedAt), p.Detail, p.Owner
		if p.Failure != nil {
			part.Failure = *p.Failure
		}
		if p.Detail != "" {
			item.Detail = names.Place{Topic: p.Topic, Partition: p.Partition, Offset: p.Next}.String() + ": " + p.Detail
		} else if p.EndedAt == nil && p.Owner == "" && item.Detail == "" {
			item.Detail = fmt.Sprintf("%s/%d: nobody reads the partition, so nobody runs the replay there", p.Topic, p.Partition)
		}
		item.Range.Passed += p.Next - p.From
		item.Done, item.Applied, item.Late, item.Stale = item.Done+p.Done, item.Applied+p.Applied, item.Late+p.Late, item.Stale+p.Stale
		item.Waits, item.Rejected = item.Waits+p.Waits, item.Rejected+p.Rejected
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
