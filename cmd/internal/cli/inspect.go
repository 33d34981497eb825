package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// listenerFlag names the process to ask, by its operator listener, and the token to ask with. There is no flag for the token itself: every
// user of the machine can read those.
type listenerFlag struct {
	URL       string `name:"url" env:"FOREBAY_URL" default:"http://127.0.0.1:9090" help:"Operator listener to ask."`
	TokenFile string `name:"token-file" env:"FOREBAY_TOKEN_FILE" placeholder:"FILE" help:"File with the token to ask with, where the listener wants one. Default: the variable FOREBAY_TOKEN."`

	profile   string // --profile or FOREBAY_PROFILE
	elsewhere bool   // URL is not of that
}

// AfterApply is called by kong when the flags are read. It makes the *api.Client that kong passes to the command's Run.
func (l *listenerFlag) AfterApply(ctx *kong.Context) error {
	l.profile, l.elsewhere = namedProfile(ctx), elsewhere(ctx)
	return ctx.BindToProvider(l.client)
}

// asking is what goes behind a command for it to ask the same process when it is pasted into the same shell; empty if it does by itself.
func (l *listenerFlag) asking() string {
	switch {
	case l.profile != "" && l.elsewhere:
	case l.profile != "" && os.Getenv("FOREBAY_PROFILE") == l.profile:
		return ""
	case l.profile != "":
		return " --profile " + l.profile
	case l.URL == cmp.Or(os.Getenv("FOREBAY_URL"), usualURL):
		return ""
	}
	return " --url " + l.URL
}

func (l *listenerFlag) client() (*api.Client, error) {
	token := os.Getenv("FOREBAY_TOKEN")
	if l.TokenFile != "" {
		text, err := os.ReadFile(l.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		if token = string(text); strings.TrimSpace(token) == "" {
			return nil, usageError("--token-file: %s has no token", l.TokenFile)
		}
	}
	c, err := api.NewClient(l.URL)
	if err != nil {
		return nil, err
	}
	return c.WithToken(strings.TrimSpace(token))
}

type inboxListCmd struct {
	listenerFlag
	watchFlag
	scopeFlags
	Status   string `help:"Only this status: received, buffered, processing, done, failed, dead_letter, parked, unknown, ..."`
	Decision string `help:"Only this decision: applied, duplicate (what came again), stale, late, conflict, buffered, parked, filtered, quarantined."`
	Delivery string `help:"Only the event of this delivery, by the provider's id of it (X-GitHub-Delivery). It is looked for in the log, the newest first; --since bounds how far back."`
	Since    string `help:"Only events received since: a duration back (1h, 2d) or an RFC 3339 time."`
	Limit    int    `default:"50" help:"Most events, 1 to 1000."`
	Cursor   string `help:"Go on behind the page that ended with this."`
}

func (c *inboxListCmd) Run(e *env, client *api.Client) error {
	since, err := parseSince(c.Since, time.Now())
	if err != nil {
		return err
	}
	page, err := searchItems(e, client, api.InboxFilter{Team: c.Team, Subscription: c.Subscription, Source: c.Source, Entity: schemas.EntityKey(c.Entity),
		Type: c.Type, Status: c.Status, Decision: gate.Decision(c.Decision), Delivery: c.Delivery, Since: since, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return err
	}
	if err := noDelivery(e, c.Delivery, page); err != nil {
		return err
	}
	type item = api.InboxItem
	// Of quarantined records, reason, error and place are most of what is known.
	undecided := c.Decision == string(gate.Quarantined)
	return printList(e, page, itemID,
		column[item]{name: "received", at: func(i item) *time.Time { return i.ReceivedAt }},
		column[item]{name: "subscription", value: func(i item) string { return i.Team + "." + i.Subscription }},
		column[item]{name: "source", wide: true, value: func(i item) string { return sourceText(i.Team, i.Source) }},
		column[item]{name: "entity", tail: true, wide: undecided, value: func(i item) string { return i.Entity }},
		column[item]{name: "type", tail: true, wide: undecided, value: func(i item) string { return i.Type }},
		column[item]{name: "version", tail: true, wide: undecided, value: func(i item) string { return e.version(i.Version) }},
		column[item]{name: "decision", wide: undecided, value: func(i item) string { return string(i.Decision) }},
		column[item]{name: "reason", wide: !undecided, value: func(i item) string { return string(i.Reason) }},
		column[item]{name: "replay", wide: true, value: func(i item) string { return replayText(i.Generation) }},
		column[item]{name: "status", value: func(i item) string { return i.Status }},
		column[item]{name: "attempts", wide: true, value: func(i item) string { return strconv.Itoa(i.Attempts) }},
		column[item]{name: "duplicates", wide: true, value: func(i item) string { return strconv.Itoa(i.Duplicates) }},
		column[item]{name: "next", wide: true, at: func(i item) *time.Time { return i.NextActionAt }},
		column[item]{name: "last error", wide: !undecided, value: func(i item) string { return i.LastError }},
		column[item]{name: "behind", wide: true, value: func(i item) string { return countText(i.Behind, i.BehindAtLeast) }},
		column[item]{name: "owner", wide: true, value: func(i item) string { return i.Owner }},
		column[item]{name: "place", whole: true, wide: !undecided, value: func(i item) string { return placeText(&i) }},
		column[item]{name: "event", wide: undecided, value: func(i item) string { return i.EventID }})
}

// replayText names the replay that ran an event again; empty for an event's own run.
func replayText(generation int32) string {
	if generation == 0 {
		return ""
	}
	return strconv.Itoa(int(generation))
}

// countText returns a count; "N or more" if it was not counted to the end, "not known" if the count came to nothing. It is empty if
// both are nil: nothing was counted.
func countText(exact, atLeast *int64) string {
	switch {
	case exact != nil:
		return strconv.FormatInt(*exact, 10)
	case atLeast != nil && *atLeast > 0:
		return strconv.FormatInt(*atLeast, 10) + " or more"
	case atLeast != nil:
		return "not known"
	}
	return ""
}

// parseSince reads the value of --since: a duration back from now, or a time. An empty value is the zero time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return parseAt("--since", s, now)
}

// parseAt reads the value of a flag as parseSince does.
func parseAt(flag, s string, now time.Time) (time.Time, error) {
	if d, err := config.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d.Std()), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usageError("%s %q is neither a duration such as 1h or 2d nor a time such as 2026-11-21T08:00:00Z", flag, s)
	}
	return t, nil
}

type inboxGetCmd struct {
	listenerFlag
	watchFlag
	eventArg
}

func (c *inboxGetCmd) Run(e *env, client *api.Client) error {
	n, err := eventOf(e.ctx, client, c.ID)
	if err != nil {
		return err
	}
	d, err := client.Item(e.ctx, n.Team, n.Subscription, n.Source, n.ID)
	if err != nil {
		return err
	}
	return printOne(e, d, itemID(d.InboxItem), func(w io.Writer) { showItem(w, d) })
}

// showItem writes an event with its actions and their attempts.
func showItem(w io.Writer, d *api.InboxDetail) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, cell(value)) }
	line("event", itemID(d.InboxItem))
	if d.DeliveryID != "" {
		line("delivery", d.DeliveryID)
	}
	line("type", d.Type)
	line("entity", d.Entity)
	if d.Title != "" {
		line("title", d.Title)
	}
	if s := d.Sender; s != nil {
		line("sender", s.Text())
	}
	line("version", strings.TrimSpace(d.Version+" "+d.VersionKind))
	line("decision", string(d.Decision)+" ("+string(d.Reason)+")")
	line("status", d.Status)
	line("duplicates", strconv.Itoa(d.Duplicates))
	line("received", formatOptionalTime(d.ReceivedAt))
	line("decided", formatTime(d.DecidedAt))
	line("place", placeText(&d.InboxItem))
	line("owner", d.Owner)
	line("next action", formatOptionalTime(d.NextActionAt))
	line("last error", d.LastError)
	if r := d.Redriven; r != nil {
		line("redriven", fmt.Sprintf("%s by %s: %s", formatTime(r.At), r.By, r.Reason))
	}
	for _, a := range d.Actions {
		fmt.Fprintf(w, "\naction %s to %s: %s, id %s, place in lane %d", plain(a.Name), plain(a.Destination), plain(a.Status), plain(a.ID), a.LaneSeq)
		if a.Replay != "" {
			fmt.Fprintf(w, ", of replay %s", plain(a.Replay))
		}
		fmt.Fprintln(w)
		for _, attempt := range a.Attempts {
			writeAttempt(w, &attempt)
		}
		if n := len(a.Attempts); n > 0 && a.Attempts[n-1].Class != "" && a.Attempts[n-1].Response != "" {
			fmt.Fprintf(w, "       answer: %s\n", plainLines(a.Attempts[n-1].Response, "               "))
		}
	}
	if len(d.Story) > 0 {
		fmt.Fprintln(w, "\nstory")
	}
	for _, s := range d.Story {
		fmt.Fprintf(w, "  %-20s  %s\n", cmp.Or(formatOptionalTime(s.At), "-"), plain(s.Text))
	}
	if d.Next != "" {
		fmt.Fprintf(w, "next: %s\n", plain(d.Next))
	}
}

// writeAttempt writes one attempt as a line.
func writeAttempt(w io.Writer, a *api.AttemptItem) {
	latency := fmt.Sprintf("%.1f ms", a.LatencyMS)
	if a.LatencyMS == 0 { // when it began is not kept
		latency = "-"
	}
	fmt.Fprintf(w, "  %3d  %s  %-12s %3d  %11s  %s", a.Attempt, formatTime(a.At), cell(a.Class), a.Code, latency, plain(a.Error))
	if a.TraceID != "" {
		fmt.Fprintf(w, "  trace %s", plain(a.TraceID))
	}
	fmt.Fprintln(w)
}

type inboxRawCmd struct {
	listenerFlag
	eventArg
}

func (c *inboxRawCmd) Run(e *env, client *api.Client) error {
	n, err := eventOf(e.ctx, client, c.ID)
	if err != nil {
		return err
	}
	raw, err := client.Raw(e.ctx, n.Team, n.Subscription, n.Source, n.ID)
	if err == nil {
		_, err = e.Stdout.Write(raw.Data)
	}
	return err
}

type sourcesListCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

func (c *sourcesListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Sources(e.ctx)
	if err == nil {
		page, err = ofTeam(c.teamFlag, page, func(i api.SourceItem) []string { return []string{i.Team} })
	}
	if err != nil {
		return err
	}
	type item = api.SourceItem
	return printList(e, page, func(i item) string { return i.Team + "/" + i.Source },
		column[item]{name: "source", value: func(i item) string { return i.Team + "/" + i.Source }},
		column[item]{name: "preset", value: func(i item) string { return i.Preset }},
		column[item]{name: "path", value: func(i item) string { return i.Path }},
		column[item]{name: "topic", value: func(i item) string { return i.Topic }},
		column[item]{name: "verified", value: func(i item) string { return seenCount(i, func(s *api.SeenItem) int64 { return s.Verified }) }},
		column[item]{name: "last", at: func(i item) *time.Time {
			if i.Seen == nil {
				return nil
			}
			return i.Seen.VerifiedAt
		}},
		column[item]{name: "refused", value: func(i item) string { return seenCount(i, func(s *api.SeenItem) int64 { return s.Refused }) }},
		column[item]{name: "max body", wide: true, value: func(i item) string { return config.Size(i.MaxBody).String() }},
		column[item]{name: "secrets", wide: true, value: func(i item) string { return strconv.Itoa(i.Keys) }},
		column[item]{name: "share", wide: true, value: func(i item) string { return strings.Join(i.Share, ",") }},
		column[item]{name: "owners", wide: true, value: func(i item) string { return strings.Join(i.Owners, ", ") }},
		column[item]{name: "contact", wide: true, value: func(i item) string { return i.Contact }})
}

// seenCount returns a count of a source's deliveries; empty if the asked process has no intake role.
func seenCount(i api.SourceItem, count func(*api.SeenItem) int64) string {
	if i.Seen == nil {
		return ""
	}
	return strconv.FormatInt(count(i.Seen), 10)
}
