// Package topics creates and checks the topics of sources and subscriptions, with the settings that the promises rest on:
//
//	events.<team>.<source>      verified events, keyed by entity; a source may name another topic, after Rekey
//	quarantine.<team>.<source>  authentic deliveries that could not become events
//	dead.<team>.<subscription>  actions that were given up
//	agents.<team>               keys of agents, of teams whose sources take them; compacted
//
// An acknowledged event must survive (P1): cleanup.policy=delete, no limit in bytes, no unclean election, min.insync.replicas >= 2 where
// there are three copies. Partition counts never change: entities would move and lose their order.
package topics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/agents"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/deadletter"
)

// HeaderRoom is how many bytes a record may have beside its body: keys, attributes and headers. max.message.bytes is that much larger
// than the largest body.
const HeaderRoom = 256 << 10

// MinInsync is a setting that others ask about.
const MinInsync = minInsync

const (
	cleanupPolicy = "cleanup.policy"
	retention     = "retention.ms"
	mostBytes     = "retention.bytes"
	segment       = "segment.ms"
	minInsync     = "min.insync.replicas"
	unclean       = "unclean.leader.election.enable"
	maxMessage    = "max.message.bytes"
	timestampType = "message.timestamp.type"
	compression   = "compression.type"
)

// Quarantine returns the topic of a source's unusable deliveries.
func Quarantine(team, source string) string { return "quarantine." + team + "." + source }

// Topic is a topic with the settings that it should have.
type Topic struct {
	Name        string
	Partitions  int32
	Replication int16
	Configs     map[string]string
	// Spare says that a process starts without the topic, and writes to it once it is there.
	Spare bool
}

// kind returns the first word of the topic's name, which says what it has.
func (t Topic) kind() string {
	kind, _, _ := strings.Cut(t.Name, ".")
	return kind
}

// written says what to write into the file for the topic to have a replication or retention.
func (t Topic) written(key, value string) string {
	switch {
	case t.kind() == "dead" && key == "retention":
		return fmt.Sprintf("retention: {dead: %s} for this subscription", value)
	case t.kind() == "dead":
		return fmt.Sprintf("topics: {%s: %s} for its sources", key, value)
	case t.kind() == "agents":
		return fmt.Sprintf("topics: {%s: %s} at the top of the file", key, value)
	}
	return fmt.Sprintf("topics: {%s: %s} for this source", key, value)
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
			list = append(list, deadLetters(c, team, name, maxBody))
		}
	}
	for _, team := range c.AgentTeams() {
		list = append(list, Topic{agents.Topic(team), 1, int16(c.Topics.Replication), map[string]string{
			cleanupPolicy: "compact", minInsync: strconv.Itoa(c.Topics.MinInsync), unclean: "false", timestampType: "LogAppendTime"}, false})
	}
	slices.SortFunc(list, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// deadLetters returns the topic of a subscription's dead letters. Its records stay as long as the ledger keeps dead letters. It has as
// many copies, and takes as large bodies, as that of the subscription's sources which has most.
func deadLetters(c *config.Config, team, name string, maxBody func(team, source string) int64) Topic {
	wanted, body := config.Topics{}, int64(0)
	for _, s := range c.SourcesOf(team, name) {
		wanted.Replication, wanted.MinInsync = max(wanted.Replication, s.Topics.Replication), max(wanted.MinInsync, s.Topics.MinInsync)
		wanted.Compression = cmp.Or(wanted.Compression, s.Topics.Compression)
		body = max(body, maxBody(s.Team, s.Name))
	}
	wanted.Retention = c.Teams[team].Subscriptions[name].Retention.Dead
	return Topic{deadletter.Topic(team + "." + name), 1, int16(wanted.Replication), settings(wanted, body), true}
}

// settings returns the topic configs for settings of the file and the largest body in bytes.
func settings(t config.Topics, maxBody int64) map[string]string {
	keep := t.Retention.Std()
	configs := map[string]string{
		cleanupPolicy: "delete",
		retention:     strconv.FormatInt(keep.Milliseconds(), 10),
		// A limit in bytes, which brokers may have for all topics (log.retention.bytes), would take events away before that.
		mostBytes: "-1",
		// Retention deletes whole segments: with Kafka's default of a week for one, a retention of a week would last two.
		segment:   strconv.FormatInt(min(keep, config.SegmentTime.Std()).Milliseconds(), 10),
		minInsync: strconv.Itoa(t.MinInsync),
		unclean:   "false",
		// The gate clamps future versions against the append time, so it has to be the broker's.
		timestampType: "LogAppendTime",
		maxMessage:    strconv.FormatInt(maxBody+HeaderRoom, 10),
	}
	if t.Compression != "" {
		configs[compression] = t.Compression
	}
	return configs
}
