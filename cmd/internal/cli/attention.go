package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// attentionCmd lists everything that waits for an operator, each with since when and the command that deals with it.
type attentionCmd struct {
	listenerFlag
	watchFlag
	Team  string `help:"Only this team."`
	Kind  string `help:"Only this kind: paused_scope, stopped_partition, unread_partition, forgotten_actions, paused_subscription, barred_subscription, reload_refused, waits_for_restart, differing_config, destination_down, paused_destination, budget, approval, spooling, unmatched_keys, secret_expires, wrong_clock, parked, held, overdue_gap, conflict, quarantined_record, dead_letter, loop, quarantined_delivery."`
	Limit int    `default:"20" help:"Most of each kind, 1 to 1000; what there is more is counted."`
}

func (c *attentionCmd) Run(e *env, client *api.Client) error {
	found, err := client.Attention(e.ctx, api.AttentionFilter{Team: c.Team, Kind: c.Kind, Limit: c.Limit})
	if err != nil {
		return err
	}
	for i := range found.Items {
		found.Items[i].Command = c.reaching(found.Items[i].Command)
	}
	switch e.output {
	case "json":
		return printJSON(e.Stdout, found)
	case "yaml":
		return printYAML(e.Stdout, found)
	}
	if e.output == "table" {
		if err := writeAttention(e, found.Items); err != nil {
			return err
		}
	} else if err := printList(e, api.Page[api.AttentionItem]{Items: found.Items}, func(i api.AttentionItem) string { return i.ID }, attentionColumns...); err != nil {
		return err
	}
	if !e.byLine {
		c.summary(e, found)
	}
	return nil
}

var attentionColumns = []column[api.AttentionItem]{
	{name: "kind", whole: true, value: func(i api.AttentionItem) string { return i.Kind }},
	{name: "since", at: func(i api.AttentionItem) *time.Time { return i.Since }},
	{name: "where", value: whereText},
	{name: "reason", value: func(i api.AttentionItem) string { return i.Reason }},
	{name: "events", wide: true, value: eventsText},
	{name: "type", wide: true, value: func(i api.AttentionItem) string { return i.Type }},
	{name: "place", wide: true, value: attentionPlace},
	{name: "detail", wide: true, value: func(i api.AttentionItem) string { return i.Detail }},
	{name: "owners", wide: true, value: func(i api.AttentionItem) string { return strings.Join(i.Owners, ", ") }},
	{name: "contact", wide: true, value: func(i api.AttentionItem) string { return i.Contact }},
	{name: "run", wide: true, value: func(i api.AttentionItem) string { return i.Command }},
}

// writeAttention writes a line for each item and its command, whole, on the line below: it is there to be copied. On a narrow terminal it
// writes blocks that have the command last.
func writeAttention(e *env, items []api.AttentionItem) error {
	var table strings.Builder
	if err := writeTable(&table, items, e.table(), attentionColumns); err != nil {
		return err
	}
	if wraps(e.Stdout, table.String()) {
		columns := slices.Clone(attentionColumns)
		columns[len(columns)-1].wide = false // the command
		return writeBlocks(e.Stdout, items, e.table(), columns)
	}
	for n, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		fmt.Fprintln(e.Stdout, line)
		if n > 0 {
			fmt.Fprintln(e.Stdout, "    "+plain(items[n-1].Command))
		}
	}
	return nil
}

// usualURL is where commands ask that are given no address.
const usualURL = "http://127.0.0.1:9090"

// reaching returns a command as it reaches the process that this one has asked, when it is pasted into the same shell. Some read the file and ask no
// process.
func (c *attentionCmd) reaching(command string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(command, "forebay "), " ")
	if noun == "doctor" || noun == "topics" || strings.HasPrefix(command, "forebay config check ") {
		return command
	}
	return command + c.asking()
}

// summary says on stderr how much there is beyond what is listed, and what the asked process does not know.
func (c *attentionCmd) summary(e *env, found *api.Attention) {
	listed, nothing := map[string]int64{}, len(found.Unknown) == 0
	for _, i := range found.Items {
		listed[i.Kind]++
	}
	for _, n := range found.Counts {
		nothing = nothing && n.Count == 0 && !n.More
		if n.Count > listed[n.Kind] || n.More {
			fmt.Fprintf(e.Stderr, "%s: %d of %s; `%s` lists more\n", n.Kind, listed[n.Kind], api.CountText(n.Count, n.More), c.reachingSelf(n.Kind))
		}
	}
	if nothing && (e.output == "table" || e.output == "wide") { // a script sees that its list is empty
		fmt.Fprintln(e.Stderr, "nothing waits for an operator")
	}
	for _, u := range api.ByReason(found.Unknown) {
		fmt.Fprintf(e.Stderr, "not known here: %s: %s\n", u.Kinds, plain(u.Why))
	}
}

func (c *attentionCmd) reachingSelf(kind string) string {
	return "forebay attention --kind " + kind + " --limit 1000" + c.asking()
}

// whereText names what waits as people look for it: the entity, the partition, the destination or the source.
func whereText(i api.AttentionItem) string {
	of := i.Team
	if i.Subscription != "" {
		of = i.Team + "." + i.Subscription
	}
	switch {
	case i.Kind == api.KindPausedScope || i.Kind == api.KindBudget || i.Kind == api.KindDown || i.Kind == api.KindPaused || i.Kind == api.KindKeys || i.Kind == api.KindExpires || i.Kind == api.KindClock || i.Kind == api.KindSpooling:
		return i.ID
	case i.Entity != "":
		return of + " " + i.Source + " " + i.Entity
	case i.Kind == api.KindQuarantinedDelivery:
		return i.Team + "/" + i.Source
	case i.Partition != nil:
		return fmt.Sprintf("%s %s/%d", of, i.Topic, *i.Partition)
	}
	return i.ID
}

func eventsText(i api.AttentionItem) string {
	if i.Events == 0 {
		return ""
	}
	return strconv.FormatInt(i.Events, 10)
}

func attentionPlace(i api.AttentionItem) string {
	switch {
	case i.Partition == nil:
		return ""
	case i.Offset == nil:
		return fmt.Sprintf("%s/%d", i.Topic, *i.Partition)
	}
	return fmt.Sprintf("%s/%d@%d", i.Topic, *i.Partition, *i.Offset)
}
