package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type subscriptionsExplainCmd struct {
	listenerFlag
	watchFlag
	subscriptionArg
	Event string `required:"" placeholder:"EVENT" help:"The event: as inbox list -o id lists it, of any subscription, or SOURCE/ID."`
}

func (c *subscriptionsExplainCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	text := c.Event
	if !isAction(text) && strings.Count(text, "/") < 3 {
		text = team + "/" + name + "/" + text
	}
	n, err := eventOf(e.ctx, client, text)
	if err != nil {
		return err
	}
	d, err := client.Item(e.ctx, team, name, n.Source, n.ID)
	if err != nil {
		return err
	}
	return printOne(e, d, itemID(d.InboxItem), func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s (%s)\n", plain(itemID(d.InboxItem)), plain(string(d.Decision)), plain(string(d.Reason)))
		if len(d.Filters) == 0 {
			fmt.Fprintln(w, "it met no filter: the subscription has none, or the log has the event no more")
		}
		writeFilters(w, d.Filters)
	})
}

// writeFilters writes what filters say of an event, a part a line.
func writeFilters(w io.Writer, filters []api.FilterItem) {
	for _, f := range filters {
		name := f.Key
		if f.Action != "" {
			name += " of action " + f.Action
		}
		fmt.Fprintf(w, "%s\n", plain(name))
		for i := range f.Parts {
			writePart(w, &f.Parts[i])
		}
	}
}

func writePart(w io.Writer, p *api.FilterPart) {
	fmt.Fprintf(w, "%s%-5s  %s", strings.Repeat("  ", p.Depth+1), plain(p.Result), plain(strings.Join(strings.Fields(p.Text), " ")))
	if p.Error != "" {
		fmt.Fprintf(w, ": %s", plain(p.Error))
	}
	for _, v := range p.Values {
		value := v.Value
		if value == "" {
			value = "not there"
		}
		fmt.Fprintf(w, "   [%s: %s]", plain(v.Name), plain(value))
	}
	fmt.Fprintln(w)
}
