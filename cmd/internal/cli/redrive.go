package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// inboxRedriveCmd runs events that wait behind a gap, are held or are quarantined: one event, or all of a decision.
type inboxRedriveCmd struct {
	listenerFlag
	subscriptionArg
	Event    []string `arg:"" optional:"" name:"source event_id" help:"One event: its source and id; of a record without id the topic and PARTITION@OFFSET."`
	Decision string   `enum:"quarantined,parked," default:"" help:"All of this decision instead: quarantined, parked."`
	Source   string   `help:"Of those only this source's."`
	Entity   string   `help:"Of those only this entity's."`
	Type     string   `help:"Of those only this event type."`
	Since    string   `help:"Of those only what was decided since: a duration back (1h, 2d) or an RFC 3339 time."`
	Reason   string   `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	Discard  bool     `help:"Give held events up instead."`
	Again    bool     `help:"Quarantined records that were redriven before once more."`
	DryRun   bool     `help:"Say what would be done and do nothing."`
	Rate     float64  `default:"50" help:"Most events a second."`
}

// Run redrives the event that is named, or all events that the flags select.
func (c *inboxRedriveCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names()
	if err != nil {
		return err
	}
	c.Reason = strings.TrimSpace(c.Reason)
	narrowed := c.Source+c.Entity+c.Type+c.Since != ""
	switch {
	case len(c.Event) != 0 && len(c.Event) != 2:
		return usageError("one event is SOURCE EVENT_ID; `forebay inbox list -o wide` shows both, and the places of what has no id")
	case len(c.Event) == 2 && (c.Decision != "" || narrowed):
		return usageError("either one event or --decision with its filters")
	case len(c.Event) == 0 && c.Decision == "":
		return usageError("which? SOURCE EVENT_ID, or --decision quarantined or parked for all of that")
	case c.Reason == "" && !c.DryRun:
		return usageError("--reason is needed: it is kept with what is redriven (--dry-run shows what that is)")
	case c.Rate <= 0:
		return usageError("--rate %v is no number of events a second", c.Rate)
	case c.Discard && c.Decision == "quarantined":
		return usageError("--discard is for held events (--decision parked): what is quarantined waits for nothing")
	}
	req := api.RedriveRequest{Reason: c.Reason, By: whoAmI(), Discard: c.Discard, Again: c.Again, DryRun: c.DryRun}
	if len(c.Event) == 0 {
		return c.all(e, client, team, name, req)
	}
	item, err := client.Redrive(e.ctx, team, name, c.Event[0], c.Event[1], req)
	if err != nil {
		return err
	}
	return printOne(e, item, itemID(item.InboxItem), func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %s%s\n", plain(item.Action), plain(item.State), plain(item.Detail), toText(item))
	})
}

// toText returns where a record was produced to; empty if none was.
func toText(i *api.RedriveItem) string {
	if i.To == nil {
		return ""
	}
	return fmt.Sprintf("; it is %s/%d@%d", plain(i.To.Topic), i.To.Partition, i.To.Offset)
}

// all redrives everything of a decision, in the order of the log.
func (c *inboxRedriveCmd) all(e *env, client *api.Client, team, name string, req api.RedriveRequest) error {
	items, err := c.find(e, client, team, name)
	if err != nil {
		return err
	}
	b := &bulk[api.RedriveItem]{env: e, rate: c.Rate, dryRun: c.DryRun}
	for _, i := range items {
		source, event := i.Source, i.EventID
		if i.Decision == "quarantined" { // name the record by its place: an event with the same id may have come since
			source, event = i.Topic, placeID(&i)
		}
		b.requests = append(b.requests, request[api.RedriveItem]{name: placeText(&i), partition: fmt.Sprintf("%s/%d", i.Topic, i.Partition), do: func(noWait bool) (*api.RedriveItem, string, error) {
			req.NoWait = noWait
			item, err := client.Redrive(e.ctx, team, name, source, event, req)
			if err != nil {
				return nil, "", err
			}
			return item, item.State, nil
		}})
	}
	return b.run(func(i api.RedriveItem) string { return itemID(i.InboxItem) }, redriveColumns...)
}

var redriveColumns = []column[api.RedriveItem]{
	{name: "place", value: func(i api.RedriveItem) string { return placeText(&i.InboxItem) }},
	{name: "entity", value: func(i api.RedriveItem) string { return i.Entity }},
	{name: "was", value: func(i api.RedriveItem) string { return string(i.Decision) + " (" + string(i.Reason) + ")" }},
	{name: "action", value: func(i api.RedriveItem) string { return i.Action }},
	{name: "state", value: func(i api.RedriveItem) string { return i.State }},
	{name: "detail", value: func(i api.RedriveItem) string { return i.Detail + toText(&i) }},
	{name: "event", value: func(i api.RedriveItem) string { return i.EventID }},
}

// find returns the events that the flags select, in the order of the log. With --discard those are held events only.
func (c *inboxRedriveCmd) find(e *env, client *api.Client, team, name string) ([]api.InboxItem, error) {
	since, err := parseSince(c.Since, time.Now())
	if err != nil {
		return nil, err
	}
	f := api.InboxFilter{Team: team, Subscription: name, Source: c.Source, Entity: schemas.EntityKey(c.Entity), Type: c.Type,
		Decision: gate.Decision(c.Decision), Since: since, Limit: 1000}
	if !c.Again {
		f.Status = c.Decision // the status of what was redriven before differs from its decision
	}
	var items []api.InboxItem
	for {
		page, err := client.Items(e.ctx, f)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Items {
			held := i.Reason == gate.ReasonEqualHeld || i.Reason == gate.ReasonOlderHeld
			if c.Discard && !held {
				continue
			}
			items = append(items, i)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	slices.SortFunc(items, func(a, b api.InboxItem) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return items, nil
}

// placeID is the id of a record that has none of its own: PARTITION@OFFSET.
func placeID(i *api.InboxItem) string { return fmt.Sprintf("%d@%d", i.Partition, i.Offset) }

func placeText(i *api.InboxItem) string { return i.Topic + "/" + placeID(i) }
