package cli

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

type sourcesPresetsCmd struct {
	Name string `arg:"" optional:"" help:"Only this preset, with all its event types."`
}

// Run prints the catalogue, or all of one preset. It asks no running process.
func (c *sourcesPresetsCmd) Run(e *env) error {
	if c.Name == "" {
		return listPresets(e)
	}
	info, ok := provider.Lookup(c.Name)
	if !ok {
		return &schemas.Error{Kind: schemas.NotFound, Op: "look up preset " + c.Name,
			Err: fmt.Errorf("there is none of this name; `forebay sources presets` lists them")}
	}
	return printOne(e, info, info.Name, func(w io.Writer) { writePreset(w, info, e.output == "wide") })
}

func listPresets(e *env) error {
	type item = provider.Info
	return printList(e, api.Page[item]{Items: provider.Presets()}, func(i item) string { return i.Name },
		column[item]{name: "preset", value: func(i item) string { return i.Name }},
		column[item]{name: "provider", value: func(i item) string { return i.Title }},
		column[item]{name: "signed", value: func(i item) string { return i.Signed }},
		column[item]{name: "fresh", value: fresh},
		column[item]{name: "ack deadline", value: func(i item) string { return config.Duration(i.Deadline).String() }},
		column[item]{name: "retries", wide: true, value: func(i item) string { return i.Retries }},
		column[item]{name: "retry horizon", value: horizon},
		column[item]{name: "event types", value: func(i item) string { return fmt.Sprint(len(i.Types)) }},
		column[item]{name: "entity of all others", value: func(i item) string { return last(i.Texts()).Entity }})
}

// fresh says how old a delivery may be, by the time that is signed.
func fresh(i provider.Info) string {
	if i.Tolerance == 0 {
		return "no time is signed"
	}
	return "within " + config.Duration(i.Tolerance).String()
}

func last[T any](all []T) T { return all[len(all)-1] }

func horizon(i provider.Info) string {
	if i.RetryHorizon == 0 {
		return "not known"
	}
	return config.Duration(i.RetryHorizon).String()
}

// writePreset writes what holds for all event types, and a table of them.
func writePreset(w io.Writer, i provider.Info, wide bool) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, line := range [][2]string{
		{"preset", i.Name + ", " + i.Title},
		{"signed", i.Signed + ", " + fresh(i)},
		{"ack deadline", config.Duration(i.Deadline).String()},
		{"retries", i.Retries + " (horizon: " + horizon(i) + ")"},
		{"largest body", config.Size(i.MaxBody).String()},
		{"event id", cmp.Or(i.ID, "as the source's event.id says")},
		{"delivery id", cmp.Or(i.DeliveryID, "the event's")},
		{"event type", cmp.Or(i.Fallback.Type, "as the source's event.type says")},
	} {
		fmt.Fprintf(tw, "%s\t%s\n", line[0], line[1])
	}
	tw.Flush() //nolint:errcheck // as below
	fmt.Fprintln(w)
	type item = provider.Text
	writeTable(w, i.Texts(), wide, []column[item]{ //nolint:errcheck // as the lines above: printOne's text has nowhere to say it
		{name: "event", value: func(t item) string { return t.Event }},
		{name: "type", wide: true, value: func(t item) string { return t.Type }},
		{name: "entity", value: func(t item) string { return t.Entity }},
		{name: "version", value: func(t item) string { return t.Version }},
		{name: "clock", value: func(t item) string { return t.Clock }},
		{name: "payload", value: func(t item) string { return t.Payload }},
		{name: "deleted", wide: true, value: func(t item) string { return t.Deleted }},
	})
}
