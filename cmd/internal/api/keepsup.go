package api

import (
	"cmp"
	"fmt"
	"time"
)

const (
	littleLag  = 1000        // records that are no backlog
	littleTime = time.Minute // nor is what came within it
	littleOpen = 100         // open actions that are none
	hotOf      = 0.8         // of the lag, a partition that alone is behind
)

// KeepsUp says of a subscription's partitions whether it keeps up with what comes, and if not, what to look at or to add.
func KeepsUp(partitions []LagItem) string {
	var lag, most, open int64
	var oldest, waits time.Duration
	name, standing, counted, owners := "", 0, true, map[string]bool{}
	for i := range partitions {
		p := &partitions[i]
		name = p.Team + "." + p.Subscription
		switch p.State {
		case "paused":
			return "It is paused: " + cmp.Or(p.Detail, "`forebay subscriptions resume "+name+" --reason TEXT` lets it go on") + "."
		case "stopped", "unread":
			standing++
		}
		if p.Owner != "" {
			owners[p.Owner] = true
		}
		if p.Records != nil {
			lag, most = lag+*p.Records, max(most, *p.Records)
		}
		if p.Seconds != nil {
			oldest = max(oldest, time.Duration(*p.Seconds*float64(time.Second)))
		}
		if p.OpenSeconds != nil {
			waits = max(waits, time.Duration(*p.OpenSeconds*float64(time.Second)))
		}
		if counted = counted && p.OpenActions != nil; counted {
			open += *p.OpenActions
		}
	}
	behind := fmt.Sprintf("%d records are not decided, the oldest for %s", lag, DurationText(oldest))
	switch {
	case standing > 0:
		return fmt.Sprintf("%d of %d partitions stand still, which no size changes: `forebay subscriptions get %s` says why.", standing, len(partitions), name)
	case lag > littleLag && oldest > littleTime && len(partitions) > 1 && float64(most) >= hotOf*float64(lag):
		return behind + ", nearly all of them in one partition: its entities are busier than the others', and neither processes nor partitions divide one entity."
	case lag > littleLag && oldest > littleTime && len(owners) < len(partitions):
		return fmt.Sprintf("%s, by %d processes for %d partitions. If that does not fall: another process where theirs have no core to spare, else a look at Postgres and the brokers.", behind, len(owners), len(partitions))
	case lag > littleLag && oldest > littleTime:
		return fmt.Sprintf("%s, and each of %d partitions has a process of its own. If that does not fall: more partitions (`forebay topics rekey`) where theirs have no core to spare, else a look at Postgres and the brokers.", behind, len(partitions))
	case counted && waits > littleTime:
		return fmt.Sprintf("All is decided, or soon will be. But %d actions are open, and the first of them has waited for %s: `forebay destinations list` shows which destination is down, paused, slow, at its rate or without a free slot (`concurrency`).", open, DurationText(waits))
	case !counted:
		return "All is decided, or soon will be. More actions are open than can be counted in time: `forebay destinations list` shows which destination is paused, slow, at its rate or without a free slot (`concurrency`)."
	case open > littleOpen:
		return fmt.Sprintf("All is decided, or soon will be. %d actions are open, dead letters among them: `forebay destinations list` shows which destination is paused, slow, at its rate or without a free slot (`concurrency`), `forebay dlq groups` what is dead.", open)
	}
	return fmt.Sprintf("It keeps up: %d records are not decided yet, %d actions are open.", lag, open)
}
