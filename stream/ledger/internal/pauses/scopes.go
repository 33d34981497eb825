package pauses

import (
	"slices"
	"strings"
)

// A pause may be of more than one subscription or destination: of all subscriptions, of those of a team, or of all destinations of an agent. It
// is kept as that of a subscription or destination with one of these names, which none has.

// AllSubscriptions is the name of the pause of all subscriptions.
const AllSubscriptions = "*"

// TeamSubscriptions is the name of the pause of all subscriptions of a team.
func TeamSubscriptions(team string) string { return team + ".*" }

// AgentDestinations is the name of the pause of all destinations of an agent.
func AgentDestinations(agent string) string { return "agent:" + agent }

// OfSubscription returns what keeps a subscription, "<team>.<subscription>", from going on: its own pause, that of its team or that of all. by is
// the name of the widest one that stands.
func OfSubscription(states map[string]SubscriptionState, name string) (sum SubscriptionState, by string) {
	team, _, _ := strings.Cut(name, ".")
	for _, key := range []string{AllSubscriptions, TeamSubscriptions(team), name} {
		s := states[key]
		sum.Ended = append(sum.Ended, s.Ended...)
		if s.Paused == nil {
			continue
		}
		if sum.Paused == nil {
			sum.Paused, sum.Since, by = s.Paused.of(key), s.Since, key
		}
		if s.Since.Before(sum.Since) {
			sum.Since = s.Since
		}
	}
	slices.SortFunc(sum.Ended, func(a, b Span) int { return a.From.Compare(b.From) })
	return sum, by
}

// OfDestination returns what is kept of a destination; where it is not paused itself, with the pause of its agent.
func OfDestination(states map[string]State, name, agent string) State {
	s := states[name]
	if of := states[AgentDestinations(agent)]; s.Paused == nil && of.Paused != nil {
		s.Paused, s.PausedFrom = of.Paused.of(AgentDestinations(agent)), of.PausedFrom
	}
	return s
}

// of returns the pause with what it is a pause of, by the name under which it is kept.
func (p Pause) of(key string) *Pause {
	if team, ok := strings.CutSuffix(key, ".*"); ok {
		p.Scope = "team " + team
	} else if agent, ok := strings.CutPrefix(key, AgentDestinations("")); ok {
		p.Scope = "agent " + agent
	} else if key == AllSubscriptions {
		p.Scope = "all"
	}
	return &p
}
