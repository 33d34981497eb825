package config

import (
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/names"
)

// shared checks the shared destinations: what all destinations have, and who may use them.
func (ck *checker) shared() {
	for _, name := range keys(ck.c.Destinations) {
		d := NamedDestination{Destination: ck.c.Destinations[name], Name: name}
		ck.destination(d)
		ck.sharedWith(d.Path(), d.Teams)
	}
}

// sharedWith checks the teams of the shared destination at path.
func (ck *checker) sharedWith(path string, teams []string) {
	at := path + ".teams"
	if !ck.written(at) {
		ck.problem(path, "teams is missing: which teams may use it, [acme, payments] or [\"*\"]")
	}
	ck.listedTeams(at, "may use it", teams)
}

// listedTeams checks a list of teams. are is what they are: those that may use it.
func (ck *checker) listedTeams(at, are string, teams []string) {
	switch {
	case len(teams) == 0 && ck.written(at) && !ck.unresolved(at):
		ck.problem(at, "is empty: name the teams that %s, or [\"*\"]", are)
	case len(teams) > 1 && slices.Contains(teams, everyTeam):
		ck.problem(at, "* is all teams: name no other beside it")
	}
	for i, team := range teams {
		at := at + "[" + itoa(i) + "]"
		switch near := names.DidYouMean(team, keys(ck.c.Teams)); {
		case ck.unresolved(at) || team == everyTeam:
		case slices.Index(teams, team) < i:
			ck.problem(at, "team %s is listed twice", clip(team))
		case ck.c.Teams[team] != nil:
		case ck.options.Run: // its file has gone or has a problem, which holds up nobody else
			ck.note(at, "there is no team %s%s", team, near)
		default:
			ck.problem(at, "there is no team %q%s", clip(team), near)
		}
	}
}

// own checks what tells a team's own destination from a shared one: it has no teams, and takes no name away from its team.
func (ck *checker) own(d NamedDestination) {
	if at := d.Path() + ".teams"; ck.written(at) {
		ck.problem(at, "this destination is team %s's own: one that teams share stands under destinations at the top of the main file", d.Team)
	}
	shared := ck.c.Destinations[d.Name]
	if shared == nil || !shared.isFor(d.Team) {
		return
	}
	ck.problem(d.Path(), "team %s has a shared destination of that name already (%s): give this one another name", d.Team, ck.where("destinations."+d.Name))
}

// noDestination reports that a team has no destination of this name: it may not use the shared one, or there is none.
func (ck *checker) noDestination(path, team, name string) {
	if shared := ck.c.Destinations[name]; shared == nil {
		ck.missing(path, "destination", name, append(keys(ck.c.Teams[team].Destinations), keys(ck.c.Destinations)...))
		return
	}
	at := "destinations." + name + ".teams"
	if ck.unresolvedBelow(at) || !ck.written(at) { // already reported
		return
	}
	ck.problem(path, "shared destination %s is not for team %s; where it is to be, add %s to %s (%s)", name, team, team, at, ck.where(at))
}

// where returns file and line of a path.
func (ck *checker) where(path string) string {
	at := ck.c.at(path)
	return fmt.Sprintf("%s:%d", at.file, at.line)
}
