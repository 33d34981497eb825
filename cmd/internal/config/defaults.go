package config

import (
	"cmp"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/forebay-io/forebay/sinks/spec"
)

const (
	// RedeliveryHorizon is how long providers may deliver an event again.
	RedeliveryHorizon = Duration(7 * 24 * time.Hour)
	// SegmentTime is the segment.ms that `topics apply` sets: what is past retention is gone after one more segment.
	SegmentTime = Duration(24 * time.Hour)
)

// fillStatic sets every declared default below v that was not written.
func (c *Config) fillStatic(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.fillStatic(v.Elem(), path)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			c.fillStatic(v.MapIndex(k), join(path, k.String()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.fillStatic(v.Index(i), path+"["+itoa(i)+"]")
		}
	case reflect.Struct:
		if isScalar(v.Type()) || (v.Type() == topicsType && path != "topics") {
			return // a source's topics inherit
		}
		for _, m := range members(v) {
			at := join(path, m.name)
			if _, written := c.places[at]; !written && m.def != "" {
				if err := setScalar(m.value, m.def, field{}); err != nil {
					panic("config: default of " + at + ": " + err.Error()) // a slip in a declaration
				}
				continue
			}
			c.fillStatic(m.value, at)
		}
	}
}

var topicsType = reflect.TypeFor[Topics]()

// fillComputed sets the defaults that depend on other keys.
func (c *Config) fillComputed() {
	if c.Topics.Replication == 0 && allLoopback(c.Kafka.Brokers) {
		c.Topics.Replication = 1
	}
	if c.Topics.MinInsync == 0 {
		c.Topics.MinInsync = minInsync(c.Topics.Replication)
	}
	for name, team := range c.Teams {
		for source, s := range team.Sources {
			if s.Topic == "" {
				s.Topic = eventTopicPrefix(name) + source
			}
			s.fill(c.Topics)
		}
		for destination, d := range team.Destinations {
			if d.Concurrency == 0 {
				d.Concurrency = cmp.Or(d.about().Concurrency, spec.DefaultConcurrency)
			}
			if _, written := c.places["teams."+name+".destinations."+destination+".retry.max"]; !written {
				d.Retry.Max = maxDelay(d.Retry)
			}
			if d.Rate != nil && d.Rate.Burst == 0 {
				d.Rate.Burst = d.Rate.Limit
			}
		}
		for _, sub := range team.Subscriptions {
			sub.fill(c, team)
		}
		for destination, d := range team.Destinations {
			c.fillMemory("teams."+name+".destinations."+destination, d, team.attempted(destination))
		}
	}
}

// fillMemory sets the default of a destination's keys that say how long it remembers which actions are done: as long as it has to.
func (c *Config) fillMemory(path string, d *Destination, least Duration) {
	m := d.about().Memory
	if m == nil {
		return
	}
	if _, written := c.places[path+"."+m.Key]; !written {
		*m.For = max(m.Default, least.Std())
	}
}

// attempted returns for how long an action of any subscription may be attempted at a destination, which must remember it as long.
func (t *Team) attempted(destination string) (longest Duration) {
	d := t.Destinations[destination]
	for _, sub := range t.Subscriptions {
		if slices.ContainsFunc(sub.Actions, func(a Action) bool { return a.To == destination }) {
			longest = max(longest, sub.attempted(d))
		}
	}
	return longest
}

// attempted returns for how long the subscription may attempt an action: the time of the retries, plus that in which a dead letter can be
// replayed.
func (sub *Subscription) attempted(d *Destination) Duration {
	return d.Retry.Within + max(sub.Retention.Dead, sub.Dedupe.Window)
}

// Statements returns how many statements of actions may be under way in the ledger's database at once, of all teams.
func (c *Config) Statements() (n int) {
	for _, t := range c.Teams {
		for _, d := range t.Destinations {
			if d.about().InLedger {
				n += d.Concurrency
			}
		}
	}
	return n
}

// maxDelay returns the default of the longest delay: five sixths of within, so that the delays before it fit into the rest.
func maxDelay(r Retry) Duration { return max(r.Min, min(r.Within/6*5, longestDelay)) }

// eventTopicPrefix returns the prefix of the topics of a team's sources, which access rights go by.
func eventTopicPrefix(team string) string { return "events." + team + "." }

func minInsync(replication int) int {
	if replication >= 3 {
		return 2
	}
	return 1
}

func (s *Source) fill(top Topics) {
	t := &s.Topics
	if t.Partitions == 0 {
		t.Partitions = top.Partitions
	}
	if t.Retention == 0 {
		t.Retention = top.Retention
	}
	switch {
	case t.MinInsync != 0:
	case t.Replication != 0:
		t.MinInsync = minInsync(t.Replication)
	default:
		t.MinInsync = top.MinInsync
	}
	if t.Replication == 0 {
		t.Replication = top.Replication
	}
	if s.Sequence() && s.Event.First == nil {
		first := int64(1)
		s.Event.First = &first
	}
	if s.Event != nil && s.Event.Version != nil && s.Event.Version.Kind == "monotonic" && s.Event.Version.As == "" {
		s.Event.Version.As = "integer"
	}
	for _, r := range s.rates() {
		if r.Burst == 0 {
			r.Burst = r.PerSecond
		}
	}
}

// rates returns the token buckets of a source.
func (s *Source) rates() (list []*Rate) {
	if s.Rate != nil {
		list = append(list, s.Rate)
	}
	if s.Backfill != nil && s.Backfill.Rate != nil {
		list = append(list, s.Backfill.Rate)
	}
	if s.Thin != nil && s.Thin.Rate != nil {
		list = append(list, s.Thin.Rate)
	}
	return list
}

// Sequence reports whether the source's versions are dense, so that gaps can be seen.
func (s *Source) Sequence() bool {
	return s.Event != nil && s.Event.Version != nil && s.Event.Version.Kind == "sequence"
}

func (sub *Subscription) fill(c *Config, team *Team) {
	if sub.Start == "" {
		sub.Start = "any"
		if sub.allSequence(team) {
			sub.Start = "first"
		}
	}
	if sub.backfills() {
		if sub.Gap.Within == 0 {
			sub.Gap.Within = Duration(time.Minute)
		}
		if sub.Gap.Otherwise == "" {
			sub.Gap.Otherwise = "park"
		}
	}
	if sub.Dedupe.Window == 0 {
		sub.Dedupe.Window = sub.minWindow(c, team)
	}
}

// backfills reports whether the subscription's policy asks for backfills.
func (sub *Subscription) backfills() bool {
	return sub.Gap.Then == "backfill" || sub.Start == "backfill"
}

func (sub *Subscription) allSequence(team *Team) bool {
	for _, name := range sub.Sources {
		if s, ok := team.Sources[name]; !ok || !s.Sequence() {
			return false
		}
	}
	return len(sub.Sources) > 0
}

func (sub *Subscription) anySequence(team *Team) bool {
	for _, name := range sub.Sources {
		if s, ok := team.Sources[name]; ok && s.Sequence() {
			return true
		}
	}
	return false
}

// minWindow returns the least time for which events must be remembered: as long as one may still be read or sent again.
func (sub *Subscription) minWindow(c *Config, team *Team) Duration {
	longest := Duration(0)
	for _, name := range sub.Sources {
		if s, ok := team.Sources[name]; ok {
			longest = max(longest, s.Topics.Retention)
		}
	}
	if longest == 0 {
		longest = c.Topics.Retention
	}
	return longest + SegmentTime + RedeliveryHorizon
}

// allLoopback reports whether every broker is on this machine. No broker at all means an embedded one.
func allLoopback(brokers []string) bool {
	for _, b := range brokers {
		host, _, err := net.SplitHostPort(b)
		if err != nil || !loopback(host) {
			return false
		}
	}
	return true
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
