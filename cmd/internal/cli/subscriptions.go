package cli

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type subscriptionsListCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

func (c *subscriptionsListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Subscriptions(e.ctx)
	if err == nil {
		page, err = ofTeam(c.teamFlag, page, func(i api.SubscriptionItem) []string { return []string{i.Team} })
	}
	if err != nil {
		return err
	}
	type item = api.SubscriptionItem
	return printList(e, page, subscriptionID,
		column[item]{name: "subscription", whole: true, value: subscriptionID},
		column[item]{name: "sources", value: func(i item) string { return strings.Join(i.Sources, ",") }},
		column[item]{name: "ready", value: func(i item) string { return strconv.FormatBool(i.Ready) }},
		column[item]{name: "paused", value: func(i item) string { return pauseText(i.Paused) }},
		column[item]{name: "partitions", whole: true, value: item.PartitionsText},
		column[item]{name: "being claimed", wide: true, value: claimedText},
		column[item]{name: "attention", value: func(i item) string {
			if i.Attention == nil {
				return ""
			}
			return api.CountText(*i.Attention, i.AttentionMore)
		}},
		column[item]{name: "missing", value: func(i item) string { return i.Missing }},
		column[item]{name: "owners", wide: true, value: func(i item) string { return strings.Join(i.Owners, ", ") }},
		column[item]{name: "contact", wide: true, value: func(i item) string { return i.Contact }})
}

func subscriptionID(i api.SubscriptionItem) string { return i.Team + "." + i.Subscription }

// claimedText says how many partitions are being claimed at this moment; empty if none is.
func claimedText(i api.SubscriptionItem) string {
	if n := i.Counts; n != nil && n.Running+n.Stopped+n.Unread < n.Total {
		return strconv.Itoa(n.Total - n.Running - n.Stopped - n.Unread)
	}
	return ""
}

type subscriptionsGetCmd struct {
	listenerFlag
	watchFlag
	subscriptionArg
}

func (c *subscriptionsGetCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	item, err := client.Subscription(e.ctx, team, name)
	if err != nil {
		return err
	}
	return printOne(e, item, subscriptionID(*item), func(w io.Writer) { showSubscription(w, item) })
}

// showSubscription writes a subscription and each of its partitions: the position with the last seeks, and what is wrong, if
// something is.
func showSubscription(w io.Writer, i *api.SubscriptionItem) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, cell(value)) }
	line("subscription", subscriptionID(*i))
	line("sources", strings.Join(i.Sources, ","))
	if len(i.Owners) > 0 {
		line("owners", strings.Join(i.Owners, ", "))
	}
	if i.Contact != "" {
		line("contact", i.Contact)
	}
	line("ready", strconv.FormatBool(i.Ready))
	line("missing", i.Missing)
	if p := i.Paused; p != nil {
		line("paused", formatTime(p.At)+" by "+p.By)
		line("why", p.Reason)
		if p.Scope != "" {
			line("with", p.Scope)
		}
		line("run", p.Command("subscriptions", subscriptionID(*i)))
	}
	line("partitions", i.PartitionsText())
	for _, p := range i.Partitions {
		fmt.Fprintf(w, "\n%s/%d: %s%s\n", plain(p.Topic), p.Partition, plain(p.State), positionText(p.Position))
		if p.Position != nil {
			for _, seek := range p.Position.LastSeeks {
				fmt.Fprintf(w, "  %s\n", seekText(seek))
			}
		}
		if s := p.Seek; s != nil {
			fmt.Fprintf(w, "  to be moved to %d, asked %s by %s (%s), %s\n", s.To, formatOptionalTime(s.AskedAt), plain(s.By), plain(s.Reason), plain(s.Detail))
		}
		if p.Stopped != nil {
			showStop(w, p.Stopped)
		} else if p.Detail != "" {
			fmt.Fprintf(w, "  %s\n", plain(p.Detail))
		}
	}
}

// positionText returns a partition's position and, if seeks have moved it, how many did; empty if it is not known.
func positionText(p *api.PositionItem) string {
	switch {
	case p == nil:
		return ""
	case p.Seeks == 0:
		return fmt.Sprintf(", next offset %d", p.NextOffset)
	}
	return fmt.Sprintf(", next offset %d, moved %d times, %d offsets skipped", p.NextOffset, p.Seeks, p.Skipped)
}

// seekText returns what a seek did: a move forward has skipped offsets, any other is a move back.
func seekText(s api.SeekItem) string {
	text := fmt.Sprintf("moved back from %d to %d", s.From, s.To)
	if s.Skipped > 0 {
		text = fmt.Sprintf("moved from %d to %d: %d..%d were skipped", s.From, s.To, s.From, s.To-1)
	}
	return fmt.Sprintf("%s, found %s by %s", text, formatTime(s.FoundAt), plain(s.FoundBy))
}

// showStop writes why a partition is stopped, and who accepted that or which command does. A line whose value is empty is left out.
func showStop(w io.Writer, s *api.StopItem) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %-11s %s\n", name, plain(value))
		}
	}
	line("why", s.Kind)
	line("records", recordsText(s))
	line("appended", betweenText(s))
	line("found", strings.TrimSpace(formatOptionalTime(s.FoundAt)+" "+s.FoundBy))
	line("text", s.Text)
	if s.Accepted != nil {
		line("accepted", fmt.Sprintf("%s by %s: %s", formatTime(s.Accepted.At), s.Accepted.By, s.Accepted.Reason))
		return
	}
	line("run", s.Command)
}

func recordsText(s *api.StopItem) string {
	if s.Records == nil {
		return "not known"
	}
	return strconv.FormatInt(*s.Records, 10)
}

// betweenText returns when the records that a stop is about were appended to the log: the first and the last time, as far as they are
// known.
func betweenText(s *api.StopItem) string {
	if s.FirstAt == nil && s.LastAt == nil {
		return "not known"
	}
	end := func(t *time.Time) string {
		if t == nil {
			return "?"
		}
		return formatTime(*t)
	}
	return end(s.FirstAt) + " .. " + end(s.LastAt) + " (best effort)"
}

type subscriptionsAcceptCmd struct {
	listenerFlag
	subscriptionArg
	Topic     string `placeholder:"TOPIC" help:"Only this topic."`
	Partition int32  `default:"-1" placeholder:"N" help:"Only this partition; needs --topic."`
	Stop      *int64 `placeholder:"ID" help:"Only this report: if another has replaced it, nothing is accepted."`
	Reason    string `placeholder:"TEXT" help:"Why; kept in the ledger with who said so and when."`
	DryRun    bool   `help:"Say what would be accepted and accept nothing."`
}

// Run accepts the stops that the flags select, and lists them.
func (c *subscriptionsAcceptCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	req := api.AcceptRequest{Topic: c.Topic, Reason: strings.TrimSpace(c.Reason), By: whoAmI(), DryRun: c.DryRun}
	switch {
	case c.Partition >= 0 && c.Topic == "":
		return usageError("--partition needs --topic")
	case c.Partition < -1:
		return usageError("--partition %d is not a partition", c.Partition)
	case c.Stop != nil && *c.Stop < 1: // 0 is all of them to the listener
		return usageError("--stop %d is not a report", *c.Stop)
	case req.Reason == "" && !c.DryRun:
		return usageError("--reason is needed: it is kept with what is accepted (--dry-run shows what that is)")
	}
	if c.Partition >= 0 {
		req.Partition = &c.Partition
	}
	if c.Stop != nil {
		req.Stop = *c.Stop
	}
	page, err := client.Accept(e.ctx, team, name, req)
	if err != nil {
		return err
	}
	type item = api.StoppedItem
	err = printList(e, page, func(i item) string { return strconv.FormatInt(i.Stopped.ID, 10) },
		column[item]{name: "topic", value: func(i item) string { return i.Topic }},
		column[item]{name: "partition", value: func(i item) string { return strconv.Itoa(int(i.Partition)) }},
		column[item]{name: "stop", value: func(i item) string { return strconv.FormatInt(i.Stopped.ID, 10) }},
		column[item]{name: "why", value: func(i item) string { return i.Stopped.Kind }},
		column[item]{name: "records", value: func(i item) string { return recordsText(&i.Stopped) }},
		column[item]{name: "appended", whole: true, value: func(i item) string { return betweenText(&i.Stopped) }},
		column[item]{name: "goes on at", value: func(i item) string { return strconv.FormatInt(i.Stopped.ResumeOffset, 10) }},
		column[item]{name: "text", wide: true, value: func(i item) string { return i.Stopped.Text }})
	if err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was accepted")
	} else {
		fmt.Fprintln(e.Stderr, "accepted: the partitions go on with their owners' next look, within seconds")
	}
	return nil
}

// whoAmI returns USER@HOST, which is kept with the reason that an operator gives.
func whoAmI() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
