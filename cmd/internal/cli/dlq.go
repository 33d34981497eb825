package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// deadFilter selects dead letters.
type deadFilter struct {
	Team         string `help:"Only this team."`
	Subscription string `help:"Only this subscription."`
	Source       string `help:"Only this source."`
	Entity       string `help:"Only this entity."`
	Type         string `help:"Only this event type."`
	Destination  string `help:"Only this destination: TEAM/NAME, or NAME with --team."`
	Class        string `help:"Only this class of the last attempt, or gap, or unknown (the outcome)."`
	Group        string `help:"Only this group, as dlq groups lists them."`
	Since        string `help:"Only what died since: a duration back (1h, 2d) or an RFC 3339 time."`
}

func (f deadFilter) given() bool { return f != deadFilter{} }

func (f deadFilter) api(limit int) (api.DeadLetterFilter, error) {
	since, err := parseSince(f.Since, time.Now())
	return api.DeadLetterFilter{Team: f.Team, Subscription: f.Subscription, Source: f.Source, Entity: schemas.EntityKey(f.Entity), Type: f.Type,
		Destination: f.Destination, Class: f.Class, Group: f.Group, Since: since, Limit: limit}, err
}

type dlqListCmd struct {
	listenerFlag
	deadFilter
	Limit  int    `default:"50" help:"Most dead letters, 1 to 1000."`
	Cursor string `help:"Go on behind the page that ended with this."`
}

func (c *dlqListCmd) Run(e *env, client *api.Client) error {
	f, err := c.api(c.Limit)
	if err != nil {
		return err
	}
	f.Cursor = c.Cursor
	page, err := client.DeadLetters(e.ctx, f)
	if err != nil {
		return err
	}
	return list(e, page, deadID, deadColumns()...)
}

func deadID(i api.DeadLetterItem) string { return i.ID }

func deadColumns() []column[api.DeadLetterItem] {
	type item = api.DeadLetterItem
	return []column[item]{
		{name: "died", value: func(i item) string { return formatTime(i.DiedAt) }},
		{name: "subscription", value: func(i item) string { return i.Team + "." + i.Subscription }},
		{name: "entity", value: func(i item) string { return i.Entity }},
		{name: "type", value: func(i item) string { return i.Type }},
		{name: "destination", value: func(i item) string { return i.Destination }},
		{name: "status", value: func(i item) string { return i.Status }},
		{name: "class", value: func(i item) string { return i.Class }},
		{name: "code", wide: true, value: func(i item) string { return strconv.Itoa(i.Code) }},
		{name: "attempts", value: func(i item) string { return strconv.Itoa(i.Attempts) }},
		{name: "deaths", value: deathsText},
		{name: "behind", value: behindText},
		{name: "group", wide: true, value: func(i item) string { return i.Group }},
		{name: "error", value: func(i item) string { return i.Error }},
		{name: "event", wide: true, value: func(i item) string { return i.EventID }},
		{name: "action", value: deadID},
	}
}

func deathsText(i api.DeadLetterItem) string {
	if i.Flagged {
		return strconv.Itoa(i.Deaths) + " flagged"
	}
	return strconv.Itoa(i.Deaths)
}

func behindText(i api.DeadLetterItem) string {
	if !i.Parks {
		return ""
	}
	return countText(i.Behind, i.BehindAtLeast)
}

type dlqGroupsCmd struct {
	listenerFlag
	deadFilter
}

func (c *dlqGroupsCmd) Run(e *env, client *api.Client) error {
	f, err := c.api(0)
	if err != nil {
		return err
	}
	page, err := client.DeadLetterGroups(e.ctx, f)
	if err != nil {
		return err
	}
	type item = api.DeadLetterGroup
	return list(e, page, func(i item) string { return i.Group },
		column[item]{name: "group", value: func(i item) string { return i.Group }},
		column[item]{name: "count", value: func(i item) string { return strconv.FormatInt(i.Count, 10) }},
		column[item]{name: "entities", value: func(i item) string { return strconv.FormatInt(i.Entities, 10) }},
		column[item]{name: "flagged", value: func(i item) string { return strconv.FormatInt(i.Flagged, 10) }},
		column[item]{name: "class", value: func(i item) string { return i.Class }},
		column[item]{name: "destination", value: func(i item) string { return i.Destination }},
		column[item]{name: "type", value: func(i item) string { return i.Type }},
		column[item]{name: "first", value: func(i item) string { return formatTime(i.First) }},
		column[item]{name: "last", value: func(i item) string { return formatTime(i.Last) }})
}

type dlqGetCmd struct {
	listenerFlag
	Action string `arg:"" help:"The action, as dlq list -o id lists it."`
}

func (c *dlqGetCmd) Run(e *env, client *api.Client) error {
	d, err := client.DeadLetter(e.ctx, c.Action)
	if err != nil {
		return err
	}
	return one(e, d, d.ID, func(w io.Writer) { showDead(w, d) })
}

func showDead(w io.Writer, d *api.DeadLetterDetail) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, cell(value)) }
	line("action", d.ID)
	line("event", d.Team+"/"+d.Subscription+"/"+d.Source+"/"+d.EventID)
	line("type", d.Type)
	line("entity", d.Entity)
	line("version", d.Version)
	line("name", d.Action+" to "+d.Destination)
	line("status", d.Status)
	line("class", d.Class)
	line("code", strconv.Itoa(d.Code))
	line("error", d.Error)
	line("answer", d.Response)
	line("attempts", strconv.Itoa(d.Attempts))
	line("deaths", deathsText(d.DeadLetterItem))
	line("behind", behindText(d.DeadLetterItem))
	line("first attempt", formatOptionalTime(d.FirstAt))
	line("died", formatTime(d.DiedAt))
	line("group", d.Group)
	line("place", fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset))
	line("owner", d.Owner)
	if d.Status == "unknown" {
		fmt.Fprintln(w, "\nIts last attempt was marked before the call, and nobody knows whether the destination has acted: look there, then")
		fmt.Fprintln(w, "`dlq resolve` it as done, or `dlq replay --outcome-unknown` it.")
	}
	for _, t := range d.History {
		attemptLine(w, &t)
	}
	for _, a := range d.Commands {
		fmt.Fprintf(w, "%s %s by %s: %s: %s\n", formatTime(a.AskedAt), plain(string(a.Kind)), plain(a.By), plain(a.Reason), plain(cmp.Or(a.Outcome, "not done yet")))
	}
}

// dlqAskFlags are shared by the commands that change dead letters.
type dlqAskFlags struct {
	listenerFlag
	Action []string `arg:"" optional:"" help:"Actions, as dlq list -o id lists them; else a filter selects them."`
	deadFilter
	All    bool    `help:"All of them, without a filter."`
	Reason string  `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool    `help:"Say what would be done and do nothing."`
	Rate   float64 `default:"50" help:"Most actions a second."`
}

func (c *dlqAskFlags) check() error {
	c.Reason = strings.TrimSpace(c.Reason)
	switch {
	case len(c.Action) > 0 && (c.given() || c.All):
		return usage("either actions by name, or a filter")
	case len(c.Action) == 0 && !c.given() && !c.All:
		return usage("which? actions by name, --group, another filter, or --all")
	case c.Reason == "" && !c.DryRun:
		return usage("--reason is needed: it is kept with what is done (--dry-run shows what that is)")
	case c.Rate <= 0:
		return usage("--rate %v is no number of actions a second", c.Rate)
	}
	return nil
}

type dlqReplayCmd struct {
	dlqAskFlags
	Flagged        bool `help:"Also what has died three times or more; what is named is replayed in any case."`
	OutcomeUnknown bool `help:"Also actions whose outcome is unknown, or of which no look can tell whether they were done: they may be done twice."`
	Force          bool `help:"Older snapshots run although newer ones of their entities have been started since."`
}

func (c *dlqReplayCmd) Run(e *env, client *api.Client) error {
	return c.dlqAskFlags.run(e, client, api.VerbReplay, api.DeadLetterRequest{Force: c.Force, OutcomeUnknown: c.OutcomeUnknown}, func(i *api.DeadLetterItem) string {
		switch {
		case i.Flagged && !c.Flagged:
			return "flagged: died three times or more (--flagged, or by name)"
		case i.Status == "unknown" && !c.OutcomeUnknown:
			return "outcome unknown (--outcome-unknown, or dlq resolve)"
		}
		return ""
	})
}

type dlqDiscardCmd struct{ dlqAskFlags }

func (c *dlqDiscardCmd) Run(e *env, client *api.Client) error {
	return c.dlqAskFlags.run(e, client, api.VerbDiscard, api.DeadLetterRequest{}, nil)
}

type dlqResolveCmd struct {
	dlqAskFlags
	As string `enum:"done" default:"done" help:"What became of it: ${enum}."`
}

func (c *dlqResolveCmd) Run(e *env, client *api.Client) error {
	return c.dlqAskFlags.run(e, client, api.VerbResolve, api.DeadLetterRequest{}, nil)
}

// run asks all that were named, or that the filter finds and leave leaves, in lane order: of an entity the head first.
func (c *dlqAskFlags) run(e *env, client *api.Client, verb string, req api.DeadLetterRequest, leave func(*api.DeadLetterItem) string) error {
	if err := c.check(); err != nil {
		return err
	}
	req.Reason, req.By, req.DryRun = c.Reason, whoAmI(), c.DryRun
	b := &bulk[api.DeadLetterAnswer]{env: e, rate: c.Rate, dryRun: c.DryRun, named: len(c.Action) > 0, left: map[string]int{}}
	add := func(i api.DeadLetterItem) {
		b.asks = append(b.asks, ask[api.DeadLetterAnswer]{name: i.ID, partition: deadPartition(&i), do: func(noWait bool) (*api.DeadLetterAnswer, string, error) {
			req.NoWait = noWait
			return askDead(e.ctx, client, &i, verb, req)
		}})
	}
	for _, id := range c.Action {
		add(api.DeadLetterItem{ID: id})
	}
	if !b.named {
		err := pages(e.ctx, client, c.deadFilter, func(i *api.DeadLetterItem) error {
			why := ""
			if leave != nil {
				why = leave(i)
			}
			if why == "" {
				add(*i)
			} else {
				b.left[why]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return b.run(func(i api.DeadLetterAnswer) string { return i.ID }, answerColumns...)
}

func deadPartition(i *api.DeadLetterItem) string {
	if i.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s.%s %s/%d", i.Team, i.Subscription, i.Topic, i.Partition)
}

// askDead asks one, and says what stood behind it: the answer comes without a count.
func askDead(ctx context.Context, client *api.Client, i *api.DeadLetterItem, verb string, req api.DeadLetterRequest) (*api.DeadLetterAnswer, string, error) {
	answer, err := client.AskDeadLetter(ctx, i.ID, verb, req)
	if err != nil {
		return nil, "", err
	}
	if req.DryRun && i.Topic == "" { // no list has told it
		if d, err := client.DeadLetter(ctx, i.ID); err == nil {
			i = &d.DeadLetterItem
		}
	}
	answer.Behind, answer.BehindAtLeast = i.Behind, i.BehindAtLeast
	return answer, answer.State, nil
}

var answerColumns = []column[api.DeadLetterAnswer]{
	{name: "action", value: func(i api.DeadLetterAnswer) string { return i.ID }},
	{name: "subscription", value: func(i api.DeadLetterAnswer) string { return i.Team + "." + i.Subscription }},
	{name: "entity", value: func(i api.DeadLetterAnswer) string { return i.Entity }},
	{name: "was", value: func(i api.DeadLetterAnswer) string { return strings.TrimSpace(i.Status + " " + i.Class) }},
	{name: "behind", value: func(i api.DeadLetterAnswer) string { return behindText(i.DeadLetterItem) }},
	{name: "state", value: func(i api.DeadLetterAnswer) string { return i.State }},
	{name: "detail", value: func(i api.DeadLetterAnswer) string { return i.Detail }},
	{name: "event", value: func(i api.DeadLetterAnswer) string { return i.EventID }},
}

// pages walks over everything that a filter selects.
func pages(ctx context.Context, client *api.Client, by deadFilter, each func(*api.DeadLetterItem) error) error {
	f, err := by.api(1000)
	for err == nil {
		var page api.Page[api.DeadLetterItem]
		if page, err = client.DeadLetters(ctx, f); err != nil {
			return err
		}
		for n := range page.Items {
			if err := each(&page.Items[n]); err != nil {
				return err
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
	return err
}

type dlqExportCmd struct {
	listenerFlag
	deadFilter
	File string `short:"f" placeholder:"FILE" help:"Write into this file, which must not exist, instead of to stdout."`
}

// Run writes one JSON line for each dead letter, with its fields and its record as the dead topic has it.
func (c *dlqExportCmd) Run(e *env, client *api.Client) error {
	out := e.Stdout
	if c.File != "" {
		file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // bodies may be anything
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	n, printed := 0, time.Now()
	err := pages(e.ctx, client, c.deadFilter, func(i *api.DeadLetterItem) error {
		rec, err := client.DeadRecord(e.ctx, i.ID)
		if err != nil {
			if schemas.KindOf(err) == schemas.NotFound {
				return nil // it has gone on meanwhile
			}
			return err
		}
		if n++; time.Since(printed) >= progressEvery {
			printed = time.Now()
			fmt.Fprintf(e.Stderr, "%d written\n", n)
		}
		return enc.Encode(struct {
			api.DeadLetterItem
			Record *api.DeadRecord `json:"record"`
		}{*i, rec})
	})
	fmt.Fprintf(e.Stderr, "%d written\n", n)
	return err
}
