// Package names is the one grammar of the names that people type and read: in flags and arguments, in columns, in -o id and in
// messages. What a command prints as a name or an id, every command and the API understand.
//
// names.go has the names of what the file configures, ids.go those of what has been taken in, nearest.go what a slip was meant to be.
// [Help] tells the grammar to users; COMMANDS.md has the same text.
package names

import (
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Help is the grammar as users read it.
const Help = `Names, as every list prints them and every command understands them:

  source        TEAM/SOURCE            acme/github; also SOURCE, where one team has it
  destination   TEAM/DESTINATION       acme/coder; also DESTINATION; a shared one has no team: pagers
  subscription  TEAM.SUBSCRIPTION      acme.triage, as its Kafka group; also SUBSCRIPTION
  event         TEAM/SUBSCRIPTION/SOURCE/ID
                                       an event as one subscription sees it; another team's source is TEAM/SOURCE in it
  record        TEAM/SUBSCRIPTION/TOPIC/PARTITION@OFFSET
                                       what a subscription did not take as an event: conflict, filtered, quarantined
  delivery      quarantine.TEAM.SOURCE/PARTITION@OFFSET
                                       what the intake put in quarantine
  entity        TEAM/SUBSCRIPTION/SOURCE ENTITY
                                       as the column entity shows it
  type          com.github.issues.opened, or a glob as in the file: com.github.issues.*
  action, group act_..., and what dlq groups lists

An event's id, an action's and a group's may be cut off where what is left is of one only. Where an event is asked for, a dead letter's
action stands for its event, and a redriven delivery for the one that it became; where dead letters are, an event for all of its own.`

// Name names something that the file configures. Team is empty if it was not said, or if the thing belongs to no team.
type Name struct{ Team, Name string }

// Kind is a kind of thing that the file configures: how it is called, what stands between team and name, and what lists it.
type Kind struct{ What, separator, list string }

// The kinds that have names of two parts.
var (
	Source       = Kind{"source", "/", "forebay sources list -o id"}
	Destination  = Kind{"destination", "/", "forebay destinations list -o id"}
	Subscription = Kind{"subscription", ".", "forebay subscriptions list -o id"}
)

// Print returns the name as it is shown everywhere.
func (k Kind) Print(n Name) string {
	if n.Team == "" {
		return n.Name
	}
	return n.Team + k.separator + n.Name
}

// Parse reads a name: with its team in front, or alone. A slash is understood between the two in any case, and in front of both, as
// events carry their source. Kind of error: Invalid.
func (k Kind) Parse(text string) (Name, error) {
	rest := text
	if k == Source {
		rest = strings.TrimPrefix(rest, "/")
	}
	team, name, both := strings.Cut(strings.Replace(rest, k.separator, "/", 1), "/")
	if !both {
		team, name = "", team
	}
	if name == "" || both && team == "" || strings.ContainsAny(team+name, "./") {
		return Name{}, schemas.Errorf(schemas.Invalid, "", "%q is not %s; `%s` lists them", text, k.form(), k.list)
	}
	return Name{team, name}, nil
}

// form returns what a name looks like: TEAM/SOURCE.
func (k Kind) form() string {
	return "TEAM" + k.separator + strings.ToUpper(k.What)
}

// Find returns which of the known names is meant by text. team is what was said elsewhere of the team; empty if nothing was. A name
// alone is that of a shared thing, or of the one team that has it. Kinds of errors: Invalid if the text is no name, contradicts team, or
// could be several teams'; NotFound, with what may have been meant, if nothing known has the name.
func (k Kind) Find(text, team string, known []Name) (Name, error) {
	n, err := k.Parse(text)
	if err != nil {
		return n, err
	}
	if n.Team != "" && team != "" && n.Team != team {
		return n, schemas.Errorf(schemas.Invalid, "", "%s %s is not of team %s: leave one of the two out", k.What, text, team)
	}
	if shared := (Name{Name: n.Name}); n.Team == "" {
		if n.Team = team; !slices.Contains(known, n) && slices.Contains(known, shared) {
			n = shared
		}
	}
	if slices.Contains(known, n) {
		return n, nil
	}
	var same []string // the same name in some team
	for _, other := range known {
		if n.Team == "" && other.Name == n.Name {
			same, n = append(same, k.Print(other)), Name{Name: n.Name}
		}
	}
	switch len(same) {
	case 0:
		return n, k.Unknown(n, known)
	case 1:
		return k.Parse(same[0])
	}
	slices.Sort(same)
	return n, schemas.Errorf(schemas.Invalid, "", "several teams have a %s %s: name one of %s", k.What, n.Name, strings.Join(same, ", "))
}

// Unknown is the error for a name that nothing known has, of kind NotFound. It says which name may have been meant.
func (k Kind) Unknown(n Name, known []Name) error {
	text := k.Print(n)
	var names []string
	for _, other := range known {
		if n.Team == "" {
			names = append(names, other.Name)
		} else {
			names = append(names, k.Print(other))
		}
		if n.Team != "" && other.Name == n.Name { // the right name in the wrong team is nearer than any slip
			return unknown(k.What, text, k.Print(other), k.list)
		}
	}
	slices.Sort(names)
	near := Nearest(text, names)
	if near != "" && n.Team == "" {
		for _, other := range known {
			if other.Name == near {
				near = k.Print(other)
			}
		}
	}
	return unknown(k.What, text, near, k.list)
}

// Team returns the error for a team that is not among the known ones; nil if it is, or is empty.
func Team(team string, known []string) error {
	if team == "" || slices.Contains(known, team) {
		return nil
	}
	return unknown("team", team, Nearest(team, known), "forebay subscriptions list")
}

// OneOf returns the error for a value that is not among those that there are; nil if it is, or is empty. what is the flag or key.
func OneOf(what, value string, values []string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return schemas.Errorf(schemas.Invalid, "", "%s %q is not one of %s%s", what, value, strings.Join(values, ", "), DidYouMean(value, values))
}

func unknown(what, name, near, list string) error {
	if near != "" {
		near = "did you mean " + near + "? "
	}
	return schemas.Errorf(schemas.NotFound, "", "no %s %s is known; %s`%s` lists them", what, name, near, list)
}
