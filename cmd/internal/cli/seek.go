package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// dashedText is a flag's text that may begin with a dash: --to -1h.
type dashedText string

// Decode takes the next argument whatever it looks like.
func (t *dashedText) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return fmt.Errorf("missing value")
	}
	*t = dashedText(token.String())
	return nil
}

type subscriptionsSeekCmd struct {
	listenerFlag
	subscriptionArg
	To        dashedText    `placeholder:"WHERE" help:"start, end, an offset (of one partition), a time (2026-11-20T08:00:00Z) or how long ago (-1h, -2d)."`
	Topic     string        `placeholder:"TOPIC" help:"Only this topic."`
	Partition int32         `default:"-1" placeholder:"N" help:"Only this partition."`
	Reason    string        `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun    bool          `help:"Show what would move and follow, and move nothing."`
	Wait      time.Duration `default:"1m" help:"How long to wait for the owners of the partitions."`
}

// Help is what kong prints below the command's summary.
func (subscriptionsSeekCmd) Help() string {
	return "The owners of the partitions end what is under way, move the positions and go on; nothing need be stopped. " +
		"What was done is skipped. What a move forward passes over does not run, until a seek back to it."
}

func (c *subscriptionsSeekCmd) Run(e *env, client *api.Client) error {
	req := api.SeekRequest{To: strings.TrimSpace(string(c.To)), Topic: c.Topic, Reason: strings.TrimSpace(c.Reason), By: whoAmI(), DryRun: c.DryRun}
	switch {
	case req.To == "":
		return usageError("--to is needed: start, end, an offset, a time or how long ago (-1h)")
	case c.Partition < -1:
		return usageError("--partition %d is not a partition", c.Partition)
	case req.Reason == "" && !c.DryRun:
		return usageError("--reason is needed: it is kept with the move (--dry-run shows what that would be)")
	}
	if c.Partition >= 0 {
		req.Partition = &c.Partition
	}
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	page, err := client.Seek(e.ctx, team, name, req)
	if err != nil {
		return err
	}
	waited := c.await(e, client, team, name, page.Items)
	if err := printSeeks(e, page); err != nil {
		return err
	}
	ended := c.conclude(e, team+"."+name, page.Items)
	if waited != nil && ended != nil { // what was asked for stands, whoever has stopped looking
		fmt.Fprintln(e.Stderr, "forebay:", ended)
	}
	return cmp.Or(waited, ended)
}

// await looks what has become of the items that wait, until none does or --wait is over. A process that does not answer is asked again.
func (c *subscriptionsSeekCmd) await(e *env, client *api.Client, team, name string, items []api.SeekAskedItem) error {
	end := time.NewTimer(c.Wait)
	defer end.Stop()
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for countSeeks(items, api.SeekWaiting) > 0 {
		select {
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-end.C:
			return nil
		case <-look.C:
		}
		known, err := client.Seeks(e.ctx, team, name)
		if schemas.KindOf(err) == schemas.Unavailable && e.ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		for i := range items {
			for _, k := range known.Items {
				if k.ID == items[i].ID {
					items[i].State, items[i].Detail, items[i].EndedAt = k.State, k.Detail, k.EndedAt
				}
			}
		}
	}
	return nil
}

func countSeeks(items []api.SeekAskedItem, state string) (n int) {
	for _, i := range items {
		if i.State == state {
			n++
		}
	}
	return n
}

func printSeeks(e *env, page api.Page[api.SeekAskedItem]) error {
	type item = api.SeekAskedItem
	return printList(e, page, func(i item) string { return fmt.Sprintf("%s/%d", i.Topic, i.Partition) },
		column[item]{name: "partition", value: func(i item) string { return fmt.Sprintf("%s/%d", i.Topic, i.Partition) }, tail: true},
		column[item]{name: "from", value: func(i item) string { return numberText(i.From) }},
		column[item]{name: "to", value: func(i item) string { return strconv.FormatInt(i.To, 10) }},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "read again", value: func(i item) string { return numberText(i.Again) }},
		column[item]{name: "known done", value: func(i item) string { return numberText(i.KnownDone) }},
		column[item]{name: "skipped", value: func(i item) string { return numberText(i.Skipped) }},
		column[item]{name: "detail", value: func(i item) string { return i.Detail }})
}

// conclude says what follows, and returns an error if not all has moved.
func (c *subscriptionsSeekCmd) conclude(e *env, name string, items []api.SeekAskedItem) error {
	var reread, known, skipped int64
	for _, i := range items {
		if i.Again != nil && i.State != api.SeekRefused && i.State != api.SeekReplaced {
			reread, known, skipped = reread+*i.Again, known+*i.KnownDone, skipped+*i.Skipped
		}
	}
	if reread > 0 {
		fmt.Fprintf(e.Stderr, "%d records are read again; about %d of them are known as done and are skipped; only what never ran runs\n", reread, known)
	}
	if skipped > 0 {
		fmt.Fprintf(e.Stderr, "%d records that were not decided are passed over, and will not run; `forebay replay plan --subscription %s` fills them in later, or a seek back to the offset under FROM, "+
			"as long as the log keeps them\n", skipped, name)
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was moved")
		return nil
	}
	if left := len(items) - countSeeks(items, api.SeekMoved) - countSeeks(items, api.SeekUnchanged); left > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d partitions have not moved; what waits will, once its owner comes to it; `forebay subscriptions get %s` shows it", left, len(items), name)}
	}
	return nil
}
