package config

import (
	"maps"
	"path/filepath"
	"slices"
)

// NamedDestination is a destination with its names. It is a team's own, or shared: of the top of the main file, for several teams.
type NamedDestination struct {
	*Destination
	Team string // whose own it is; empty: it is shared
	Name string // what `to` of an action says
	At   string // where it stands in the file, if it is none of a team and none that teams share: a receiver of alerts
}

// FullName is what the ledger, logs, metrics and commands call it: acme/pagers, or pagers where it is shared.
func (d NamedDestination) FullName() string {
	if d.Team == "" {
		return d.Name
	}
	return d.Team + "/" + d.Name
}

// Path is where it stands in the file.
func (d NamedDestination) Path() string {
	if d.At != "" {
		return d.At
	}
	if d.Team == "" {
		return "destinations." + d.Name
	}
	return "teams." + d.Team + ".destinations." + d.Name
}

// DirOf returns the directory of the file in which a destination stands, from here.
func (c *Config) DirOf(d NamedDestination) string { return filepath.Dir(c.at(d.Path()).file) }

// AllDestinations returns every destination: the shared ones, then those of each team, in the order of their names.
func (c *Config) AllDestinations() (list []NamedDestination) {
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		list = append(list, NamedDestination{Destination: c.Destinations[name], Team: "", Name: name})
	}
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		list = append(list, c.Teams[team].own(team)...)
	}
	return list
}

// own returns the destinations of a team itself, in the order of their names.
func (t *Team) own(team string) (list []NamedDestination) {
	for _, name := range slices.Sorted(maps.Keys(t.Destinations)) {
		list = append(list, NamedDestination{Destination: t.Destinations[name], Team: team, Name: name})
	}
	return list
}

// Destination returns what an action of a team means by `to: name`: the team's own destination of that name, else the shared one, where
// the team may use it.
func (c *Config) Destination(team, name string) (NamedDestination, bool) {
	if t := c.Teams[team]; t != nil && t.Destinations[name] != nil {
		return NamedDestination{Destination: t.Destinations[name], Team: team, Name: name}, true
	}
	if d := c.Destinations[name]; d != nil && d.isFor(team) {
		return NamedDestination{Destination: d, Team: "", Name: name}, true
	}
	return NamedDestination{}, false
}

// DestinationsOf returns the destinations that the actions of a subscription may be for: all of its team's own, since older actions may
// be open for one that it does not name any more, and the shared ones that it names.
func (c *Config) DestinationsOf(team, subscription string) []NamedDestination {
	list := c.Teams[team].own(team)
	for _, a := range c.Teams[team].Subscriptions[subscription].Actions {
		d, ok := c.Destination(team, a.To)
		if ok && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

// everyTeam is the word of `teams` for all of them.
const everyTeam = "*"

// isFor reports whether a team may use a shared destination.
func (d *Destination) isFor(team string) bool {
	return slices.Contains(d.Teams, team) || slices.Contains(d.Teams, everyTeam)
}

// use is an action that goes to a destination.
type use struct {
	team, subscription string
	sub                *Subscription
	index              int // of the action
}

func (u use) action() Action { return u.sub.Actions[u.index] }

// path is where the action stands in the file.
func (u use) path() string {
	return "teams." + u.team + ".subscriptions." + u.subscription + ".actions[" + itoa(u.index) + "]"
}

// usesOf returns the actions that go to a destination, of all teams.
func (c *Config) usesOf(d NamedDestination) []use {
	if c.uses == nil {
		return c.allUses()[d]
	}
	return c.uses()[d]
}

// UsersOf returns the teams with a subscription that reads a source, by its URI, and has an action that goes to a shared destination, sorted.
func (c *Config) UsersOf(destination, uri string) (list []string) {
	for _, u := range c.usesOf(NamedDestination{Destination: c.Destinations[destination], Team: "", Name: destination}) {
		reads := func(s NamedSource) bool { return s.URI() == uri }
		if !slices.Contains(list, u.team) && slices.ContainsFunc(c.sourcesOf(u.team, u.sub), reads) {
			list = append(list, u.team)
		}
	}
	return list
}

// allUses returns the actions of all teams by where they go.
func (c *Config) allUses() map[NamedDestination][]use {
	all := map[NamedDestination][]use{}
	for _, team := range keys(c.Teams) {
		for _, name := range keys(c.Teams[team].Subscriptions) {
			sub := c.Teams[team].Subscriptions[name]
			for i, a := range sub.Actions {
				if to, ok := c.Destination(team, a.To); ok {
					all[to] = append(all[to], use{team, name, sub, i})
				}
			}
		}
	}
	return all
}
