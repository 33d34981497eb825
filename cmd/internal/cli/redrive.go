package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// inboxRedriveCmd runs events that wait behind a gap, are held or are quarantined, or gives them up: those that are named, or all of a
// decision.
type inboxRedriveCmd struct {
	listenerFlag
	What     string   `arg:"" name:"event" help:"An event, as inbox list -o id lists it; or TEAM.SUBSCRIPTION, with SOURCE EVENT_ID behind it or --decision."`
	More     []string `arg:"" optional:"" name:"more" help:"More events; or SOURCE EVENT_ID."`
	Decision string   `enum:"quarantined,parked,conflict," default:"" help:"All of this decision instead: quarantined, parked; with --discard also conflict."`
	Source   string   `help:"Of those only this source's."`
	Entity   string   `help:"Of those only this entity's."`
	Type     string   `help:"Of those only this event type, or glob."`
	Since    string   `help:"Of those only what was decided since: a duration back (1h, 2d) or an RFC 3339 time."`
	Reason   string   `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	Discard  bool     `help:"Discard instead what is held, quarantined or a conflict: it does not run, and attention lists it no more."`
	Again    bool     `help:"Also quarantined records that were redriven before."`
	DryRun   bool     `help:"Say what would be done and do nothing."`
	yesFlag
	Rate float64 `default:"50" help:"Most events a second."`
}

// Help is what kong prints below the command's summary.
func (inboxRedriveCmd) Help() string { return names.Help }

// Run redrives the events that are named, or all that the flags select.
func (c *inboxRedriveCmd) Run(e *env, client *api.Client) error {
	events, subscription, err := c.meant()
	if err != nil {
		return err
	}
	req := api.RedriveRequest{Reason: c.Reason, By: whoAmI(), Discard: c.Discard, Again: c.Again, DryRun: c.DryRun}
	b := &bulk[api.RedriveItem]{env: e, rate: c.Rate, dryRun: c.DryRun, does: map[bool]string{true: "discard", false: "redrive"}[c.Discard], yes: c.Yes, named: len(events) > 0}
	if len(events) == 0 {
		team, name, err := subscriptionNamed(e, client, subscription)
		if err != nil {
			return err
		}
		return c.all(b, client, team, name, req)
	}
	if subscription != "" { // SOURCE EVENT_ID of it
		if events[0].Team, events[0].Subscription, err = subscriptionNamed(e, client, subscription); err != nil {
			return err
		}
	}
	if len(events) == 1 {
		return redriveOne(e, client, events[0], req)
	}
	for _, n := range events {
		b.requests = append(b.requests, request[api.RedriveItem]{name: n.String(), do: func(bool) (*api.RedriveItem, string, error) {
			return redrive(e, client, n, req)
		}})
	}
	return b.run(func(i api.RedriveItem) string { return itemID(i.InboxItem) }, redriveColumns...)
}

// meant returns the events that the arguments name; or the subscription of which all of a decision are meant; or, of an event that is named
// by source and id, both.
func (c *inboxRedriveCmd) meant() (events []names.Event, subscription string, err error) {
	c.Reason = strings.TrimSpace(c.Reason)
	narrowed := c.Source+c.Entity+c.Type+c.Since != ""
	what := append([]string{c.What}, c.More...)
	for _, text := range what {
		if isAction(text) {
			return nil, "", usageError("%s is an action: `forebay dlq replay %s --reason TEXT` runs it again", text, text)
		}
		if _, err := names.ParseDelivery(text); err == nil {
			return nil, "", usageError("%s is a delivery that no event was made of: `forebay quarantine redrive %s --reason TEXT`", text, text)
		}
		if n, err := names.ParseEvent(text); err == nil {
			events = append(events, n)
		}
	}
	if len(events) < len(what) {
		events = nil
		if subscription = c.What; len(what) == 3 {
			events = []names.Event{{Source: what[1], ID: what[2]}}
		}
	}
	switch {
	case len(events) == 0 && len(what) != 1:
		return nil, "", usageError("one event is TEAM.SUBSCRIPTION SOURCE EVENT_ID; several are named as `forebay inbox list -o id` lists them")
	case len(events) > 0 && (c.Decision != "" || narrowed):
		return nil, "", usageError("either events by name, or --decision with its filters")
	case len(events) == 0 && c.Decision == "":
		return nil, "", usageError("which? events as `forebay inbox list -o id` lists them, SOURCE EVENT_ID, or --decision quarantined or parked (with --discard also conflict) for all of that")
	case c.Reason == "" && !c.DryRun:
		return nil, "", usageError("--reason is needed: it is kept with what is redriven (--dry-run shows what that is)")
	case c.Rate <= 0:
		return nil, "", usageError("--rate %v is no number of events a second", c.Rate)
	case !c.Discard && c.Decision == "conflict":
		return nil, "", usageError("a conflict runs nothing: another body came under its id before; --discard takes it off the list")
	}
	return events, subscription, nil
}

// redriveOne redrives one event and says what came of it.
func redriveOne(e *env, client *api.Client, n names.Event, req api.RedriveRequest) error {
	item, _, err := redrive(e, client, n, req)
	if err != nil {
		return ofItem(err)
	}
	return printOne(e, item, itemID(item.InboxItem), func(w io.Writer) {
		fmt.Fprintf(w, "%s of %s %s: %s%s\n", plain(item.Action), plain(itemID(item.InboxItem)), plain(item.State), plain(item.Detail), toText(item))
	})
}

func redrive(e *env, client *api.Client, n names.Event, req api.RedriveRequest) (*api.RedriveItem, string, error) {
	item, err := client.Redrive(e.ctx, n.Team, n.Subscription, n.Source, n.ID, req)
	if err != nil {
		return nil, "", err
	}
	return item, item.State, nil
}

// toText returns where a record was produced to; empty if none was.
func toText(i *api.RedriveItem) string {
	if i.To == nil {
		return ""
	}
	return "; it is " + plain(names.Place(*i.To).String())
}

// all redrives everything of a decision, in the order of the log.
func (c *inboxRedriveCmd) all(b *bulk[api.RedriveItem], client *api.Client, team, name string, req api.RedriveRequest) error {
	e := b.env
	items, err := c.find(e, client, team, name)
	if err != nil {
		return err
	}
	for _, i := range items {
		n := names.Event{Team: team, Subscription: name, Source: i.Source, ID: i.EventID}
		if i.Decision.Rejects() { // by its place: an event with the same id may have come since
			n.Source, n.ID = i.Topic, placeID(&i)
		}
		b.requests = append(b.requests, request[api.RedriveItem]{name: placeText(&i), partition: fmt.Sprintf("%s/%d", i.Topic, i.Partition), do: func(noWait bool) (*api.RedriveItem, string, error) {
			req.NoWait = noWait
			return redrive(e, client, n, req)
		}})
	}
	return b.run(func(i api.RedriveItem) string { return itemID(i.InboxItem) }, redriveColumns...)
}

var redriveColumns = []column[api.RedriveItem]{
	{name: "place", value: func(i api.RedriveItem) string { return placeText(&i.InboxItem) }},
	{name: "entity", tail: true, value: func(i api.RedriveItem) string { return i.Entity }},
	{name: "was", value: func(i api.RedriveItem) string { return string(i.Decision) + " (" + string(i.Reason) + ")" }},
	{name: "action", value: func(i api.RedriveItem) string { return i.Action }},
	{name: "state", value: func(i api.RedriveItem) string { return i.State }},
	{name: "detail", whole: true, value: func(i api.RedriveItem) string { return i.Detail + toText(&i) }},
	{name: "event", wide: true, value: func(i api.RedriveItem) string { return i.EventID }},
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
			if c.Discard && c.Decision == "parked" && !held {
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
