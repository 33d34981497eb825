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

// eventOf returns the event that a text names: by its own id, or by that of an action that the ledger can find.
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
	if err := refuseDelivery(text); err != nil {
		return names.Event{}, err
	}
	e, err := names.ParseEvent(text)
	if err != nil {
		return e, usageError("%w", err)
	}
	return e, nil
}

// refuseDelivery says of the id of a delivery that was kept aside that it is no event's; nil if the text is no such id.
func refuseDelivery(text string) error {
	if _, err := names.ParseDelivery(text); err == nil {
		return usageError("%s is a delivery in quarantine, and no event: `forebay quarantine list` says why, and whether it was redriven since", text)
	}
	return nil
}

// deadActionsOf returns the ids of the actions that a text names: an action's own, or, if it is an event's, those of its actions that are dead
// letters or whose outcome is unknown. Kind of error if the event has none: NotFound.
func deadActionsOf(ctx context.Context, client *api.Client, text string) ([]string, error) {
	if !strings.Contains(text, "/") {
		return []string{text}, nil
	}
	if err := refuseDelivery(text); err != nil {
		return nil, err
	}
	n, err := names.ParseEvent(text)
	if err != nil {
		return nil, usageError("%w", err)
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
		return nil, schemas.Errorf(schemas.NotFound, "look for dead letters of "+text, "it has none; its status is %s: `forebay inbox get %s`", d.Status, text)
	}
	return ids, nil
}
