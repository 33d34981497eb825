package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// isAction tells whether a text is, or begins, the id of an action. An event's id has slashes.
func isAction(text string) bool {
	return strings.HasPrefix(text, "act_") && !strings.Contains(text, "/")
}

// eventOf returns the event that a text names: by its own id, by that of an action that the ledger can find, or by that of the delivery that it
// was in quarantine.
func eventOf(ctx context.Context, client *api.Client, text string) (names.Event, error) {
	if isAction(text) {
		d, err := client.DeadLetter(ctx, text)
		if schemas.KindOf(err) == schemas.NotFound {
			return names.Event{}, schemas.Errorf(schemas.NotFound, "look for the event of "+text,
				"no action of that id is dead or unknown; others are found by their event: its id is ce-id of what the destination was sent, and `forebay inbox list -o id` lists it")
		}
		if err != nil {
			return names.Event{}, err
		}
		return names.Event{Team: d.Team, Subscription: d.Subscription, Source: d.Source, ID: d.EventID}, nil
	}
	if d, err := names.ParseDelivery(text); err == nil {
		return eventOfDelivery(ctx, client, d)
	}
	e, err := names.ParseEvent(text)
	if err != nil {
		return e, usageError("%w", err)
	}
	return e, nil
}

// eventOfDelivery returns the event that a delivery in quarantine has become by a redrive, as the one subscription sees it that has it.
func eventOfDelivery(ctx context.Context, client *api.Client, d names.Delivery) (names.Event, error) {
	id, err := redrivenAs(ctx, client, d)
	if err != nil {
		return names.Event{}, err
	}
	subscriptions, err := client.Subscriptions(ctx)
	if err != nil {
		return names.Event{}, err
	}
	var found []names.Event
	for _, s := range subscriptions.Items {
		if !hasSource(&s, d.Source) {
			continue
		}
		e := names.Event{Team: s.Team, Subscription: s.Subscription, Source: d.Source.Name, ID: id}
		if s.Team != d.Source.Team {
			e.Source = "/" + names.Source.Print(d.Source) // shared by its team
		}
		switch _, err := client.Item(ctx, e.Team, e.Subscription, e.Source, e.ID); {
		case err == nil:
			found = append(found, e)
		case schemas.KindOf(err) != schemas.NotFound:
			return names.Event{}, err
		}
	}
	switch len(found) {
	case 0:
		return names.Event{}, schemas.Errorf(schemas.NotFound, "look for the event of "+d.String(),
			"it was redriven as event %s, which no subscription of the asked process has: none has decided it yet, or it is in another ledger, or past what is kept", id)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, e := range found {
		ids = append(ids, e.String())
	}
	return names.Event{}, usageError("%s was redriven, and %d subscriptions have its event; give the id of one: %s", d, len(ids), strings.Join(ids, ", "))
}

// hasSource reports whether a subscription has a source. It may name one of its own team without the team.
func hasSource(s *api.SubscriptionItem, source names.Name) bool {
	return slices.Contains(s.Sources, names.Source.Print(source)) || s.Team == source.Team && slices.Contains(s.Sources, source.Name)
}

// redrivenAs returns the id of the event that a delivery in quarantine has become. The list has the newest first, so the offsets of a partition
// go down in it: behind a lower one the delivery does not come any more.
func redrivenAs(ctx context.Context, client *api.Client, d names.Delivery) (string, error) {
	f := api.QuarantineFilter{Team: d.Source.Team, Source: d.Source.Name, Limit: 1000}
	for {
		page, err := client.Quarantined(ctx, f)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(page.Items, func(i api.QuarantineItem) bool { return quarantineID(i) == d.String() })
		passed := slices.ContainsFunc(page.Items, func(i api.QuarantineItem) bool { return i.Partition == d.Partition && i.Offset < d.Offset })
		switch {
		case i >= 0 && page.Items[i].Redriven != nil && page.Items[i].Redriven.EventID != "":
			return page.Items[i].Redriven.EventID, nil
		case i >= 0:
			return "", usageError("%s is a delivery in quarantine, and no event: `forebay quarantine list` says why, `forebay quarantine raw %s` prints its body", d, d)
		case passed || page.Next == "":
			return "", schemas.Errorf(schemas.NotFound, "look for "+d.String(), "the quarantine has no such delivery, or has it no more; `forebay quarantine list -o id` lists them")
		}
		f.Cursor = page.Next
	}
}

// deadActionsOf returns the ids of the actions that a text names: an action's own, or, if it names an event, those of its actions that are dead
// letters or whose outcome is unknown. Kind of error if the event has none: NotFound.
func deadActionsOf(ctx context.Context, client *api.Client, text string) ([]string, error) {
	if !strings.Contains(text, "/") {
		return []string{text}, nil
	}
	n, err := eventOf(ctx, client, text)
	if err != nil {
		return nil, err
	}
	d, err := client.Item(ctx, n.Team, n.Subscription, n.Source, n.ID)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, a := range d.Actions {
		if slices.Contains([]string{string(ledger.Dead), string(ledger.Unknown)}, a.Status) {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return nil, schemas.Errorf(schemas.NotFound, "look for dead letters of "+text, "it has none; its status is %s: `forebay inbox get %s`", d.Status, n)
	}
	return ids, nil
}
