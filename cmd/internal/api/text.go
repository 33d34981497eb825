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
