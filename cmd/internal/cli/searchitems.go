package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// searchItems asks for a page. The search for one delivery in a long log may take several requests; each prints its cursor, so that a search
// that the operator interrupts can go on from there. The page says of it how far back all of them have looked.
func searchItems(e *env, client *api.Client, f api.InboxFilter) (page api.Page[api.InboxItem], err error) {
	var to time.Time
	for {
		page, err = client.Items(e.ctx, f)
		if err != nil || page.Search == nil {
			return page, err
		}
		if to.IsZero() {
			to = page.Search.To
		}
		page.Search.To = to
		if len(page.Items) > 0 || page.Next == "" {
			return page, nil
		}
		f.Cursor = page.Next
		reached, _, _ := strings.Cut(f.Cursor, "~") // a cursor begins with its time
		fmt.Fprintf(e.Stderr, "not in the log since %s; looking further back (--since bounds how far; --cursor %s goes on from here)\n", reached, f.Cursor)
	}
}

// noDelivery says on stderr what was found of a delivery that is not in the inbox, and is the error if nothing was.
func noDelivery(e *env, id string, page api.Page[api.InboxItem]) error {
	s := page.Search
	if s == nil {
		return nil
	}
	for _, u := range s.Undecided {
		at := names.Place{Topic: u.Topic, Partition: u.Partition, Offset: u.Offset}
		subscription := names.Subscription.Print(names.Name{Team: u.Team, Name: u.Subscription})
		fmt.Fprintf(e.Stderr, "%s (%s of %s) was accepted at %s and is %s: %s\n", plain(u.EventID), plain(u.Type), plain(u.Entity), formatTime(u.ReceivedAt), at,
			undecidedText(u, subscription))
	}
	for _, q := range s.Quarantined {
		fmt.Fprintf(e.Stderr, "it went to quarantine at %s: %s %s (%s); `forebay quarantine raw %s` shows its body", formatTime(q.ReceivedAt), plain(quarantineReason(q)), plain(q.Detail), quarantineID(q), quarantineID(q))
		if q.Redriven != nil {
			fmt.Fprintf(e.Stderr, "; %s", plain(strings.TrimSpace(markText(q)+" "+q.Redriven.EventID+" "+q.Redriven.To)))
		}
		fmt.Fprintln(e.Stderr)
	}
	if len(page.Items) == 0 && len(s.Undecided) == 0 && len(s.Quarantined) == 0 {
		withheld := ""
		if len(s.Withheld) > 0 {
			withheld = "; not looked for in " + strings.Join(s.Withheld, "; nor in ")
		}
		return schemas.Errorf(schemas.NotFound, "", "delivery %s is neither in the log nor in quarantine, from %s to %s, nor is any event's id%s", id, searchedFrom(s),
			formatTime(s.To), withheld)
	}
	return nil
}

func searchedFrom(s *api.DeliverySearch) string {
	if s.From == nil {
		return "the log's start"
	}
	return formatTime(*s.From)
}

// undecidedText returns why a subscription has no decision about an event that is in the log.
func undecidedText(u api.UndecidedItem, subscription string) string {
	switch {
	case u.Passed:
		return fmt.Sprintf("%s is past it, at offset %d, and knows nothing of it: it came before the subscription's begin, was passed over, or its retention has ended", subscription, *u.NextOffset)
	case u.NextOffset == nil:
		return "not yet decided by " + subscription + ", which has not begun on that partition"
	}
	return fmt.Sprintf("not yet decided by %s, which has come to offset %d (`forebay subscriptions get %s` says whether it is stopped)", subscription, *u.NextOffset, subscription)
}
