package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// inboxRedriveCmd lets events run that wait, are held or are quarantined: one, or all of a decision.
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

func (c *inboxRedriveCmd) Run(e *env) error {
	team, name, err := c.names()
	if err != nil {
		return err
	}
	c.Reason = strings.TrimSpace(c.Reason)
	narrowed := c.Source+c.Entity+c.Type+c.Since != ""
	switch {
	case len(c.Event) != 0 && len(c.Event) != 2:
		return usage("one event is SOURCE EVENT_ID; `forebay inbox list -o wide` shows both, and the places of what has no id")
	case len(c.Event) == 2 && (c.Decision != "" || narrowed):
		return usage("either one event or --decision with its filters")
	case len(c.Event) == 0 && c.Decision == "":
		return usage("which? SOURCE EVENT_ID, or --decision quarantined or parked for all of that")
	case c.Reason == "" && !c.DryRun:
		return usage("--reason is needed: it is kept with what is redriven (--dry-run shows what that is)")
	case c.Rate <= 0:
		return usage("--rate %v is no number of events a second", c.Rate)
	case c.Discard && c.Decision == "quarantined":
		return usage("--discard is for held events (--decision parked): what is quarantined waits for nothing")
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	r := &redriving{cmd: c, env: e, client: client, team: team, name: name, absent: map[string]bool{},
		req: api.RedriveRequest{Reason: c.Reason, By: whoAmI(), Discard: c.Discard, Again: c.Again, DryRun: c.DryRun}}
	if len(c.Event) == 2 {
		return r.one(c.Event[0], c.Event[1])
	}
	return r.all()
}

// redriving is one run of the command.
type redriving struct {
	cmd        *inboxRedriveCmd
	env        *env
	client     *api.Client
	team, name string
	req        api.RedriveRequest
	absent     map[string]bool // partitions whose owner has not answered: not waited for again

	done    []api.RedriveItem
	gone    int // had been decided otherwise, or redriven, when their turn came
	refused int
}

// one redrives one event.
func (r *redriving) one(source, event string) error {
	item, err := r.client.Redrive(r.env.ctx, r.team, r.name, source, event, r.req)
	if err != nil {
		return err
	}
	return one(r.env, item, itemID(item.InboxItem), func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %s%s\n", plain(item.Action), plain(item.State), plain(item.Detail), toText(item))
	})
}

func toText(i *api.RedriveItem) string {
	if i.To == nil {
		return ""
	}
	return fmt.Sprintf("; it is %s/%d@%d", plain(i.To.Topic), i.To.Partition, i.To.Offset)
}

// all redrives everything of a decision, in the order of the log.
func (r *redriving) all() error {
	items, err := r.list()
	if err != nil {
		return err
	}
	err = r.each(items)
	if out := list(r.env, api.Page[api.RedriveItem]{Items: r.done}, func(i api.RedriveItem) string { return itemID(i.InboxItem) }, redriveColumns...); out != nil {
		return out
	}
	fmt.Fprintln(r.env.Stderr, r.counts(len(items)))
	switch {
	case err != nil:
		return err
	case r.refused > 0:
		return &exitError{code: exitFailed}
	}
	return nil
}

var redriveColumns = []column[api.RedriveItem]{
	{"place", false, func(i api.RedriveItem) string { return placeText(&i.InboxItem) }},
	{"entity", false, func(i api.RedriveItem) string { return i.Entity }},
	{"was", false, func(i api.RedriveItem) string { return i.Decision + " (" + i.Reason + ")" }},
	{"action", false, func(i api.RedriveItem) string { return i.Action }},
	{"state", false, func(i api.RedriveItem) string { return i.State }},
	{"detail", false, func(i api.RedriveItem) string { return i.Detail + toText(&i) }},
	{"event", false, func(i api.RedriveItem) string { return i.EventID }},
}

// list finds what is asked for, the oldest places first.
func (r *redriving) list() ([]api.InboxItem, error) {
	since, err := parseSince(r.cmd.Since, time.Now())
	if err != nil {
		return nil, err
	}
	f := api.InboxFilter{Team: r.team, Subscription: r.name, Source: r.cmd.Source, Entity: r.cmd.Entity, Type: r.cmd.Type,
		Decision: r.cmd.Decision, Since: since, Limit: 1000}
	if !r.cmd.Again {
		f.Status = r.cmd.Decision // not what was redriven before
	}
	var items []api.InboxItem
	for {
		page, err := r.client.Items(r.env.ctx, f)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Items {
			if held := i.Reason == "equal_held" || i.Reason == "older_held"; held || !r.cmd.Discard {
				items = append(items, i)
			}
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

// progressEvery is how often a long run says how far it is.
const progressEvery = 2 * time.Second

// paced does all n things, one after the other, at most perSecond of them a second, and says how far it is. It ends with the
// first error.
func paced(e *env, n int, perSecond rate.Limit, do func(i int) error) error {
	limit := rate.NewLimiter(perSecond, 1)
	printed := time.Now()
	for i := range n {
		if err := limit.Wait(e.ctx); err != nil {
			return cmp.Or(context.Cause(e.ctx), err)
		}
		if err := do(i); err != nil {
			return err
		}
		if time.Since(printed) >= progressEvery {
			printed = time.Now()
			fmt.Fprintf(e.Stderr, "%d of %d\n", i+1, n)
		}
	}
	return nil
}

// pace is how many things a second are done; a dry run does none.
func pace(perSecond float64, dryRun bool) rate.Limit {
	if dryRun {
		return rate.Inf
	}
	return rate.Limit(perSecond)
}

// each redrives items one after the other. It ends early where nobody answers.
func (r *redriving) each(items []api.InboxItem) error {
	return paced(r.env, len(items), pace(r.cmd.Rate, r.cmd.DryRun), func(n int) error { return r.next(&items[n]) })
}

func (r *redriving) next(i *api.InboxItem) error {
	source, event := i.Source, i.EventID
	if i.Decision == "quarantined" { // by its place: another event may have come under its id
		source, event = i.Topic, placeID(i)
	}
	req, partition := r.req, fmt.Sprintf("%s/%d", i.Topic, i.Partition)
	req.NoWait = r.absent[partition]
	item, err := r.client.Redrive(r.env.ctx, r.team, r.name, source, event, req)
	switch kind := schemas.KindOf(err); {
	case err == nil:
		r.absent[partition] = r.absent[partition] || item.State == api.StateAsked
		r.done = append(r.done, *item)
	case r.env.ctx.Err() != nil:
		return err
	case kind == schemas.Conflict || kind == schemas.NotFound:
		r.gone++
	case kind == schemas.Invalid || kind == schemas.TooLarge:
		r.refused++
		fmt.Fprintf(r.env.Stderr, "%s: %s\n", plain(placeText(i)), plain(err.Error()))
	default:
		return err
	}
	return nil
}

// counts says what became of all of them.
func (r *redriving) counts(all int) string {
	states := map[string]int{}
	for _, i := range r.done {
		states[i.State]++
	}
	parts := []string{fmt.Sprintf("%d found", all)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{states[api.StatePlanned], "planned (dry run: nothing was done)"}, {states[api.StateDone], "done"}, {states[api.StateAsked], "asked of their partitions' owners"},
		{r.gone, "gone on by themselves or with another"}, {r.refused, "refused"}, {all - len(r.done) - r.gone - r.refused, "not reached"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

func placeID(i *api.InboxItem) string { return fmt.Sprintf("%d@%d", i.Partition, i.Offset) }

func placeText(i *api.InboxItem) string { return i.Topic + "/" + placeID(i) }
