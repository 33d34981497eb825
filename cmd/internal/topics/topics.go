// Package topics gives every source its two topics, and every subscription one, with the settings that the promises rest on, and checks them.
//
//	events.<team>.<source>      verified events, keyed by entity; a source may name another (topic), after Rekey
//	quarantine.<team>.<source>  authentic deliveries that could not become events
//
// And every subscription has one: dead.<team>.<subscription>, the actions that were given up.
//
// An acknowledged event must survive (P1): cleanup.policy=delete, no unclean election, min.insync.replicas >= 2 where
// there are three copies. Partition counts never change: entities would move and lose their order.
package topics

import (
	"maps"
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/deadletter"
)

// HeaderRoom is what a topic takes beyond the largest body: attributes and headers of a record.
const HeaderRoom = 256 << 10

const (
	cleanupPolicy = "cleanup.policy"
	retention     = "retention.ms"
	segment       = "segment.ms"
	minInsync     = "min.insync.replicas"
	unclean       = "unclean.leader.election.enable"
	maxMessage    = "max.message.bytes"
	timestampType = "message.timestamp.type"
)

// Quarantine returns the topic of a source's unusable deliveries.
func Quarantine(team, source string) string { return "quarantine." + team + "." + source }

// Topic is a topic with the settings that it should have.
type Topic struct {
	Name        string
	Partitions  int32
	Replication int16
	Configs     map[string]string
	// Spare topics may be missing: a process starts without them, and writes to them once they are there.
	Spare bool
}

// Wanted lists the topics of a configuration, sorted by name. maxBody is the largest body of a source in bytes.
func Wanted(c *config.Config, maxBody func(team, source string) int64) []Topic {
	var list []Topic
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		sources := c.Teams[team].Sources
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			t := sources[name].Topics
			configs := settings(t, maxBody(team, name))
			list = append(list,
				Topic{sources[name].Topic, int32(t.Partitions), int16(t.Replication), configs, false},
				Topic{Quarantine(team, name), 1, int16(t.Replication), configs, false})
		}
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Subscriptions)) {
			list = append(list, dead(c.Teams[team], team, name, maxBody))
		}
	}
	slices.SortFunc(list, func(a, b Topic) int { return compare(a.Name, b.Name) })
	return list
}

// dead returns the topic of a subscription's dead letters: kept as long as the ledger keeps them, and as safe as the safest of
// its sources.
func dead(t *config.Team, team, name string, maxBody func(team, source string) int64) Topic {
	sub, like, body := t.Subscriptions[name], config.Topics{}, int64(0)
	for _, source := range sub.Sources {
		if s := t.Sources[source]; s != nil {
			like.Replication, like.MinInsync = max(like.Replication, s.Topics.Replication), max(like.MinInsync, s.Topics.MinInsync)
			body = max(body, maxBody(team, source))
		}
	}
	like.Retention = sub.Retention.Dead
	return Topic{deadletter.Topic(team + "." + name), 1, int16(like.Replication), settings(like, body), true}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func settings(t config.Topics, maxBody int64) map[string]string {
	keep := t.Retention.Std()
	return map[string]string{
		cleanupPolicy: "delete",
		retention:     strconv.FormatInt(keep.Milliseconds(), 10),
		// Segments are what retention deletes by: with Kafka's week-long default, a week of retention would last two.
		segment:   strconv.FormatInt(min(keep, config.SegmentTime.Std()).Milliseconds(), 10),
		minInsync: strconv.Itoa(t.MinInsync),
		unclean:   "false",
		// The gate clamps future versions against the append time, so it has to be the broker's.
		timestampType: "LogAppendTime",
		maxMessage:    strconv.FormatInt(maxBody+HeaderRoom, 10),
	}
}
