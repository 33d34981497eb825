package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// deadLetterFilter selects dead letters.
type deadLetterFilter struct {
	scopeFlags
	Destination string `help:"Only this destination: TEAM/DESTINATION, or its name alone."`
	Class       string `help:"Only this class of the last attempt, or gap, or unknown (the outcome)."`
	Group       string `help:"Only this group, as dlq groups lists them; it may be cut off."`
	Since       string `help:"Only what died since: a duration back (1h, 2d) or an RFC 3339 time."`
}

// isSet tells whether at least one flag of the filter was given.
func (f deadLetterFilter) isSet() bool { return f != deadLetterFilter{} }

// query returns the filter for the API. The limit is the largest number of items on a page; 0 leaves it to the listener.
func (f deadLetterFilter) query(limit int) (api.DeadLetterFilter, error) {
	since, err := parseSince(f.Since, time.Now())
	return api.DeadLetterFilter{Team: f.Team, Subscription: f.Subscription, Source: f.Source, Entity: schemas.EntityKey(f.Entity), Type: f.Type,
		Destination: f.Destination, Class: f.Class, Group: f.Group, Since: since, Limit: limit}, err
}

// total counts the dead letters that the filter selects; 0 if that cannot be had, or not to the end.
func (f deadLetterFilter) total(ctx context.Context, client *api.Client) (n int64) {
	query, err := f.query(0)
	if err != nil {
		return 0
	}
	groups, err := client.DeadLetterGroups(ctx, query)
	if err != nil || groups.More {
		return 0
	}
	for _, g := range groups.Items {
		n += g.Count
	}
	return n
}

type dlqListCmd struct {
	listenerFlag
	watchFlag
	deadLetterFilter
	Limit  int    `default:"50" help:"Most dead letters, 1 to 1000."`
	Cursor string `help:"Go on behind the page that ended with this."`
}

func (c *dlqListCmd) Run(e *env, client *api.Client) error {
	f, err := c.query(c.Limit)
	if err != nil {
		return err
	}
	f.Cursor = c.Cursor
	page, err := client.DeadLetters(e.ctx, f)
	if err != nil {
		return err
	}
	return printList(e, page, deadID, deadColumns()...)
}

func deadID(i api.DeadLetterItem) string { return i.ID }

// deadColumns are the columns of a list of dead letters.
func deadColumns() []column[api.DeadLetterItem] {
	type item = api.DeadLetterItem
	return []column[item]{
		{name: "died", at: func(i item) *time.Time { return &i.DiedAt }},
		{name: "subscription", wide: true, value: func(i item) string { return i.Team + "." + i.Subscription }},
		{name: "entity", tail: true, value: func(i item) string { return i.Entity }},
		{name: "type", wide: true, value: func(i item) string { return i.Type }},
		{name: "destination", value: func(i item) string { return i.Destination }},
		{name: "status", value: func(i item) string { return i.Status }},
		{name: "class", wide: true, value: func(i item) string { return i.Class }},
		{name: "code", wide: true, value: func(i item) string { return strconv.Itoa(i.Code) }},
		{name: "attempts", wide: true, value: func(i item) string { return strconv.Itoa(i.Attempts) }},
		{name: "deaths", wide: true, value: deathsText},
		{name: "behind", value: behindText},
		{name: "group", wide: true, value: func(i item) string { return i.Group }},
		{name: "error", value: func(i item) string { return i.Error }},
		{name: "event", wide: true, value: func(i item) string { return i.EventID }},
		{name: "action", whole: true, value: deadID},
	}
}

// deathsText returns how often an action was given up, and whether that is often enough to be flagged.
func deathsText(i api.DeadLetterItem) string {
	if i.Flagged {
		return strconv.Itoa(i.Deaths) + " flagged"
	}
	return strconv.Itoa(i.Deaths)
}

// behindText returns how many events wait behind a dead letter; empty if its entity does not wait for it.
func behindText(i api.DeadLetterItem) string {
	if !i.Parks {
		return ""
	}
	return countText(i.Behind, i.BehindAtLeast)
}

type dlqGroupsCmd struct {
	listenerFlag
	watchFlag
	deadLetterFilter
}

// Run prints one line per group of dead letters: those of the same class of failure, status, destination and event type. They have the same
// fingerprint, which is the id of the group for --group. The column flagged counts those that were given up three times or more.
func (c *dlqGroupsCmd) Run(e *env, client *api.Client) error {
	f, err := c.query(0) // groups have no pages
	if err != nil {
		return err
	}
	page, err := client.DeadLetterGroups(e.ctx, f)
	if err != nil {
		return err
	}
	type item = api.DeadLetterGroup
	return printList(e, page, func(i item) string { return i.Group },
		column[item]{name: "group", whole: true, value: func(i item) string { return i.Group }},
		column[item]{name: "count", value: func(i item) string { return strconv.FormatInt(i.Count, 10) }},
		column[item]{name: "entities", value: func(i item) string { return strconv.FormatInt(i.Entities, 10) }},
		column[item]{name: "flagged", value: func(i item) string { return strconv.FormatInt(i.Flagged, 10) }},
		column[item]{name: "class", value: func(i item) string { return i.Class }},
		column[item]{name: "code", value: func(i item) string { return strconv.Itoa(i.Code) }},
		column[item]{name: "destination", value: func(i item) string { return i.Destination }},
		column[item]{name: "type", tail: true, value: func(i item) string { return i.Type }},
		column[item]{name: "first", wide: true, at: func(i item) *time.Time { return &i.First }},
		column[item]{name: "last", at: func(i item) *time.Time { return &i.Last }})
}

type dlqGetCmd struct {
	listenerFlag
	watchFlag
	Action string `arg:"" help:"The action, as dlq list -o id lists it, which may be cut off; or its event, as inbox list -o id lists it."`
}

func (c *dlqGetCmd) Run(e *env, client *api.Client) error {
	ids, err := deadActionsOf(e.ctx, client, c.Action)
	if err != nil {
		return err
	}
	if len(ids) > 1 {
		return usageError("%s has %d dead letters: %s; give the id of one", c.Action, len(ids), strings.Join(ids, ", "))
	}
	d, err := client.DeadLetter(e.ctx, ids[0])
	if err != nil {
		return err
	}
	return printOne(e, d, d.ID, func(w io.Writer) { showDead(w, d) })
}

// showDead writes all that is known of a dead letter: its fields, its attempts and what operators asked of it.
func showDead(w io.Writer, d *api.DeadLetterDetail) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, cell(value)) }
	line("action", d.ID)
	line("event", names.Event{Team: d.Team, Subscription: d.Subscription, Source: d.Source, ID: d.EventID}.String())
	if d.Generation != 0 {
		line("replay", replayText(d.Generation))
	}
	line("type", d.Type)
	line("entity", d.Entity)
	line("version", d.Version)
	line("name", d.Action+" to "+d.Destination)
	if d.URL != "" {
		line("url", d.URL)
	}
	line("status", d.Status)
	line("class", d.Class)
	line("code", strconv.Itoa(d.Code))
	line("error", d.Error)
	fmt.Fprintf(w, "%-13s %s\n", "answer", cmp.Or(plainLines(d.Response, "              "), none))
	line("attempts", strconv.Itoa(d.Attempts))
	line("deaths", deathsText(d.DeadLetterItem))
	line("behind", behindText(d.DeadLetterItem))
	line("first attempt", formatOptionalTime(d.FirstAt))
	line(diedLabel(&d.DeadLetterItem), formatTime(d.DiedAt))
	line("group", d.Group)
	line("place", fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset))
	line("owner", d.Owner)
	if d.Status == "unknown" {
		fmt.Fprintln(w, "\nIts last attempt was marked before the call, and nobody knows whether the destination has acted: look there, then")
		fmt.Fprintln(w, "`dlq resolve` it as done, or `dlq replay --outcome-unknown` it.")
	}
	for _, attempt := range d.History {
		writeAttempt(w, &attempt)
	}
	for _, c := range d.Commands {
		fmt.Fprintf(w, "%s %s by %s: %s: %s\n", formatTime(c.AskedAt), plain(string(c.Kind)), plain(c.By), plain(c.Reason), plain(cmp.Or(c.Outcome, "not done yet")))
	}
}

// diedLabel names what DiedAt is the time of.
func diedLabel(i *api.DeadLetterItem) string {
	switch {
	case i.Dead():
		return "died"
	case i.Ended():
		return "ended"
	}
	return "last attempt"
}

// dlqAskFlags are the flags of replay, discard and resolve.
type dlqAskFlags struct {
	listenerFlag
	Action []string `arg:"" optional:"" help:"Actions, as dlq list -o id lists them, which may be cut off; or events, as inbox list -o id lists them, with all of theirs; else a filter selects them."`
	deadLetterFilter
	All    bool   `help:"All of them, without a filter."`
	Reason string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool   `help:"Say what would be done and do nothing."`
	yesFlag
	Rate float64 `default:"50" help:"Most actions a second."`
}

// check trims the reason and refuses flags that contradict each other or leave open what is meant. --all is allowed beside a filter,
// which then narrows it.
func (c *dlqAskFlags) check() error {
	c.Reason = strings.TrimSpace(c.Reason)
	byName, byFilter := len(c.Action) > 0, c.isSet() || c.All
	switch {
	case byName && byFilter:
		return usageError("either actions by name, or a filter")
	case !byName && !byFilter:
		return usageError("which? actions by name, --group, another filter, or --all")
	case c.Reason == "" && !c.DryRun:
		return usageError("--reason is needed: it is kept with what is done (--dry-run shows what that is)")
	case c.Rate <= 0:
		return usageError("--rate %v is no number of actions a second", c.Rate)
	}
	return nil
}

type dlqReplayCmd struct {
	dlqAskFlags
	Flagged        bool `help:"Also what has died three times or more; what is named is replayed in any case."`
	OutcomeUnknown bool `help:"Also actions whose outcome is unknown, or of which no look can tell whether they were done: they may be done twice."`
	Force          bool `help:"Older snapshots run although their entities have newer versions."`
}

// Run replays dead letters. Of those that a filter finds it leaves out what has died often and what has an unknown outcome, unless
// flags include them.
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

// run sends the request for every dead letter that was named, in that order, or that the filter finds, in lane order: the head of a lane
// first. leaveOut returns why a dead letter that the filter finds gets no request, empty if it gets one; nil leaves out none.
func (c *dlqAskFlags) run(e *env, client *api.Client, verb string, req api.DeadLetterRequest, leaveOut func(*api.DeadLetterItem) string) error {
	if err := c.check(); err != nil {
		return err
	}
	req.Reason, req.By, req.DryRun = c.Reason, whoAmI(), c.DryRun
	req.Watch = len(c.Action) > 0 // of many that a filter finds, each would be waited for
	b := &bulk[api.DeadLetterAnswer]{env: e, rate: c.Rate, dryRun: c.DryRun, does: verb, yes: c.Yes, named: len(c.Action) > 0, leftOut: map[string]int{}}
	add := func(i *api.DeadLetterItem) { // of which little is kept: there may be hundreds of thousands
		id, was := i.ID, standing{i.Topic != "", i.Behind, i.BehindAtLeast}
		b.requests = append(b.requests, request[api.DeadLetterAnswer]{name: id, partition: deadPartition(i), do: func(noWait bool) (*api.DeadLetterAnswer, string, error) {
			req.NoWait = noWait
			return askDeadLetter(e.ctx, client, id, was, verb, req)
		}})
	}
	for _, text := range c.Action {
		ids, err := deadActionsOf(e.ctx, client, text)
		if err != nil {
			return err
		}
		for _, id := range ids {
			add(&api.DeadLetterItem{ID: id})
		}
	}
	if !b.named {
		found, p := int64(0), e.progress()
		var err error
		b.elsewhere, err = eachDeadLetter(e.ctx, client, c.deadLetterFilter, c.DryRun, func(i *api.DeadLetterItem) error {
			if found++; p.due() {
				p.say(found, 0, fmt.Sprintf("%d found", found))
			}
			if leaveOut != nil {
				if why := leaveOut(i); why != "" {
					b.leftOut[why]++
					return nil
				}
			}
			add(i)
			return nil
		})
		p.clear()
		if err != nil {
			return err
		}
	}
	return b.run(func(i api.DeadLetterAnswer) string { return i.ID }, answerColumns...)
}

// deadPartition names the partition whose owner applies a command about a dead letter; empty if only its id is known.
func deadPartition(i *api.DeadLetterItem) string {
	if i.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s.%s %s/%d", i.Team, i.Subscription, i.Topic, i.Partition)
}

// standing is what a list says of how many events wait behind a dead letter.
type standing struct {
	listed          bool // else its id alone is known
	behind, atLeast *int64
}

// askDeadLetter sends a request about a dead letter. The listener's answer does not count what waits behind it, so this takes the count of a
// list. For a dry run by id it asks for the count.
func askDeadLetter(ctx context.Context, client *api.Client, id string, was standing, verb string, req api.DeadLetterRequest) (*api.DeadLetterAnswer, string, error) {
	answer, err := client.AskDeadLetter(ctx, id, verb, req)
	if err != nil {
		return nil, "", err
	}
	if req.DryRun && !was.listed {
		if d, err := client.DeadLetter(ctx, id); err == nil {
			was.behind, was.atLeast = d.Behind, d.BehindAtLeast
		}
	}
	answer.Behind, answer.BehindAtLeast = was.behind, was.atLeast
	return answer, answer.State, nil
}

var answerColumns = []column[api.DeadLetterAnswer]{
	{name: "action", whole: true, value: func(i api.DeadLetterAnswer) string { return i.ID }},
	{name: "subscription", wide: true, value: func(i api.DeadLetterAnswer) string { return i.Team + "." + i.Subscription }},
	{name: "entity", tail: true, value: func(i api.DeadLetterAnswer) string { return i.Entity }},
	{name: "was", value: func(i api.DeadLetterAnswer) string { return strings.TrimSpace(i.Status + " " + i.Class) }},
	{name: "behind", value: func(i api.DeadLetterAnswer) string { return behindText(i.DeadLetterItem) }},
	{name: "state", value: func(i api.DeadLetterAnswer) string { return i.State }},
	{name: "detail", wrap: true, value: func(i api.DeadLetterAnswer) string { return i.Detail }},
	{name: "event", wide: true, value: func(i api.DeadLetterAnswer) string { return i.EventID }},
}

// eachDeadLetter calls do for every dead letter that a filter selects, page after page, until do returns an error. With behind, what waits
// behind each is counted. elsewhere are the subscriptions that the filter does not see.
func eachDeadLetter(ctx context.Context, client *api.Client, filter deadLetterFilter, behind bool, do func(*api.DeadLetterItem) error) (elsewhere []string, err error) {
	query, err := filter.query(1000)
	query.Uncounted = !behind
	if err != nil {
		return nil, err
	}
	for {
		page, err := client.DeadLetters(ctx, query)
		if err != nil {
			return elsewhere, err
		}
		elsewhere = page.Elsewhere
		for n := range page.Items {
			if err := do(&page.Items[n]); err != nil {
				return elsewhere, err
			}
		}
		if page.Next == "" {
			return elsewhere, nil
		}
		query.Cursor = page.Next
		if query.Group != "" { // it may be cut off: further pages need the whole
			query.Group = page.Items[0].Group
		}
	}
}

type dlqExportCmd struct {
	listenerFlag
	deadLetterFilter
	File string `short:"f" placeholder:"FILE" help:"Write into this file, which must not exist, instead of to stdout."`
}

// Run writes the dead letters into the file, or to stdout.
func (c *dlqExportCmd) Run(e *env, client *api.Client) error {
	if c.File == "" {
		return c.write(e, client, e.Stdout)
	}
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // bodies may hold secrets
	if err != nil {
		return err
	}
	err = errors.Join(c.write(e, client, file), file.Close())
	if err != nil { // a part would look like all of it, and keep the next try from being made
		err = errors.Join(err, os.Remove(c.File))
	}
	return err
}

// write writes one JSON line for each dead letter: its fields, and under "record" the record that the dead topic has of it. It says
// on stderr how many lines it has written, and on the way, how far it is.
func (c *dlqExportCmd) write(e *env, client *api.Client, w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	written, total, p := int64(0), int64(0), e.progress()
	if p.bar = p.bar && !terminal(w); p.bar { // on a terminal with the lines, a bar would be among them
		total = c.total(e.ctx, client)
		p.say(0, total, "0 written")
	}
	elsewhere, err := eachDeadLetter(e.ctx, client, c.deadLetterFilter, false, func(i *api.DeadLetterItem) error {
		rec, err := client.DeadRecord(e.ctx, i.ID)
		if err != nil {
			if schemas.KindOf(err) == schemas.NotFound {
				return nil // since the list was made, it has been replayed, discarded or resolved
			}
			return err
		}
		if err := enc.Encode(struct {
			api.DeadLetterItem
			Record *api.DeadRecord `json:"record"`
		}{*i, rec}); err != nil {
			return err
		}
		if written++; p.due() {
			p.say(written, total, fmt.Sprintf("%d written", written))
		}
		return nil
	})
	p.clear()
	fmt.Fprintf(e.Stderr, "%d written\n", written)
	sayMore(e, api.Page[any]{Elsewhere: elsewhere})
	return err
}
