package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// functions are what templates call. Links come from here alone: every part of them is escaped.
var functions = template.FuncMap{
	"when":             when,
	"version":          versionText,
	"eventLink":        func(i api.InboxItem) string { return eventLink(api.EventName(&i)) },
	"entityLink":       entityLink,
	"replayLink":       replayLink,
	"approvalLink":     approvalLink,
	"notTold":          func() string { return api.NotTold },
	"passed":           passed,
	"ran":              ran,
	"differs":          api.DiffersText,
	"indented":         indented,
	"namedEvent":       func(event string) string { return "/console/event?" + url.Values{"id": {event}}.Encode() },
	"sourceLink":       sourceLink,
	"destinationLink":  destinationLink,
	"subscriptionLink": subscriptionLink,
	"deadLink":         func(action string) string { return "/console/dlq/replay?" + url.Values{"action": {action}}.Encode() },
	"number":           number,
	"nth":              func(n int) int { return n + 1 },
	"skew":             skewText,
	"count":            api.CountText,
	"ranges":           api.RangesText,
	"join":             strings.Join,
	"line":             api.VersionLineItem.Text,
	"where":            where,
	"quoted":           inQuotes,
	"notKnown":         notKnown,
	"rowKey":           rowKey,
	"deref":            func(n *int64) int64 { return *n },
	"deadEvent": func(d api.DeadLetterItem) string {
		return eventLink(names.Event{Team: d.Team, Subscription: d.Subscription, Source: d.Source, ID: d.EventID})
	},
}

// moment is a time as a page shows it.
type moment struct{ ISO, Ago string }

// when returns a time.Time or *time.Time as a page shows it; nil if there is none.
func when(at any) *moment {
	var t time.Time
	switch at := at.(type) {
	case time.Time:
		t = at
	case *time.Time:
		if at != nil {
			t = *at
		}
	}
	if t.IsZero() {
		return nil
	}
	m := &moment{ISO: t.UTC().Format("2006-01-02T15:04:05.000Z")}
	if d := time.Since(t); d >= 0 {
		m.Ago = api.DurationText(d) + " ago"
	} else {
		m.Ago = "in " + api.DurationText(-d)
	}
	return m
}

// versionText returns a version of the API, which sorts as text, as people read it. What is no such text is returned as it is.
func versionText(clock, kind, sortable string) string {
	v, err := schemas.ParseVersion(clock, schemas.VersionKind(kind), sortable)
	if err != nil || v.Kind == schemas.None {
		return sortable
	}
	text := strconv.FormatInt(v.Value, 10)
	switch {
	case v.Text != "":
		text = v.Text
	case v.Kind == schemas.Timestamp:
		text = time.Unix(0, v.Value).UTC().Format(time.RFC3339Nano)
	}
	if v.Sub > 0 {
		text += "+" + strconv.Itoa(int(v.Sub))
	}
	if v.Epoch > 0 {
		text = fmt.Sprintf("e%d:%s", v.Epoch, text)
	}
	return text
}

func eventLink(n names.Event) string {
	return "/console/event?" + url.Values{"id": {n.String()}}.Encode()
}

// entityLink returns the link to an entity as a subscription sees it; empty if it has no name.
func entityLink(team, subscription, source, entity string) string {
	if team == "" || subscription == "" || source == "" || entity == "" {
		return ""
	}
	of := names.Event{Team: team, Subscription: subscription, Source: source}.String()
	return "/console/entity?" + url.Values{"of": {strings.TrimSuffix(of, "/")}, "entity": {entity}}.Encode()
}

// number returns a number that may not be known.
func number(n *int64) string {
	if n == nil {
		return "not known"
	}
	return strconv.FormatInt(*n, 10)
}

// skewText says how far a sender's clock, and the way, put the times of signing behind ours.
func skewText(s *api.SkewItem) string {
	text := fmt.Sprintf("the last %d deliveries were signed %.1fs to %.1fs before they came, by the two clocks", s.Deliveries, s.Least, s.Most)
	if s.Deliveries == 1 {
		text = fmt.Sprintf("the last delivery was signed %.1fs before it came, by the two clocks", s.Least)
	}
	if s.Least < -1 {
		text += ": the sender's is ahead of ours"
	}
	return text
}
