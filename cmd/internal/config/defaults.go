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
	// SegmentTime is the segment.ms that `topics apply` sets. Kafka deletes whole segments, so a record may stay that much longer than
	// the topic's retention.
	SegmentTime = Duration(24 * time.Hour)
)

// fillStatic sets the keys at and below path that are not written to their declared defaults. v has the value at path.
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
			return // a source's topics get theirs from the top of the file, by Source.fill
		}
		for _, m := range members(v) {
			at := join(path, m.name)
			if _, written := c.places[at]; !written && m.def != "" {
				if err := setScalar(m.value, m.def, field{}); err != nil {
					panic("config: default of " + at + ": " + err.Error()) // the declaration is wrong
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
	c.fillIntake()
	c.fillQuotas()
	// The lists are shown even if they are empty: what a team's file may read is to be seen.
	for _, list := range []*[]string{&c.TeamsDir.References.Env, &c.TeamsDir.References.Files} {
		if *list == nil {
			*list = []string{}
		}
	}
	if r := &c.TeamsDir.References; r.Networks == nil {
		r.Networks = []netip.Prefix{}
	}
	for name, team := range c.Teams {
		for source, s := range team.Sources {
			if s.Topic == "" {
				s.Topic = eventTopicPrefix(name) + source
			}
			if s.PublicURL == "" && c.Intake.PublicURL != "" {
				s.PublicURL = c.Intake.PublicURL + "/v1/in/" + name + "/" + source
			}
			s.OnBrokerOutage = cmp.Or(s.OnBrokerOutage, c.OnBrokerOutage)
			s.fill(c.Topics)
			if b := s.Backfill; b != nil {
				c.fillMax("teams."+name+".sources."+source+".backfill.retry", (*Retry)(&b.Retry))
			}
		}
	}
	for name, team := range c.Teams { // after all sources: a subscription may read another team's
		for _, sub := range team.Subscriptions {
			if sub.Owners == nil {
				sub.Owners = team.Owners
			}
			sub.Contact = cmp.Or(sub.Contact, team.Contact)
			sub.fill(c, c.sourcesOf(name, sub))
		}
	}
	for _, d := range c.AllDestinations() {
		c.fillDestination(d)
	}
}

// fillDestination sets the defaults of a destination that depend on other keys, those of the subscriptions that use it among them.
func (c *Config) fillDestination(d NamedDestination) {
	if d.Concurrency == 0 {
		d.Concurrency = cmp.Or(d.about().Concurrency, spec.DefaultConcurrency)
	}
	c.fillMax(d.Path()+".retry", &d.Retry)
	if d.Rate != nil && d.Rate.Burst == 0 {
		d.Rate.Burst = d.Rate.Limit
	}
	c.fillMemory(d)
}

// fillMemory sets for how long a destination that remembers which actions are done does so, if the file does not say: as long as its
// actions may be attempted, by the subscription that may longest. If it forgot an action earlier, a late attempt would run that again.
func (c *Config) fillMemory(d NamedDestination) {
	memory := d.about().Memory
	if memory == nil {
		return
	}
	if _, written := c.places[d.Path()+"."+memory.Key]; written {
		return
	}
	*memory.For = memory.Default
	for _, u := range c.usesOf(d) {
		*memory.For = max(*memory.For, u.sub.attemptTime(d.Destination).Std())
	}
}

// attemptTime returns for how long the subscription may attempt an action: the time of the retries, and then the time in which its
// dead letter can be replayed.
func (sub *Subscription) attemptTime(d *Destination) Duration {
	return d.Retry.Within + max(sub.Retention.Dead, sub.Dedupe.Window)
}

// Statements returns how many statements of actions may be under way in the ledger's database at once, of all teams.
func (c *Config) Statements() (n int) {
	for _, d := range c.AllDestinations() {
		if d.about().InLedger {
			n += d.Concurrency
		}
	}
	return n
}

// eventTopicPrefix returns the prefix of the topics of a team's sources, which access rights go by.
func eventTopicPrefix(team string) string { return "events." + team + "." }

// minInsync returns the default of min_insync.
func minInsync(replication int) int {
	if replication >= 3 {
		return 2
	}
	return 1
}

// fill sets the defaults of a source that depend on other keys. top are the settings of topics at the top of the file.
func (s *Source) fill(top Topics) {
	t := &s.Topics
	if t.Partitions == 0 {
		t.Partitions = top.Partitions
	}
	if t.Retention == 0 {
		t.Retention = top.Retention
	}
	t.Compression = cmp.Or(t.Compression, top.Compression)
	if t.MinInsync == 0 && t.Replication == 0 {
		t.MinInsync = top.MinInsync
	} else if t.MinInsync == 0 {
		t.MinInsync = minInsync(t.Replication)
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
			r.Burst = r.Limit
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

// fill sets the defaults of a subscription that depend on other keys. sources are its own, as far as there are such.
func (sub *Subscription) fill(c *Config, sources []NamedSource) {
	if sub.Start == "" {
		sub.Start = "any"
		if sub.allSequence(sources) {
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
		sub.Dedupe.Window = sub.minWindow(c, sources)
	}
}

// backfills reports whether the subscription's policy asks for backfills.
func (sub *Subscription) backfills() bool {
	return sub.Gap.Then == "backfill" || sub.Start == "backfill"
}

// allSequence reports whether all sources of the subscription have versions of kind sequence.
func (sub *Subscription) allSequence(sources []NamedSource) bool {
	others := slices.ContainsFunc(sources, func(s NamedSource) bool { return !s.Sequence() })
	return !others && len(sources) > 0 && len(sources) == len(sub.Sources)
}

// anySequence reports whether one of the sources has versions of kind sequence.
func anySequence(sources []NamedSource) bool {
	return slices.ContainsFunc(sources, func(s NamedSource) bool { return s.Sequence() })
}

// minWindow returns for how long the subscription must remember events at least: as long as the log may have them, or the provider may
// deliver them again.
func (sub *Subscription) minWindow(c *Config, sources []NamedSource) Duration {
	longest := Duration(0)
	for _, s := range sources {
		longest = max(longest, s.Topics.Retention)
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
