package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// entityArgs name an entity as a subscription sees it.
type entityArgs struct {
	ID     string `arg:"" name:"team/subscription/source" help:"Whose view, and of which source."`
	Entity string `arg:"" optional:"" help:"The entity, as inbox list shows it."`
}

// ask asks where the entity stands, with its last events since a time, at most a number of them.
func (a entityArgs) ask(e *env, client *api.Client, since time.Time, limit int) (*api.EntityDetail, error) {
	n, err := names.ParseEntity(a.ID, a.Entity)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return client.Entity(e.ctx, api.EntityFilter{Team: n.Team, Subscription: n.Subscription, Source: n.Source, Entity: n.Key, Since: since, Limit: limit})
}

type entitiesGetCmd struct {
	listenerFlag
	watchFlag
	entityArgs
	Since string `help:"Only events decided since: a duration back (1h, 2d) or an RFC 3339 time."`
	Limit int    `default:"20" help:"Most events, 1 to 1000."`
}

// Help is what kong prints below the command's summary.
func (entitiesGetCmd) Help() string { return names.Help }

// Run shows where an entity stands.
func (c *entitiesGetCmd) Run(e *env, client *api.Client) error {
	since, err := parseSince(c.Since, time.Now())
	if err != nil {
		return err
	}
	d, err := c.ask(e, client, since, c.Limit)
	if err != nil {
		return err
	}
	id := names.Event{Team: d.Team, Subscription: d.Subscription, Source: d.Source, ID: d.Entity}
	if err := printOne(e, d, id.String(), func(w io.Writer) { showEntity(w, d, e) }); err != nil {
		return err
	}
	if d.Note != "" {
		fmt.Fprintln(e.Stderr, d.Note)
	}
	return nil
}

// showEntity writes where an entity stands: its version lines, what waits, and its last events.
func showEntity(w io.Writer, d *api.EntityDetail, e *env) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, cell(value)) }
	line("entity", d.Entity)
	line("subscription", names.Subscription.Print(names.Name{Team: d.Team, Name: d.Subscription}))
	line("source", sourceText(d.Team, d.Source))
	for _, l := range d.Lines {
		line("version line", l.Text())
	}
	if len(d.Waiting) > 0 {
		fmt.Fprintln(w, "\nwaiting")
		type item = api.WaitItem
		writeFitting(w, d.Waiting, e.table(), []column[item]{ //nolint:errcheck // stdout keeps it
			{name: "version", value: func(i item) string { return i.At }},
			{name: "clock", wide: true, value: func(i item) string { return i.Clock }},
			{name: "decision", value: func(i item) string { return i.Decision }},
			{name: "since", at: func(i item) *time.Time { return &i.Since }},
			{name: "until", at: func(i item) *time.Time { return i.Until }},
			{name: "event", tail: true, value: func(i item) string { return i.EventID }},
			{name: "then", value: func(i item) string { return i.Then }},
		})
	}
	if len(d.Track) == 0 {
		return
	}
	fmt.Fprintln(w, "\nevents, the newest decision first")
	type item = api.InboxItem
	writeFitting(w, d.Track, e.table(), []column[item]{ //nolint:errcheck // stdout keeps it
		{name: "received", at: func(i item) *time.Time { return i.ReceivedAt }},
		{name: "version", tail: true, value: func(i item) string { return e.version(i.Version) }},
		{name: "clock", wide: true, value: func(i item) string { return i.VersionClock }},
		{name: "decision", value: func(i item) string { return string(i.Decision) }},
		{name: "reason", value: func(i item) string { return string(i.Reason) }},
		{name: "status", value: func(i item) string { return i.Status }},
		{name: "duplicates", value: func(i item) string { return strconv.Itoa(i.Duplicates) }},
		{name: "type", tail: true, value: func(i item) string { return i.Type }},
		{name: "event", value: func(i item) string { return i.EventID }},
	})
}
