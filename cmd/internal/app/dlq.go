package app

import (
	"cmp"
	"context"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// deadLettersAPI answers questions about dead letters, and about actions with an unknown outcome, from the ledger.
type deadLettersAPI struct{ inboxAPI }

// query completes the filter f in place, and opens the inbox. Destinations, like sources, may be named by their last part.
func (d *deadLettersAPI) query(f *api.DeadLetterFilter) (box *inbox.Inbox, err error) {
	if f.Destination != "" && !strings.Contains(f.Destination, "/") {
		if f.Team == "" {
			return nil, schemas.Errorf(schemas.Invalid, "", "name the team of destination %s as well: TEAM/%s, or the team filter", f.Destination, f.Destination)
		}
		f.Destination = f.Team + "/" + f.Destination
	}
	if f.Source, err = d.source(f.Team, f.Source); err == nil {
		box, _, err = d.open()
	}
	return box, err
}

// DeadLetters lists dead letters in lane order.
func (d *deadLettersAPI) DeadLetters(ctx context.Context, f api.DeadLetterFilter) (out api.Page[api.DeadLetterItem], err error) {
	box, err := d.query(&f)
	if err != nil {
		return out, err
	}
	page, err := box.DeadLetters(ctx, f)
	for n := range page.Items {
		out.Items = append(out.Items, deadItem(&page.Items[n]))
	}
	out.Next = page.Next
	return out, err
}

func (d *deadLettersAPI) DeadLetterGroups(ctx context.Context, f api.DeadLetterFilter) (out api.Page[api.DeadLetterGroup], err error) {
	box, err := d.query(&f)
	if err == nil {
		out.Items, out.More, err = box.DeadLetterGroups(ctx, f)
	}
	return out, err
}

// DeadLetter returns one dead letter with its attempts and commands.
func (d *deadLettersAPI) DeadLetter(ctx context.Context, id string) (*api.DeadLetterDetail, error) {
	box, _, err := d.open()
	if err != nil {
		return nil, err
	}
	dead, err := box.DeadLetter(ctx, schemas.ActionID(id))
	if err != nil {
		return nil, err
	}
	out := &api.DeadLetterDetail{DeadLetterItem: deadItem(&dead.DeadLetter), History: attemptsOf(dead.History), Commands: dead.Commands}
	if out.Commands == nil {
		out.Commands = []api.CommandItem{}
	}
	return out, nil
}

// deadItem returns a dead letter as the API has it. If no event waits behind it, behind is 0 and not null.
func deadItem(d *inbox.DeadLetter) api.DeadLetterItem {
	behind, atLeast := d.Behind.Counts()
	if !d.Parks {
		behind = new(int64(0))
	}
	return api.DeadLetterItem{
		ID: string(d.ID), Team: d.Team, Subscription: d.Subscription, Generation: d.Generation, Source: strings.TrimPrefix(d.Source, "/"+d.Team+"/"),
		EventID: d.EventID, Type: d.Type, Entity: string(d.Entity), Version: d.Version, Action: d.Action, Destination: d.Destination, OnDead: string(d.OnDead),
		Status: string(d.Status), Class: d.Class, Group: d.Fingerprint, Code: int(d.Code), Error: d.Error, Response: string(d.Response), Attempts: int(d.Attempts),
		Deaths: int(d.Deaths), Flagged: d.Flagged(), Parks: d.Parks, Behind: behind, BehindAtLeast: atLeast, Asked: d.HasCommand, FirstAt: d.FirstAt, DiedAt: d.DiedAt.UTC(),
		Topic: d.Topic, Partition: d.Partition, Offset: d.Offset, Owner: d.Owner,
	}
}

// AskDeadLetter writes a command for the owner of an action's partition: to run the action again, to give it up, or to take it as done.
// Unless the request says not to, it waits until the owner has applied the command. A dry run only checks whether that may be asked.
func (d *deadLettersAPI) AskDeadLetter(ctx context.Context, id, verb string, r api.DeadLetterRequest) (*api.DeadLetterAnswer, error) {
	box, _, err := d.open()
	if err != nil {
		return nil, err
	}
	dead, err := box.FindDeadLetter(ctx, schemas.ActionID(id))
	if err != nil {
		return nil, err
	}
	kind, detail, effect := ledger.Replay, ledger.CommandDetail{Force: r.Force, OutcomeUnknown: r.OutcomeUnknown}, "it runs again, and what stands behind it goes on in order"
	switch verb {
	case api.VerbDiscard:
		kind, detail, effect = ledger.Discard, ledger.CommandDetail{}, "it is given up, and what stands behind it goes on"
	case api.VerbResolve:
		kind, detail, effect = ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, "it counts as done, and what stands behind it goes on"
	}
	r.By = cmp.Or(r.By, "unknown")
	out := &api.DeadLetterAnswer{DeadLetterItem: deadItem(&dead), Verb: verb, State: api.StatePlanned, Detail: effect}
	if r.DryRun {
		return out, inbox.MayAsk(dead, kind, detail)
	}
	if out.Command, err = box.AskAction(ctx, dead.ID, kind, detail, r.By, r.Reason); err != nil {
		return nil, err
	}
	s, err := d.waitForOwner(ctx, box, out.Command, r.NoWait)
	if err != nil {
		return nil, err
	}
	out.State, out.Detail = stateOf(s)
	d.s.a.log.Warn("dead letter "+verb, "subscription", dead.Team+"."+dead.Subscription, "action_id", id, "event_id", dead.EventID, "source", dead.Source,
		"entity", dead.Entity, "destination", dead.Destination, "state", out.State, "outcome", out.Detail, "by", r.By, "why", r.Reason)
	return out, nil
}

// stateOf returns the state of a command for the API, and what that means for the operator.
func stateOf(s inbox.CommandStatus) (state, detail string) {
	switch {
	case s.EndedAt != nil:
		return api.StateDone, s.Outcome
	case s.Owner == "":
		return api.StateAsked, "nobody owns the partition: it is done as soon as somebody claims it"
	}
	return api.StateAsked, s.Owner + " owns the partition and has not done it yet; if that process is gone, the next owner does it"
}

// DeadRecord returns a dead letter as the record that is exported of it.
func (d *deadLettersAPI) DeadRecord(ctx context.Context, id string) (*api.DeadRecord, error) {
	box, payloads, err := d.open()
	if err != nil {
		return nil, err
	}
	dead, err := box.FindDeadLetter(ctx, schemas.ActionID(id))
	if err != nil {
		return nil, err
	}
	out := &api.DeadRecord{ID: id}
	rec, lost, err := deadletter.Record(ctx, box, payloads, &dead.DeadLetter)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		out.Lost = lost.Error()
	}
	out.Topic, out.Key, out.Value = rec.Topic, rec.Key, rec.Value
	for _, h := range rec.Headers {
		out.Headers = append(out.Headers, api.DeadHeader{Key: h.Key, Value: string(h.Value)})
	}
	return out, nil
}
