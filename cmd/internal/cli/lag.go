package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type subscriptionsLagCmd struct {
	listenerFlag
	watchFlag
	subscriptionArg
}

func (c *subscriptionsLagCmd) Run(e *env, client *api.Client) error {
	team, name, err := c.names(e, client)
	if err != nil {
		return err
	}
	page, err := client.Lag(e.ctx, team, name)
	if err != nil {
		return err
	}
	type item = api.LagItem
	err = printList(e, page, func(i item) string { return fmt.Sprintf("%s/%d", i.Topic, i.Partition) },
		column[item]{name: "partition", value: func(i item) string { return fmt.Sprintf("%s/%d", i.Topic, i.Partition) }, tail: true},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "log start", wide: true, value: func(i item) string { return strconv.FormatInt(i.LogStart, 10) }},
		column[item]{name: "log end", value: func(i item) string { return strconv.FormatInt(i.LogEnd, 10) }},
		column[item]{name: "position", value: func(i item) string { return numberText(i.Position) }},
		column[item]{name: "in kafka", value: func(i item) string { return numberText(i.Mirror) }},
		column[item]{name: "lag", value: func(i item) string { return numberText(i.Records) }},
		column[item]{name: "oldest", value: ageText},
		column[item]{name: "open", value: func(i item) string { return openText(i.OpenActions) }},
		column[item]{name: "open for", wide: true, value: func(i item) string { return secondsText(i.OpenSeconds) }},
		column[item]{name: "waiting", value: func(i item) string { return numberText(i.Waiting) }},
		column[item]{name: "owner", wide: true, value: func(i item) string { return i.Owner }},
		column[item]{name: "detail", wide: true, value: func(i item) string { return i.Detail }})
	if err == nil && len(page.Items) > 0 && (e.output == "table" || e.output == "wide") {
		for _, line := range wrap(plain(api.KeepsUp(page.Items)), tableWidth) {
			fmt.Fprintln(e.Stdout, line)
		}
	}
	return err
}

// numberText is a dash for a number that is not known.
func numberText(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// openText says of what there is too much to count in time that it was not counted.
func openText(n *int64) string {
	if n == nil {
		return "not counted"
	}
	return strconv.FormatInt(*n, 10)
}

// ageText returns the age of the oldest record that is not decided; empty if there is none.
func ageText(i api.LagItem) string {
	switch {
	case i.Seconds == nil:
		return "-"
	case i.OldestAt == nil:
		return ""
	}
	return api.DurationText(time.Duration(*i.Seconds * float64(time.Second)))
}

// secondsText is a dash for what is not known, and empty for nothing.
func secondsText(s *float64) string {
	switch {
	case s == nil:
		return "-"
	case *s == 0:
		return ""
	}
	return api.DurationText(time.Duration(*s * float64(time.Second)))
}
