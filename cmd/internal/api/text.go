package api

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
)

// Text returns where a version line stands, and what is missing on it, as commands and pages show it.
func (l VersionLineItem) Text() string {
	text := "at " + l.At + " (" + strings.TrimSpace(l.Kind+" "+l.Clock) + ")"
	if len(l.Missing) > 0 {
		text += ", missing " + RangesText(l.Missing)
	}
	if len(l.Skipped) > 0 {
		text += ", skipped " + RangesText(l.Skipped)
	}
	if l.Parked != "" {
		text += ", parked: " + l.Parked
	}
	return fmt.Sprintf("%s; %s/%d", text, l.Topic, l.Partition)
}

// PartitionsText says how many partitions run, or are paused, are stopped and are read by nobody, in all processes; "own" are those that the
// asked process has, where it does not know more.
func (i SubscriptionItem) PartitionsText() string {
	n, state := i.Counts, "running"
	if n == nil {
		return fmt.Sprintf("%d own", len(i.Partitions))
	}
	if i.Paused != nil {
		state = "paused"
	}
	return fmt.Sprintf("%d %s, %d stopped, %d unread", n.Running, state, n.Stopped, n.Unread)
}

// RangesText returns ranges of versions, first and last, as commands and pages show them: 3, 5..9.
func RangesText(ranges [][2]int64) string {
	var texts []string
	for _, r := range ranges {
		text := strconv.FormatInt(r[0], 10)
		if r[1] != r[0] {
			text += ".." + strconv.FormatInt(r[1], 10)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// DurationText returns a duration as commands and pages show it, in the largest unit of which it has two: 90s, 119m, 3d.
func DurationText(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// EventName names an event as lists print it and commands read it: by its source and id. What the subscription did not take as an
// event (a conflict, a filtered or a quarantined record) has its place for a name: its id is that of the event that counts, if it has one.
func EventName(i *InboxItem) names.Event {
	n := names.Event{Team: i.Team, Subscription: i.Subscription, Source: i.Source, ID: i.EventID}
	if i.EventID == "" || i.Decision.Rejects() {
		n.Source, n.ID = i.Topic, names.Place{Topic: i.Topic, Partition: i.Partition, Offset: i.Offset}.ID()
	}
	return n
}

// CameOfIt says what became of the records that a replay has passed.
func (i *ReplayItem) CameOfIt() string {
	if i.Mode == "shadow" {
		return fmt.Sprintf("%d would run (%d late), %d stale, %d wait, %d rejected", i.Applied+i.Late, i.Late, i.Stale, i.Waits, i.Rejected)
	}
	return fmt.Sprintf("%d ran (%d late), %d done before, %d stale, %d wait, %d rejected; %d dead letters", i.Applied+i.Late, i.Late, i.Done, i.Stale, i.Waits, i.Rejected, i.Errors)
}

// DiffersText says in words how what a shadow finds differs from what was.
func DiffersText(word string) string {
	return cmp.Or(map[string]string{"new": "did not run, and would", "gone": "ran, and would not", "other": "would run with other actions"}[word], word)
}

// CountText returns a count; "N or more" if there is more than was counted.
func CountText(n int64, more bool) string {
	if more {
		return strconv.FormatInt(n, 10) + " or more"
	}
	return strconv.FormatInt(n, 10)
}
