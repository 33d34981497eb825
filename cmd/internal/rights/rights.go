// Package rights is the table of least rights in Kafka: what each role, and each team's own consumers, may do with which topics and
// groups. `forebay acls export` prints it for a configuration; a test runs the product with these rights and nothing more.
package rights

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
)

// Role is who has a right.
type Role string

const (
	Intake   Role = "intake"   // `forebay serve --roles intake`
	Stream   Role = "stream"   // `forebay serve --roles stream`
	Admin    Role = "admin"    // `forebay topics apply`
	Rekey    Role = "rekey"    // `forebay topics rekey`, beside those of admin: rare
	Reading  Role = "reading"  // commands by hand that read events, beside those of admin
	Consumer Role = "consumer" // a team's own clients
)

// Kind is what a right is about.
type Kind string

const (
	Topic Kind = "topic"
	Group Kind = "group"
)

// rule is a line of the table. {team} stands for each team of the configuration.
type rule struct {
	role       Role
	kind       Kind
	name       string
	prefixed   bool
	operations []string
	why        string
	only       func(c *config.Config, team string) bool // nil: for every team
}

// table has every right that anybody needs. Operations that another implies are left out: Read, Write and Delete imply Describe,
// AlterConfigs implies DescribeConfigs.
var table = []rule{
	{role: Intake, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Write", "DescribeConfigs"}, why: "deliveries; it looks at the topics' settings before it starts"},
	{role: Intake, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Read"}, why: "`reconcile` of a shopify source: what has come", only: asksShopify},
	{role: Intake, kind: Topic, name: "quarantine.{team}.", prefixed: true, operations: []string{"Read", "Write", "DescribeConfigs"}, why: "deliveries in quarantine; `forebay quarantine` reads and marks them"},
	{role: Intake, kind: Topic, name: "agents.{team}", operations: []string{"Read", "DescribeConfigs"}, why: "keys of agents", only: hasAgents},

	{role: Stream, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Read", "DescribeConfigs"}, why: "events; retention says when bodies are copied"},
	{role: Stream, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Write"}, why: "`forebay inbox redrive` produces a quarantined record again; also events that a backfill brings"},
	{role: Stream, kind: Topic, name: "quarantine.{team}.", prefixed: true, operations: []string{"Read"}, why: "`forebay inbox list --delivery` looks there, too"},
	{role: Stream, kind: Topic, name: "dead.{team}.", prefixed: true, operations: []string{"Write"}, why: "dead letters"},
	{role: Stream, kind: Group, name: "{team}.", prefixed: true, operations: []string{"Read"}, why: "subscriptions: TEAM.SUBSCRIPTION"},

	{role: Admin, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Create", "Describe", "AlterConfigs"}, why: "topics of sources"},
	{role: Admin, kind: Topic, name: "quarantine.{team}.", prefixed: true, operations: []string{"Create", "Describe", "AlterConfigs"}, why: "their quarantine"},
	{role: Admin, kind: Topic, name: "dead.{team}.", prefixed: true, operations: []string{"Create", "Describe", "AlterConfigs"}, why: "topics of dead letters"},
	{role: Admin, kind: Topic, name: "agents.{team}", operations: []string{"Create", "Read", "Write", "AlterConfigs"}, why: "the topic of agents' keys, which `forebay agents` makes and revokes", only: hasAgents},

	{role: Rekey, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Read", "Write"}, why: "copies what is unread of a topic"},
	{role: Rekey, kind: Group, name: "{team}.", prefixed: true, operations: []string{"Describe"}, why: "whether a subscription still runs"},

	{role: Reading, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Read"}, why: "`forebay listen --forward-to`; `forebay sources reconcile` of a shopify source by hand"},
	{role: Reading, kind: Topic, name: "quarantine.{team}.", prefixed: true, operations: []string{"Read"}, why: "`forebay sources reconcile` of a shopify or stripe source by hand"},

	{role: Consumer, kind: Topic, name: "events.{team}.", prefixed: true, operations: []string{"Read"}, why: "the team's events"},
	{role: Consumer, kind: Topic, name: "dead.{team}.", prefixed: true, operations: []string{"Read"}, why: "its dead letters"},
	{role: Consumer, kind: Topic, name: "{team}.", prefixed: true, operations: []string{"Read"}, why: "what its destinations of type kafka write", only: namesNoPrefixOfOurs},
	{role: Consumer, kind: Group, name: "{team}.", prefixed: true, operations: []string{"Read"}, why: "its groups; also what Kafka's tools need to seek its subscriptions"},
}

// namesNoPrefixOfOurs reports whether a team's topics are apart from those of all teams: a team may be called "events".
func namesNoPrefixOfOurs(_ *config.Config, team string) bool {
	return !slices.Contains([]string{"events", "quarantine", "dead", "agents"}, team)
}

// hasAgents reports whether a team has sources that take keys of `forebay agents`.
func hasAgents(c *config.Config, team string) bool { return len(c.AgentSources(team)) > 0 }

// asksShopify reports whether an intake asks Shopify for what did not come to a team's topics.
func asksShopify(c *config.Config, team string) bool {
	for _, s := range c.Teams[team].Sources {
		if s.Preset == "shopify" && s.Reconcile != nil {
			return true
		}
	}
	return false
}

// Right allows a principal one operation.
type Right struct {
	Role      Role   `json:"role"`
	Team      string `json:"team,omitempty"` // of a consumer
	Principal string `json:"principal"`      // User:NAME
	Kind      Kind   `json:"kind"`
	Name      string `json:"name"`
	Prefixed  bool   `json:"prefixed"`
	Operation string `json:"operation"`
	Why       string `json:"why"`
}

// Of returns the rights that a configuration needs, by role, in the order of the table. principal names the user of a role, and of a
// team's own consumers.
func Of(c *config.Config, roles []Role, principal func(role Role, team string) string) (list []Right) {
	for _, role := range roles {
		for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
			for _, r := range table {
				if r.role == role && (r.only == nil || r.only(c, team)) {
					list = append(list, r.of(team, principal(role, team))...)
				}
			}
			if role == Consumer {
				list = append(list, shared(c, team, principal(role, team))...)
			}
		}
		if role == Stream {
			list = append(list, destinations(c, principal(role, ""))...)
		}
	}
	return withoutRepeats(list)
}

// of returns the rights that a rule gives for one team.
func (r rule) of(team, principal string) (list []Right) {
	for _, operation := range r.operations {
		one := Right{Role: r.role, Principal: principal, Kind: r.kind, Name: strings.ReplaceAll(r.name, "{team}", team), Prefixed: r.prefixed,
			Operation: operation, Why: r.why}
		if r.role == Consumer {
			one.Team = team
		}
		list = append(list, one)
	}
	return list
}

// shared returns the rights of a team's consumers to what other teams share with it.
func shared(c *config.Config, team, principal string) (list []Right) {
	for _, s := range c.SharedWith(team) {
		list = append(list, Right{Role: Consumer, Team: team, Principal: principal, Kind: Topic, Name: s.Topic, Operation: "Read",
			Why: "source " + s.Team + "/" + s.Name + ", which is shared with it"})
	}
	return list
}

// destinations returns the rights to write to the topics that destinations of type kafka have.
func destinations(c *config.Config, principal string) (list []Right) {
	for _, d := range c.AllDestinations() {
		if keys, ok := d.Keys.(*kafkasink.Config); ok {
			list = append(list, Right{Role: Stream, Principal: principal, Kind: Topic, Name: keys.Topic, Operation: "Write", Why: "destination " + d.FullName()})
		}
	}
	return list
}

// withoutRepeats leaves out what the same principal has already: several roles may have one user, several destinations one topic.
func withoutRepeats(list []Right) []Right {
	seen := map[Right]bool{}
	return slices.DeleteFunc(list, func(r Right) bool {
		r.Role, r.Team, r.Why = "", "", ""
		repeated := seen[r]
		seen[r] = true
		return repeated
	})
}

// entry is all that a principal may do with one resource.
type entry struct {
	principal  string
	kind       Kind
	name       string
	prefixed   bool
	operations []string
}

// entries puts the rights of each principal to each resource together, principals in the order in which they first come.
func entries(list []Right) (out []entry) {
	for _, r := range list {
		i := slices.IndexFunc(out, func(e entry) bool {
			return e.principal == r.Principal && e.kind == r.Kind && e.name == r.Name && e.prefixed == r.Prefixed
		})
		if i < 0 {
			i = len(out)
			out = append(out, entry{principal: r.Principal, kind: r.Kind, name: r.Name, prefixed: r.Prefixed})
		}
		out[i].operations = append(out[i].operations, r.Operation)
	}
	first := map[string]int{}
	for i, e := range out {
		if _, ok := first[e.principal]; !ok {
			first[e.principal] = i
		}
	}
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(first[a.principal], first[b.principal]) })
	return out
}
