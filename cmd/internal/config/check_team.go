package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// maxBodyLimit is the largest max_body of a source. Records of that size must also fit into the broker.
const maxBodyLimit = Size(100 << 20)

// source checks the keys of a source that do not need the catalogue; compiling the source checks the rest.
func (ck *checker) source(path string, s *Source) {
	if len(s.Secrets) == 0 && !ck.unresolved(path+".secrets") && ck.written(path+".secrets") {
		ck.problem(path+".secrets", "is empty; a source without a secret would let everybody in")
	}
	if s.MaxBody > maxBodyLimit {
		ck.problem(path+".max_body", "%s is more than %s", s.MaxBody, maxBodyLimit)
	}
	if ck.written(path + ".deadline") {
		ck.between(path+".deadline", s.Deadline, Duration(time.Second), Duration(50*time.Second)) // the listener cuts an answer off after 60 s
	}
	ck.topics(path+".topics", s.Topics)
	ck.fetches(path, s)
	if ck.unresolved(path + ".preset") {
		return
	}
	if s.Preset == "generic" {
		ck.generic(path, s)
	}
	ck.publicURL(path, s)
	for _, n := range (provider.Config{Preset: s.Preset, KeyEncoding: s.KeyEncoding, Verify: s.Verify, Event: s.Event}).Unsigned() {
		if at := path + "." + n.Key; !ck.unresolved(at) {
			ck.note(at, "%v", n.Err)
		}
	}
	if v := s.Verify; v != nil && v.KeyEncoding != "" && s.KeyEncoding != "" && v.KeyEncoding != s.KeyEncoding {
		ck.problem(path+".verify.key_encoding", "%s contradicts key_encoding %s beside secrets", v.KeyEncoding, s.KeyEncoding)
	}
	if e := s.Event; e != nil && e.Version != nil {
		ck.version(path+".event.version", e.Version)
	}
}

// publicURL checks that the URL is known where the signature covers it. A request's own Host would be the sender's word for it.
func (ck *checker) publicURL(path string, s *Source) {
	if ck.written(path+".public_url") && !ck.unresolved(path+".public_url") && !callable(s.PublicURL) {
		ck.problem(path+".public_url", "is not a URL such as https://hooks.example.com/v1/in/team/source, without a query")
	}
	signed := provider.Config{Preset: s.Preset, KeyEncoding: s.KeyEncoding, Verify: s.Verify}.SignsURL()
	switch {
	case signed && s.PublicURL == "" && !ck.unresolved(path+".public_url") && !ck.unresolved("listen.public_url"):
		ck.problem(path, "public_url is missing: the signature covers the URL that the provider calls; write it here, or what stands before /v1/in in listen.public_url")
	case !signed && ck.written(path+".public_url"):
		ck.note(path+".public_url", "has no effect: the signature does not cover the URL")
	}
}

// topicName matches the topic names that Kafka accepts.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// checkEventTopics checks that the topic of each source has a valid name and is no other source's. taken has the topics of all teams.
func (ck *checker) checkEventTopics(path, team string, taken map[string]string) {
	sources := ck.c.Teams[team].Sources
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		at, topic := path+".sources."+name, sources[name].Topic
		if ck.unresolved(at + ".topic") {
			continue
		}
		if prefix := eventTopicPrefix(team); !topicName.MatchString(topic) || !strings.HasPrefix(topic, prefix) {
			ck.problem(at+".topic", "%q is not a topic's name that begins with %s, as the team's rights do", clip(topic), prefix)
		} else if other, ok := taken[topic]; ok {
			ck.problem(at+".topic", "%s is the topic of %s, too", topic, other)
		}
		taken[topic] = at
	}
}

// generic checks a source with preset generic: the file must say how it is verified, and its event's id, type and entity.
func (ck *checker) generic(path string, s *Source) {
	if s.Verify == nil {
		ck.problem(path, "verify is missing: preset generic needs at least verify.signature_header")
	} else if !ck.unresolved(path+".verify.signature_header") && !ck.unresolved(path+".verify.scheme") {
		isHMAC := s.Verify.Scheme == "" || s.Verify.Scheme == verify.SchemeHMAC
		if isHMAC && s.Verify.SignatureHeader == "" {
			ck.problem(path+".verify", "signature_header is missing")
		}
	}
	if s.Event == nil {
		ck.problem(path, "event is missing: preset generic needs event.id, event.type and event.entity")
		return
	}
	for _, key := range []string{"id", "type", "entity"} {
		if !ck.written(path + ".event." + key) {
			ck.problem(path+".event", "%s is missing: preset generic needs event.id, event.type and event.entity", key)
		}
	}
}

// version checks the mapping of the version: from is there, and no key that has no meaning for its kind; the values of rank are
// listed once each.
func (ck *checker) version(path string, v *provider.VersionConfig) {
	if v.Kind != "none" && v.From == "" && !ck.unresolved(path+".from") && !ck.unresolved(path+".kind") {
		ck.problem(path, "from is missing")
	}
	if v.Kind == "none" && v.From != "" {
		ck.problem(path+".from", "has no meaning with kind none")
	}
	if v.As != "" && v.Kind != "monotonic" && !ck.unresolved(path+".as") && !ck.unresolved(path+".kind") {
		ck.problem(path+".as", "has no meaning with kind %s: it is for kind monotonic", v.Kind)
	}
	if v.Kind == "none" && v.Epoch != "" {
		ck.problem(path+".epoch", "has no meaning with kind none")
	}
	if v.Rank == nil {
		return
	}
	if v.Kind == "none" {
		ck.problem(path+".rank", "has no meaning with kind none")
	}
	if len(v.Rank.Order) == 0 && ck.written(path+".rank.order") && !ck.unresolved(path+".rank.order") {
		ck.problem(path+".rank.order", "is empty; list the values from the first to the last")
	}
	for i, s := range v.Rank.Order {
		if at := path + ".rank.order[" + itoa(i) + "]"; !ck.unresolved(at) && slices.Index(v.Rank.Order, s) < i {
			ck.problem(at, "%q is listed twice", clip(s))
		}
	}
}

// subscription checks one subscription with its sources, gap policy and actions.
func (ck *checker) subscription(path string, t *Team, sub *Subscription) {
	if len(sub.Sources) == 0 && ck.written(path+".sources") {
		ck.problem(path+".sources", "is empty; name at least one source")
	}
	ck.subscribed(path+".sources", t, sub)
	ck.types(path+".types", sub.Types)
	if !ck.unresolved(path + ".begin") {
		if _, err := ParseBegin(sub.Begin); err != nil {
			ck.problem(path+".begin", "%v", err)
		}
	}
	if ck.written(path + ".expire") {
		ck.between(path+".expire", sub.Expire, Duration(24*time.Hour), Duration(10*365*24*time.Hour))
		if sub.Start != "any" && !ck.unresolved(path+".start") {
			ck.problem(path+".expire", "start: %s would take the next event of a forgotten entity for one out of turn: it goes with start: any", sub.Start)
		}
	}
	if sub.Backlog == BacklogLatest && sub.Order == "arrival" && !ck.unresolved(path+".order") {
		ck.problem(path+".backlog", "latest: in order of arrival no version overtakes another: it goes with order: version")
	}
	if sub.Start == "first" && !sub.allSequence(t) {
		ck.problem(path+".start", "first needs sources whose versions are of kind sequence; use any")
	}
	if ck.written(path+".gap") && !sub.anySequence(t) {
		ck.note(path+".gap", "has no effect: none of the sources has versions of kind sequence")
	}
	if least := sub.minWindow(ck.c, t); !ck.unresolved(path+".dedupe.window") && sub.Dedupe.Window < least {
		ck.problem(path+".dedupe.window", "%s is less than %s (topic retention + segment time + redelivery horizon): an event could run twice", sub.Dedupe.Window, least)
	}
	ck.backfilled(path, t, sub)
	ck.between(path+".gap.wait", sub.Gap.Wait, 0, Duration(7*24*time.Hour))
	ck.maxWait(path+".gap.max_wait", sub)
	ck.retention(path+".retention", sub)
	ck.actions(path+".actions", t, sub)
}

// maxWait checks gap.max_wait, which limits the wait for several gaps in a row. It must not be less than the limit for one gap: wait,
// and within too if the missing events are asked for.
func (ck *checker) maxWait(path string, sub *Subscription) {
	if !ck.written(path) || ck.unresolved(path) {
		return
	}
	ck.between(path, sub.Gap.MaxWait, Duration(time.Millisecond), Duration(30*24*time.Hour))
	oneGap, keys := sub.Gap.Wait, "wait"
	if sub.backfills() {
		oneGap, keys = sub.Gap.Wait+sub.Gap.Within, "wait and within together: a backfill would have no time for its answer"
	}
	if sub.Gap.MaxWait < oneGap {
		ck.problem(path, "%s is less than %s, %s", sub.Gap.MaxWait, oneGap, keys)
	}
}

// retention checks how long ended events can be read. Less than the dedupe window has no effect, since rows live as long as that.
func (ck *checker) retention(path string, sub *Subscription) {
	for _, k := range []struct {
		name string
		keep Duration
	}{{".done", sub.Retention.Done}, {".dead", sub.Retention.Dead}} {
		ck.between(path+k.name, k.keep, Duration(time.Minute), Duration(3650*24*time.Hour))
		if ck.written(path+k.name) && k.keep < sub.Dedupe.Window {
			ck.note(path+k.name, "has no effect: what dedupe remembers is kept for %s", sub.Dedupe.Window)
		}
	}
}

// subscribed checks that the sources of a subscription exist and are listed once.
func (ck *checker) subscribed(path string, t *Team, sub *Subscription) {
	for i, name := range sub.Sources {
		at := path + "[" + itoa(i) + "]"
		if ck.unresolved(at) {
			continue
		}
		if _, ok := t.Sources[name]; !ok {
			ck.missing(at, "source", name, keys(t.Sources))
		} else if slices.Index(sub.Sources, name) < i {
			ck.problem(at, "source %s is listed twice", name)
		}
	}
}

// types checks the globs over event types.
func (ck *checker) types(path string, globs []string) {
	for i, g := range globs {
		at := path + "[" + itoa(i) + "]"
		if !ck.unresolved(at) && (g == "" || len(g) > 256 || hasControls(g)) {
			ck.problem(at, "a type glob has 1 to 256 characters and no control characters")
		}
	}
}

// actions checks the actions of a subscription: their names, and each against its destination.
func (ck *checker) actions(path string, t *Team, sub *Subscription) {
	actions := sub.Actions
	if len(actions) == 0 && ck.written(path) {
		ck.problem(path, "is empty; a subscription runs at least one action")
	}
	names := map[string]bool{}
	for i, a := range actions {
		at := path + "[" + itoa(i) + "]"
		if a.Name != "" && !validName(a.Name) {
			ck.problem(at+".name", "name %q must match [a-z0-9-]{1,40}", clip(a.Name))
		} else if a.Name != "" && names[a.Name] {
			ck.problem(at+".name", "action %s is listed twice", a.Name)
		}
		names[a.Name] = true
		if a.To == "" || ck.unresolved(at+".to") {
			continue
		}
		if d, ok := t.Destinations[a.To]; !ok {
			ck.missing(at+".to", "destination", a.To, keys(t.Destinations))
		} else {
			ck.actionParams(at, a, d)
			ck.dropped(at, a, d)
			ck.remembers(at, a, d, sub)
		}
	}
}

// missing reports that the team has no source or destination (what) of this name, and which of the known names may have been meant.
func (ck *checker) missing(path, what, name string, known []string) {
	if near := nearest(name, known); near != "" {
		ck.problem(path, "the team has no %s %q; did you mean %s?", what, clip(name), near)
		return
	}
	ck.problem(path, "the team has no %s %q", what, clip(name))
}
