package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

type replayPlanCmd struct {
	listenerFlag
	Event        []string `arg:"" optional:"" name:"event" help:"Only these events, as inbox list -o id lists them, or those of dead letters. Without a range: from the first to the last of them."`
	Subscription string   `placeholder:"TEAM.SUB" help:"The subscription: TEAM.SUBSCRIPTION, or its name alone."`
	Mode         string   `default:"fill" help:"What is to run. fill: what the subscription never ran. reprocess: what it ran, again, under ids of the replay's own. Both behind the live events of the same entity. shadow: nothing; it says what would run, and how that differs from what ran."`
	Since        string   `placeholder:"TIME" help:"Records from this time on: RFC 3339, or how long ago (24h, 7d). Default: the log's start."`
	Until        string   `placeholder:"TIME" help:"Records before this time. Default: up to where the subscription stands."`
	FromOffset   []string `placeholder:"P=OFFSET" help:"From this offset of a partition, [TOPIC/]PARTITION=OFFSET; only partitions with an offset are replayed. Repeatable."`
	ToOffset     []string `placeholder:"P=OFFSET" help:"Up to before this offset of a partition. Repeatable."`
	Source       []string `help:"Only this source of the subscription. Repeatable."`
	Type         []string `help:"Only this event type, or a glob. Repeatable."`
	Entity       string   `help:"Only this entity."`
	Decision     []string `help:"Only events with this decision in the ledger: undecided, filtered, conflict, quarantined; with reprocess applied, late (both by default), stale; with shadow any. Repeatable."`
	Status       []string `placeholder:"STATUS" enum:"${statuses}" help:"Only what has this status in the inbox when the replay comes to it: with reprocess done, superseded, discarded, stale, skipped, dropped, denied (all by default); with fill filtered, conflict, quarantined, discarded; with shadow any. Repeatable."`
	EvenStale    bool     `help:"With reprocess, and shadow: run older snapshots again, too, although a newer state of their entity is known: the older one may overwrite it."`
	Rate         int      `default:"100" help:"The most events that run in a second; 0: no limit."`
	MaxErrors    int      `default:"10" help:"Most dead letters and unknown outcomes of the replay; with one more it ends."`
	Continue     string   `placeholder:"ID" help:"Go on counting in a plan that was interrupted."`
}

// Run makes a plan, and counts until it has come to the end.
func (c *replayPlanCmd) Run(e *env, client *api.Client) error {
	item, err := c.begin(e, client)
	if err == nil && item.State == "counting" {
		item, err = count(e, client, item)
	}
	if err != nil {
		return err
	}
	return printOne(e, item, item.ID, func(w io.Writer) { showReplay(w, item) })
}

// count counts a plan to its end, and says how far it is.
func count(e *env, client *api.Client, item *api.ReplayItem) (_ *api.ReplayItem, err error) {
	fmt.Fprintf(e.Stderr, "counting; interrupted, `forebay replay plan --continue %s` goes on\n", plain(item.ID))
	p := e.progress()
	defer p.clear()
	for err == nil && item.State == "counting" {
		p.say(item.Range.Counted, item.Range.Offsets, fmt.Sprintf("%d of %d offsets", item.Range.Counted, item.Range.Offsets))
		item, err = client.CountReplay(e.ctx, item.ID)
	}
	return item, err
}

func (c *replayPlanCmd) begin(e *env, client *api.Client) (*api.ReplayItem, error) {
	switch {
	case c.Continue != "":
		return client.CountReplay(e.ctx, c.Continue)
	case c.Subscription == "" && len(c.Event) == 0:
		return nil, usageError("--subscription TEAM.SUBSCRIPTION is needed: whose replay is it?")
	}
	var team, name string
	var err error
	if c.Subscription != "" {
		if team, name, err = subscriptionNamed(e, client, c.Subscription); err != nil {
			return nil, err
		}
	}
	var events []string
	for _, text := range c.Event {
		n, err := eventOf(e.ctx, client, text)
		if err != nil {
			return nil, err
		}
		team, name, events = cmp.Or(team, n.Team), cmp.Or(name, n.Subscription), append(events, n.String())
	}
	plan := api.ReplayPlan{Team: team, Subscription: name, Mode: c.Mode, Events: events, Sources: c.Source, Types: c.Type, Entity: c.Entity, Decisions: c.Decision, Statuses: c.Status,
		EvenStale: c.EvenStale, Rate: c.Rate, MaxErrors: c.MaxErrors, By: whoAmI()}
	if plan.Since, err = parseWhen("--since", c.Since); err != nil {
		return nil, err
	}
	if plan.Until, err = parseWhen("--until", c.Until); err != nil {
		return nil, err
	}
	if plan.Offsets, err = parseOffsets(c.FromOffset, c.ToOffset); err != nil {
		return nil, err
	}
	return client.PlanReplay(e.ctx, plan)
}

// parseWhen reads a time, or how long ago it was; nil for an empty text.
func parseWhen(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := parseAt(flag, text, time.Now())
	return &at, err
}

// parseOffsets reads [TOPIC/]PARTITION=OFFSET.
func parseOffsets(from, to []string) (list []api.ReplayOffset, err error) {
	add := func(flag, text string, set func(*api.ReplayOffset, int64)) error {
		place, offset, ok := strings.Cut(text, "=")
		topic, number := "", place
		if i := strings.LastIndex(place, "/"); i >= 0 {
			topic, number = place[:i], place[i+1:]
		}
		partition, err1 := strconv.ParseInt(number, 10, 32)
		at, err2 := strconv.ParseInt(offset, 10, 64)
		if !ok || err1 != nil || err2 != nil || partition < 0 || at < 0 {
			return usageError("%s %s is not [TOPIC/]PARTITION=OFFSET", flag, text)
		}
		i := slices.IndexFunc(list, func(o api.ReplayOffset) bool { return o.Topic == topic && o.Partition == int32(partition) })
		if i < 0 {
			i, list = len(list), append(list, api.ReplayOffset{Topic: topic, Partition: int32(partition)})
		}
		set(&list[i], at)
		return nil
	}
	for _, text := range from {
		if err := add("--from-offset", text, func(o *api.ReplayOffset, at int64) { o.From = &at }); err != nil {
			return nil, err
		}
	}
	for _, text := range to {
		if err := add("--to-offset", text, func(o *api.ReplayOffset, at int64) { o.To = &at }); err != nil {
			return nil, err
		}
	}
	return list, nil
}

type replayArg struct {
	ID string `arg:"" help:"The replay, as replay list -o id lists it."`
}

type replayStartCmd struct {
	listenerFlag
	replayArg
	Reason string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool   `help:"Show the plan and start nothing."`
}

func (c *replayStartCmd) Run(e *env, client *api.Client) error {
	if c.DryRun {
		return showOne(e, client, c.ID)
	}
	return askReplay(e, client, c.ID, "start", c.Reason, "started: the owners of the partitions run it; `forebay replay watch %s` shows how far it is")
}

type replayCancelCmd struct {
	listenerFlag
	replayArg
	Reason string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun bool   `help:"Show it, and end nothing."`
}

func (c *replayCancelCmd) Run(e *env, client *api.Client) error {
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was ended")
		return showOne(e, client, c.ID)
	}
	return askReplay(e, client, c.ID, "cancel", c.Reason, "cancelled: replay %s decides nothing more; what it has decided is in the lanes, and runs")
}

func askReplay(e *env, client *api.Client, id, verb, reason, done string) error {
	if reason = strings.TrimSpace(reason); reason == "" {
		return usageError("--reason is needed: it is kept with the replay")
	}
	item, err := client.AskReplay(e.ctx, id, verb, api.ReplayRequest{By: whoAmI(), Reason: reason})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, done+"\n", plain(id))
	return printOne(e, item, item.ID, func(w io.Writer) { showReplay(w, item) })
}

type replayGetCmd struct {
	listenerFlag
	watchFlag
	replayArg
}

func (c *replayGetCmd) Run(e *env, client *api.Client) error { return showOne(e, client, c.ID) }

func showOne(e *env, client *api.Client, id string) error {
	item, err := client.Replay(e.ctx, id)
	if err != nil {
		return err
	}
	return printOne(e, item, item.ID, func(w io.Writer) { showReplay(w, item) })
}

type replayListCmd struct {
	listenerFlag
	watchFlag
	Team         string `help:"Only this team."`
	Subscription string `help:"Only this subscription: TEAM.SUBSCRIPTION, or its name alone."`
	Since        string `help:"Only those planned since: a duration back (1h, 2d) or an RFC 3339 time."`
	Limit        int    `default:"50" help:"The most that are listed, the newest first."`
	Cursor       string `help:"Go on behind the page that ended with this."`
}

func (c *replayListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Replays(e.ctx, api.ReplayFilter{Team: c.Team, Subscription: c.Subscription, Limit: c.Limit, Cursor: c.Cursor})
	if err == nil {
		page, err = onlySince(c.Since, page, func(i api.ReplayItem) *time.Time { return i.PlannedAt })
	}
	if err != nil {
		return err
	}
	type item = api.ReplayItem
	return printList(e, page, func(i item) string { return i.ID },
		column[item]{name: "replay", whole: true, value: func(i item) string { return i.ID }},
		column[item]{name: "subscription", whole: true, value: func(i item) string { return i.Team + "." + i.Subscription }},
		column[item]{name: "mode", value: func(i item) string { return i.Mode }},
		column[item]{name: "state", whole: true, value: func(i item) string { return i.State }},
		column[item]{name: "passed", value: func(i item) string { return passedText(&i) }},
		column[item]{name: "ran", value: func(i item) string { return strconv.FormatInt(ranOf(&i), 10) }},
		column[item]{name: "errors", value: func(i item) string { return strconv.Itoa(i.Errors) }},
		column[item]{name: "planned", at: func(i item) *time.Time { return i.PlannedAt }},
		column[item]{name: "reason", wide: true, value: func(i item) string { return i.Reason }},
		column[item]{name: "detail", wide: true, value: func(i item) string { return i.Detail }})
}

// ranOf is how many events run by a replay.
func ranOf(i *api.ReplayItem) int64 {
	if i.Mode == "shadow" {
		return 0
	}
	return i.Applied + i.Late
}

// passedText says how much of its range a replay has passed.
func passedText(i *api.ReplayItem) string {
	if i.StartedAt == nil || i.Range.Offsets == 0 {
		return ""
	}
	return strconv.FormatInt(i.Range.Passed*100/i.Range.Offsets, 10) + "%"
}

// showReplay writes a plan and what came of it.
func showReplay(w io.Writer, i *api.ReplayItem) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-13s %s\n", name, plain(value))
		}
	}
	line("replay", i.ID)
	line("subscription", i.Team+"."+i.Subscription)
	line("mode", modeText(i))
	line("state", i.State)
	line("detail", i.Detail)
	for _, id := range i.Events {
		line("event", id)
	}
	line("sources", strings.Join(i.Sources, ", "))
	line("types", strings.Join(i.Types, ", "))
	line("entity", i.Entity)
	line("decisions", strings.Join(i.Decisions, ", "))
	line("statuses", strings.Join(i.Statuses, ", "))
	line("planned", strings.TrimSpace(formatOptionalTime(i.PlannedAt)+" by "+i.PlannedBy))
	line("records", strconv.FormatInt(i.Records, 10))
	line("may run", mayRunText(i))
	line("at most", fmt.Sprintf("%d dead letters", i.MaxErrors))
	for _, note := range i.Notes {
		line("note", note)
	}
	showCounts(w, "by decision", i.ByDecision, false)
	showCounts(w, "by type", i.ByType, false)
	showCounts(w, "by entity", i.ByEntity, i.EntityRest)
	if i.StartedAt != nil {
		line("started", fmt.Sprintf("%s by %s: %s", formatOptionalTime(i.StartedAt), i.StartedBy, i.Reason))
		line("passed", fmt.Sprintf("%d of %d offsets (%s)", i.Range.Passed, i.Range.Offsets, passedText(i)))
		line("came of it", i.CameOfIt())
	}
	showShadow(w, i)
	if i.CancelledAt != nil {
		line("cancelled", fmt.Sprintf("%s by %s: %s", formatOptionalTime(i.CancelledAt), i.CancelledBy, i.CancelledReason))
	}
	for _, p := range i.Partitions {
		fmt.Fprintf(w, "\n%s/%d: %d..%d%s\n", plain(p.Topic), p.Partition, p.From, p.To, plain(partText(p)))
	}
	if i.Left != "" {
		fmt.Fprintf(w, "\nleft: %s\n", plain(i.Left))
	}
	if i.State == "planned" {
		fmt.Fprintf(w, "\nrun: forebay replay start %s --reason TEXT\n", i.ID)
	}
}

// showShadow writes what a shadow has found.
func showShadow(w io.Writer, i *api.ReplayItem) {
	if i.Mode != "shadow" || i.StartedAt == nil {
		return
	}
	title := "found"
	for _, c := range i.Shadow {
		text := cmp.Or(c.Type, "other types") + ": " + c.Was + ", now " + c.Would
		if c.Differs != "" {
			text += ": " + api.DiffersText(c.Differs)
		}
		fmt.Fprintf(w, "%-13s %8d %s\n", title, c.Events, plain(text))
		title = ""
	}
	title = "differ"
	for n, d := range i.Differences {
		if n == shownCounts {
			fmt.Fprintf(w, "%-13s and others: -o json has them\n", "")
			return
		}
		text := api.DiffersText(d.Differs)
		if d.Differs == "other" {
			text += ": " + cmp.Or(d.Ran, "none") + "; now " + cmp.Or(d.Runs, "none")
		}
		fmt.Fprintf(w, "%-13s %s %s\n", title, plain(d.Event), plain(text))
		title = ""
	}
}

func modeText(i *api.ReplayItem) string {
	if i.EvenStale {
		return i.Mode + ", older snapshots too"
	}
	return i.Mode
}

// mayRunText says how many events may run, and how long that takes.
func mayRunText(i *api.ReplayItem) string {
	if i.Mode == "shadow" {
		return "nothing: it says what would"
	}
	text := fmt.Sprintf("%d events, %d actions at most", i.Runs, i.Actions)
	if i.Rate > 0 {
		text += fmt.Sprintf(", %s at %d a second", time.Duration(i.Seconds)*time.Second, i.Rate)
	}
	return text
}

func partText(p api.ReplayPartition) string {
	switch {
	case p.Next == nil && p.FirstAt != nil:
		return ", from " + formatOptionalTime(p.FirstAt)
	case p.Next == nil:
		return ""
	case p.EndedAt == nil:
		return fmt.Sprintf(", at %d, run by %s", *p.Next, cmp.Or(p.Owner, "nobody"))
	}
	return strings.TrimSuffix(fmt.Sprintf(", ended at %d %s", *p.Next, p.Failure), " ")
}

// shownCounts is how many names a plan's counts show.
const shownCounts = 10

// showCounts writes the names with the most events. rest says that there are more than are counted.
func showCounts(w io.Writer, title string, counts map[string]int64, rest bool) {
	sorted := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b)) })
	for n, name := range sorted {
		if n == shownCounts {
			fmt.Fprintf(w, "%-13s %8s and others: -o json has them\n", "", "")
			return
		}
		fmt.Fprintf(w, "%-13s %8d %s\n", title, counts[name], plain(name))
		title = ""
	}
	if rest {
		fmt.Fprintf(w, "%-13s %8s and others\n", "", "")
	}
}

type replayWatchCmd struct {
	listenerFlag
	replayArg
}

// watchEvery is how often a replay is looked at.
const watchEvery = time.Second

// Run shows how far a replay is until it has ended: in one line on a terminal, elsewhere in a JSON line for each change. It fails unless the
// replay is done.
func (c *replayWatchCmd) Run(e *env, client *api.Client) error {
	show, shown := showJSONLine(e), func() {}
	if terminal(e.Stdout) && e.output == "table" {
		show, shown = showBar(e), func() { fmt.Fprintln(e.Stdout) }
	}
	for {
		item, err := client.Replay(e.ctx, c.ID)
		if err == nil {
			err = show(item)
		} else if schemas.KindOf(err) == schemas.Unavailable && e.ctx.Err() == nil {
			fmt.Fprintln(e.Stderr, "forebay:", err, "(asking again)")
			err = nil
		}
		if err != nil {
			shown()
			return err
		}
		if item != nil && item.State != "running" {
			shown()
			return watchedEnd(item)
		}
		if err := wait(e.ctx, watchEvery); err != nil {
			shown()
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watchedEnd is the error of a replay that is not done.
func watchedEnd(i *api.ReplayItem) error {
	switch i.State {
	case "done":
		return nil
	case "counting", "planned":
		return schemas.Errorf(schemas.Conflict, "", "replay %s is %s: it was not started", i.ID, i.State)
	}
	return schemas.Errorf(schemas.Permanent, "", "replay %s is %s %s", i.ID, i.State, plain(i.Detail))
}

// terminal reports whether w is a terminal.
func terminal(v any) bool {
	f, ok := under(v).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// showJSONLine returns a function that prints a replay as a line of JSON, if it has changed.
func showJSONLine(e *env) func(*api.ReplayItem) error {
	var last string
	return func(i *api.ReplayItem) error {
		line := fmt.Sprintf(`{"id":%q,"state":%q,"passed":%d,"offsets":%d,"ran":%d,"done":%d,"stale":%d,"waits":%d,"rejected":%d,"errors":%d}`,
			i.ID, i.State, i.Range.Passed, i.Range.Offsets, ranOf(i), i.Done, i.Stale, i.Waits, i.Rejected, i.Errors)
		if line == last {
			return nil
		}
		last = line
		_, err := fmt.Fprintln(e.Stdout, line)
		return err
	}
}

// showBar returns a function that draws how far a replay is over the line before.
func showBar(e *env) func(*api.ReplayItem) error {
	return func(i *api.ReplayItem) error {
		_, err := fmt.Fprintf(e.Stdout, "%s%s %4s %s, %d ran, %d done before, %d errors", clearLine, barText(i.Range.Passed, i.Range.Offsets), passedText(i), i.State, ranOf(i), i.Done, i.Errors)
		return err
	}
}
