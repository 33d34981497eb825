package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/names"
)

// NamedSource is a source with its names.
type NamedSource struct {
	*Source
	Team, Name string
}

// URI is the source as events have it.
func (s NamedSource) URI() string { return "/" + s.Team + "/" + s.Name }

// FullName is what a subscription of another team calls it.
func (s NamedSource) FullName() string { return s.Team + "/" + s.Name }

// calledBy returns what a subscription of a team calls it.
func (s NamedSource) calledBy(team string) string {
	if s.Team == team {
		return s.Name
	}
	return s.FullName()
}

// Path is where it stands in the file.
func (s NamedSource) Path() string { return "teams." + s.Team + ".sources." + s.Name }

// named returns the names of the source that a subscription of a team means: SOURCE is the team's own, TEAM/SOURCE any team's.
func named(team, text string) (of, name string) {
	if of, name, other := strings.Cut(text, "/"); other {
		return of, name
	}
	return team, text
}

// SourceOf returns the source that a subscription of a team means, where there is one. Whether the team may read it, isFor says.
func (c *Config) SourceOf(team, text string) (s NamedSource, ok bool) {
	s.Team, s.Name = named(team, text)
	if t := c.Teams[s.Team]; t != nil && t.Sources[s.Name] != nil {
		s.Source = t.Sources[s.Name]
		return s, true
	}
	return s, false
}

// SourceOfTopic returns the source that has a topic, where there is one.
func (c *Config) SourceOfTopic(topic string) (s NamedSource, ok bool) {
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			if s.Topic == topic {
				return NamedSource{Team: team, Name: name, Source: s}, true
			}
		}
	}
	return s, false
}

// GapOf returns the gap policy of a subscription; the zero one, where there is no such.
func (c *Config) GapOf(team, subscription string) Gap {
	if t := c.Teams[team]; t != nil && t.Subscriptions[subscription] != nil {
		return t.Subscriptions[subscription].Gap
	}
	return Gap{}
}

// SourcesOf returns the sources of a subscription, in its order, as far as there are such.
func (c *Config) SourcesOf(team, subscription string) (list []NamedSource) {
	if t := c.Teams[team]; t == nil || t.Subscriptions[subscription] == nil {
		return nil
	}
	return c.sourcesOf(team, c.Teams[team].Subscriptions[subscription])
}

func (c *Config) sourcesOf(team string, sub *Subscription) (list []NamedSource) {
	for _, text := range sub.Sources {
		if s, ok := c.SourceOf(team, text); ok {
			list = append(list, s)
		}
	}
	return list
}

// SharedWith returns the sources of other teams that a team may read, by their names.
func (c *Config) SharedWith(team string) (list []NamedSource) {
	for _, owner := range keys(c.Teams) {
		for _, name := range keys(c.Teams[owner].Sources) {
			if s, ok := c.SourceOf(owner, name); ok && owner != team && s.isFor(team) {
				list = append(list, s)
			}
		}
	}
	return list
}

// ReadersOf returns the subscriptions of all teams that read a source, as TEAM.SUBSCRIPTION, sorted.
func (c *Config) ReadersOf(team, source string) (list []string) {
	for _, reader := range keys(c.Teams) {
		for _, name := range keys(c.Teams[reader].Subscriptions) {
			if slices.ContainsFunc(c.SourcesOf(reader, name), func(s NamedSource) bool { return s.Team == team && s.Name == source }) {
				list = append(list, reader+"."+name)
			}
		}
	}
	return list
}

// isFor reports whether subscriptions of a team may read the source.
func (s NamedSource) isFor(team string) bool {
	return s.Team == team || slices.Contains(s.Share, team) || slices.Contains(s.Share, everyTeam)
}

// Barred returns why a subscription may not run: it names a source of another team that is not shared with its own, or is not there; empty if
// it may. Where it is not empty, the configuration was loaded with Options.Run.
func (c *Config) Barred(team, subscription string) string {
	return c.barred["teams."+team+".subscriptions."+subscription]
}

// Shares are what teams share by files that were read. Some of the files may have problems.
type Shares struct {
	c        *Config
	main     string // the main file
	problems Problems
}

// Shares returns what the configuration's teams share.
func (c *Config) Shares() Shares { return Shares{c: c} }

// Withdrawn returns why a team may not read one of these sources any more, which a subscription of it runs with; empty if it may. A source
// is not taken away by a slip of the pen: as long as what its team has written has a problem, nothing is known of it.
func (s Shares) Withdrawn(team string, sources []NamedSource) string {
	for _, source := range sources {
		if source.Team == team || s.unclear(source.Team) {
			continue
		}
		if now, ok := s.c.SourceOf(team, source.FullName()); !ok || !now.isFor(team) {
			return (&checker{c: s.c}).notShared(team, now, ok)
		}
	}
	return ""
}

// unclear reports whether one of the problems may hide what a team shares: one in the team's own file or part of the main file, or one of the main
// file that is of no team.
func (s Shares) unclear(team string) bool {
	return slices.ContainsFunc(s.problems, func(p Problem) bool {
		if p.File != s.main {
			return teamOf(filepath.Base(p.File)) == team
		}
		rest, ofTeam := strings.CutPrefix(p.Path, "teams.")
		of, _, _ := strings.Cut(rest, ".")
		return !ofTeam || of == team
	})
}

// subscribed checks that the sources of a subscription exist, are its team's or shared with it, and are listed once.
func (ck *checker) subscribed(path, team string, sub *Subscription) {
	var before []NamedSource
	for i, text := range sub.Sources {
		at := path + ".sources[" + itoa(i) + "]"
		if ck.unresolved(at) {
			continue
		}
		s, ok := ck.c.SourceOf(team, text)
		switch {
		case s.Team != team && (!ok || !s.isFor(team)):
			ck.bar(path, at, ck.notShared(team, s, ok))
		case !ok:
			ck.missing(at, "source", s.Name, keys(ck.c.Teams[team].Sources))
		case slices.Contains(before, s):
			ck.problem(at, "source %s is listed twice", text)
		}
		before = append(before, s)
	}
}

// notShared says why a team may not read another's source, and whom to ask for what.
func (ck *checker) notShared(team string, s NamedSource, is bool) string {
	var teams []string
	for _, name := range keys(ck.c.Teams) {
		if len(ck.c.Teams[name].Sources) > 0 {
			teams = append(teams, name)
		}
	}
	t := ck.c.Teams[s.Team]
	switch near := names.Nearest(s.Team, teams); {
	case t == nil && near != "":
		return "there is no team " + quote(s.Team) + "; did you mean " + near + "/" + s.Name + "?"
	case t == nil:
		return "there is no team " + quote(s.Team) + ": another team's source is TEAM/SOURCE"
	case !is:
		if near := names.Nearest(s.Name, keys(t.Sources)); near != "" {
			return "team " + s.Team + " has no source " + quote(s.Name) + "; did you mean " + s.Team + "/" + near + "?"
		}
		return "team " + s.Team + " has no source " + quote(s.Name)
	}
	return "team " + s.Team + " does not share its source " + s.Name + " with team " + team + ": ask " + ck.asking(s.Team) + " to write share: [" +
		strings.Join(append(slices.Clone(s.Share), team), ", ") + "] at " + s.Path() + " (" + ck.where(s.Path()) + ")"
}

func quote(text string) string { return `"` + clip(text) + `"` }

// asking says who is asked for what is a team's: those who answer for it, where they are named.
func (ck *checker) asking(team string) string {
	owners, contact := ck.c.People(team, "")
	who := strings.Join(owners, " or ")
	if who != "" && contact != "" {
		who += ", "
	}
	if who += contact; who != "" {
		return "team " + team + " (" + who + ")"
	}
	return "team " + team
}

// bar keeps the subscription at path from running. That is a problem, and where a configuration is run a note: what one team takes back, and
// what another has written, must not keep the rest from running.
func (ck *checker) bar(path, at, why string) {
	if !ck.options.Run {
		ck.problem(at, "%s", why)
		return
	}
	ck.note(at, "%s; the subscription does not run", why)
	ck.c.barred[path] = why
}

// share checks the teams that a source is shared with. A team that is not there is no problem: its file may have gone, or be still to come.
func (ck sourceCheck) share(team string) {
	at, share := ck.path+".share", ck.s.Share
	if len(share) > 1 && slices.Contains(share, everyTeam) {
		ck.problem(at, "* is all teams: name no other beside it")
	}
	for i, other := range share {
		at := at + "[" + itoa(i) + "]"
		switch {
		case ck.unresolved(at) || other == everyTeam:
		case !validName(other):
			ck.problem(at, "name %q must match [a-z0-9-]{1,40}; [\"*\"] is all teams", clip(other))
		case other == team:
			ck.problem(at, "is the team whose source it is: name others, or leave share out")
		case slices.Index(share, other) < i:
			ck.problem(at, "team %s is listed twice", other)
		case ck.c.Teams[other] == nil:
			ck.note(at, "there is no team %s%s", other, names.DidYouMean(other, keys(ck.c.Teams)))
		}
	}
}
