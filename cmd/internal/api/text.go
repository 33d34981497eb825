package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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
