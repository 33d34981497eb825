package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
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
		var all []string
		for _, p := range provider.Presets() {
			all = append(all, p.Name)
		}
		near := names.Nearest(c.Name, all)
		if near != "" {
			near = "did you mean " + near + "? "
		}
		return schemas.Errorf(schemas.NotFound, "look up preset "+c.Name, "there is none of this name; %s`forebay sources presets` lists them", near)
	}
	return printOne(e, info, info.Name, func(w io.Writer) { writePreset(w, info, e.table()) })
}

func listPresets(e *env) error {
	type item = provider.Info
	return printList(e, api.Page[item]{Items: provider.Presets()}, func(i item) string { return i.Name },
		column[item]{name: "preset", whole: true, value: func(i item) string { return i.Name }},
		column[item]{name: "provider", wide: true, value: func(i item) string { return i.Title }},
		column[item]{name: "signed", value: func(i item) string { return cmp.Or(i.Signed, "nothing: a token") }},
		column[item]{name: "fresh", value: fresh},
		column[item]{name: "ack deadline", value: func(i item) string { return config.Duration(i.Deadline).String() }},
		column[item]{name: "retries", wide: true, value: func(i item) string { return i.Retries }},
		column[item]{name: "retry horizon", value: horizon},
		column[item]{name: "event types", value: mapped},
		column[item]{name: "entity of all others", wide: true, value: func(i item) string { return last(i.Texts()).Entity }})
}

// mapped says how many event types have a mapping of their own. Of some providers all are mapped alike.
func mapped(i provider.Info) string {
	if len(i.Types) == 0 && len(i.Fallback.Entity) > 0 {
		return "all alike"
	}
	return fmt.Sprint(len(i.Types))
}

// fresh says how old a delivery may be, by the time that is signed.
func fresh(i provider.Info) string {
	if i.Tolerance == 0 {
		return "no time is signed"
	}
	return "within " + config.Duration(i.Tolerance).String()
}

// signed says what the signature covers. Of generic it is the default.
func signed(i provider.Info) string {
	if i.Fallback.Type == "" {
		i.Signed = "as verify.signed says, else " + i.Signed
	}
	return i.SignedText(fresh(i))
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// typeName says how event types are named.
func typeName(i provider.Info) string {
	if i.TypesDiffer() {
		return "as the table says"
	}
	return cmp.Or(i.Fallback.Type, "as the source's event.type says")
}

func last[T any](all []T) T { return all[len(all)-1] }

func horizon(i provider.Info) string {
	if i.RetryHorizon == 0 {
		return "not known"
	}
	return config.Duration(i.RetryHorizon).String()
}

// writePreset writes what holds for all event types, and a table of them, in which nothing is cut off: it is what was asked for.
func writePreset(w io.Writer, i provider.Info, form tableForm) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, line := range [][2]string{
		{"preset", i.Name + ", " + i.Title},
		{"signed", signed(i)},
		{"captured", i.CapturedText()},
		{"ack deadline", config.Duration(i.Deadline).String() + noted(i.DeadlineNote)},
		{"takes", cmp.Or(i.Takes, "not confirmed")},
		{"retries", i.Retries + " (horizon: " + horizon(i) + ")"},
		{"largest body", config.Size(i.MaxBody).String()},
		{"event id", cmp.Or(i.ID, "as the source's event.id says")},
		{"delivery id", cmp.Or(i.DeliveryID, "the event's")},
		{"sender", i.SenderText()},
		{"title", i.TitleText()},
		{"conversation", strings.ReplaceAll(i.ConversationText(), "`", "")},
		{"chain", strings.ReplaceAll(i.ChainText(), "`", "")},
		{"own", strings.ReplaceAll(i.OwnText(), "`", "")},
		{"event type", typeName(i) + noted(i.TypeNames)},
		{"the same body", i.RepeatsText()},
	} {
		if line[0] == "the same body" && line[1] != "" {
			line[1] = "again is one event, since the id is made of it; that may be so of: " + line[1]
		}
		if line[1] == "" {
			continue
		}
		name, parts := line[0], []string{line[1]}
		if !form.wide {
			parts = wrap(line[1], tableWidth-len("the same body")-columnGap)
		}
		for _, part := range parts {
			fmt.Fprintf(tw, "%s\t%s\n", name, part)
			name = ""
		}
	}
	tw.Flush() //nolint:errcheck // as below
	fmt.Fprintln(w)
	type item = provider.Text
	writeWrapped(w, i.Texts(), form, []column[item]{ //nolint:errcheck // as the lines above: printOne's text has nowhere to say it
		{name: "event", value: func(t item) string { return t.Event }},
		{name: "type", wide: !i.TypesDiffer(), value: func(t item) string { return t.Type }},
		{name: "entity", value: func(t item) string { return t.Entity }},
		{name: "version", value: func(t item) string { return t.Version }},
		{name: "clock", value: func(t item) string { return t.Clock }},
		{name: "payload", value: func(t item) string { return t.Payload }},
		{name: "deleted", wide: true, value: func(t item) string { return t.Deleted }},
	})
}
