package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
)

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

// subscription checks one subscription with its sources, gap policy and actions.
func (ck *checker) subscription(path, team string, sub *Subscription) {
	sources := ck.c.sourcesOf(team, sub)
	ck.people(path, sub.Owners, sub.Contact)
	if len(sub.Sources) == 0 && ck.written(path+".sources") {
		ck.problem(path+".sources", "is empty; name at least one source")
	}
	ck.subscribed(path, team, sub)
	ck.types(path+".types", sub.Types)
	ck.condition(path+".match", sub.Match, "match is asked before there are actions")
	ck.also(path+".dedupe.also", sub.Dedupe.Also)
	ck.between(path+".loop.runs.per", sub.Loop.Runs.Per, Duration(time.Second), Duration(7*24*time.Hour))
	if ck.c.barred[path] == "" {
		ck.bySources(path, team, sources, sub)
	}
	ck.begin(path+".begin", sub.Begin)
	if ck.written(path + ".expire") {
		ck.between(path+".expire", sub.Expire, Duration(24*time.Hour), Duration(10*365*24*time.Hour))
	}
	if sub.Backlog == BacklogLatest && sub.Order == "arrival" && !ck.unresolved(path+".order") {
		ck.problem(path+".backlog", "latest needs order: version; with order: arrival no version overtakes another")
	}
	ck.between(path+".gap.wait", sub.Gap.Wait, 0, Duration(7*24*time.Hour))
	ck.maxWait(path+".gap.max_wait", sub)
	ck.retention(path+".retention", sub)
	ck.actions(path+".actions", team, sub)
}

// bySources checks what depends on the sources, or has a default that does. A barred subscription is not checked for it: what another team has
// made of its source must be no problem of the file.
func (ck *checker) bySources(path, team string, sources []NamedSource, sub *Subscription) {
	ck.repeated(path+".types", sources, sub)
	ck.saidTwice(path+".sources", sources, sub)
	ck.matchable(path+".types", sources, sub)
	if ck.written(path+".expire") && sub.Start != "any" && !ck.unresolved(path+".start") {
		ck.problem(path+".expire", "needs start: any; with start: %s the next event of a forgotten entity would wait as if events were missing", sub.Start)
	}
	if sub.Start == "first" && !sub.allSequence(sources) {
		ck.problem(path+".start", "first needs sources whose versions are of kind sequence; use any")
	}
	if ck.written(path+".gap") && !anySequence(sources) {
		ck.note(path+".gap", "has no effect: none of the sources has versions of kind sequence")
	}
	if least := sub.minWindow(ck.c, sources); !ck.unresolved(path+".dedupe.window") && sub.Dedupe.Window < least {
		ck.problem(path+".dedupe.window", "%s is less than %s (topic retention + segment time + redelivery horizon): an event could run twice", sub.Dedupe.Window, least)
	}
	ck.backfilled(path, team, sources, sub)
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

// types checks the globs over event types.
func (ck *checker) types(path string, globs []string) {
	for i, g := range globs {
		at := path + "[" + itoa(i) + "]"
		if !ck.unresolved(at) && (g == "" || len(g) > 256 || hasControls(g)) {
			ck.problem(at, "a type glob has 1 to 256 characters and no control characters")
		}
	}
}

// also checks a second key.
func (ck *checker) also(path string, a *Also) {
	if a == nil {
		return
	}
	ck.between(path+".window", a.Window, Duration(time.Second), Duration(7*24*time.Hour))
	if a.Key == "" || ck.unresolved(path+".key") {
		return
	}
	if _, err := policy.AlsoText(a.Key); err != nil {
		ck.problem(path+".key", "%v", err)
	}
}

// saidTwice notes where Slack says one thing under two ids.
func (ck *checker) saidTwice(path string, sources []NamedSource, sub *Subscription) {
	takes := func(typ string) bool {
		return len(sub.Types) == 0 || slices.ContainsFunc(sub.Types, func(glob string) bool { return provider.GlobsMeet(glob, typ) })
	}
	slack := slices.ContainsFunc(sources, func(s NamedSource) bool { return s.Preset == "slack" })
	if slack && sub.Dedupe.Also == nil && takes("com.slack.app_mention") && takes("com.slack.message") {
		ck.note(path, "takes app_mention and message: Slack sends both, under two ids, for a message that mentions the app. dedupe: {also: {key: \"has(body.event) && has(body.event.ts) ? body.event.channel + '/' + body.event.ts : ''\"}} has one of them run")
	}
}

// condition checks an expression that says yes or no. withoutAction says why it has no action to ask about; empty: it has one.
func (ck *checker) condition(path, text, withoutAction string) {
	if text == "" || ck.unresolved(path) {
		if ck.written(path) && !ck.unresolved(path) {
			ck.problem(path, "is empty; leave the key out, or write a CEL expression that gives true or false")
		}
		return
	}
	x, err := expression.Condition(text)
	switch {
	case err != nil:
		ck.problem(path, "%v", err)
	case withoutAction != "" && (x.Reads("action.name") || x.Reads("action.to")):
		ck.problem(path, "reads action, and %s: use when of the action", withoutAction)
	}
}

// repeated notes where a subscription asks for events whose bodies may be the same though they are not one event. Globs that match them
// among others are not noted: whoever wrote those need not have them in mind.
func (ck *checker) repeated(path string, sources []NamedSource, sub *Subscription) {
	for _, s := range sources {
		if s.Event != nil && s.Event.ID != "" {
			continue
		}
		preset, _ := provider.Lookup(s.Preset)
		for _, r := range preset.Repeats {
			i := slices.IndexFunc(sub.Types, func(glob string) bool { return strings.Contains(glob, r.Event) })
			if i >= 0 && r.Do != "" {
				ck.note(path+"["+itoa(i)+"]", "two %s events with the same body are one event, and act once: %s signs nothing else that could tell them apart from a delivery that somebody repeats; %s", r.Event, preset.Title, r.Do)
			}
		}
	}
}

// actions checks the actions of a subscription: their names, and each against its destination.
func (ck *checker) actions(path, team string, sub *Subscription) {
	actions := sub.Actions
	ck.budget(strings.TrimSuffix(path, ".actions"), sub.Budget, OfSubscription, OfEntity, OfAction)
	if len(actions) == 0 && ck.written(path) {
		ck.problem(path, "is empty; a subscription runs at least one action")
	}
	if len(actions) > ledger.MaxActions {
		ck.problem(path, "%d actions are more than %d: the ledger takes no more for a subscription", len(actions), ledger.MaxActions)
	}
	names := map[string]bool{}
	for i, a := range actions {
		at := path + "[" + itoa(i) + "]"
		ck.approval(at+".approval", team, a.Approval)
		if a.Name != "" && !validName(a.Name) {
			ck.problem(at+".name", "name %q must match [a-z0-9-]{1,40}", clip(a.Name))
		} else if a.Name != "" && names[a.Name] {
			ck.problem(at+".name", "action %s is listed twice", a.Name)
		}
		names[a.Name] = true
		ck.condition(at+".when", a.When, "")
		ck.budget(at, a.Budget, OfEntity, OfAction)
		if a.To == "" || ck.unresolved(at+".to") {
			continue
		}
		if d, ok := ck.c.Destination(team, a.To); !ok {
			ck.noDestination(at+".to", team, a.To)
		} else {
			ck.actionParams(at, a, d.Destination)
			ck.dropped(at, a, d.Destination)
			ck.onNewer(at, a, d.Destination, sub.Order == "arrival" && !ck.unresolved(strings.TrimSuffix(path, ".actions")+".order"))
			ck.checkMemory(at, a, d.Destination, sub)
		}
	}
}

// missing reports that the team has no source or destination (what) of this name, and which of the known names may have been meant.
func (ck *checker) missing(path, what, name string, known []string) {
	ck.problem(path, "the team has no %s %q%s", what, clip(name), names.DidYouMean(name, known))
}
