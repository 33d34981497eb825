package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/redact"
)

// referring is a value that was written with references, or with an escape.
type referring struct {
	written string            // as in the file: "https://hooks.example.com/${env:TOKEN}"
	led     map[string]string // what its references led to, and each reference: {"s3cr3t": "${env:TOKEN}"}; nothing where they were not followed
	shown   bool              // a name or an address: logs and the API show it
	team    string            // whose file it stands in; empty: the main file
}

// refer keeps how a value was written.
func (d *decoder) refer(path, written string, led map[string]string, shown bool) {
	d.references[path] = referring{written, led, shown, d.env.team()}
}

// written returns how the value at a path was written; false if it has no references.
func (c *Config) written(path string) (string, bool) {
	r, ok := c.references[path]
	return r.written, ok
}

// refers reports whether there is a reference at a path or below it.
func (c *Config) refers(path string) bool {
	for at := range c.references {
		if at == path || strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

// literal is a secret that stands in a file itself.
type literal struct{ team, text string } // of a team's file; without a team: of the main file

// Hidden is what must not be shown, by what takes its place.
type Hidden struct {
	Everywhere map[string]string // of the main file
	// OfTeams is of the teams that have files of their own, by team. Whoever writes one chooses what is secret in it, and may choose what
	// other teams' lines say: it is hidden where the team is named, and nowhere else.
	OfTeams map[string]map[string]string
}

func (h Hidden) add(team, value, instead string) {
	names := h.Everywhere
	if team != "" {
		if names = h.OfTeams[team]; names == nil {
			names = map[string]string{}
			h.OfTeams[team] = names
		}
	}
	names[value] = instead
}

// hidden returns the secrets that stand in the files themselves.
func (c *Config) hidden() Hidden {
	h := Hidden{Everywhere: map[string]string{}, OfTeams: map[string]map[string]string{}}
	for l := range c.literal {
		h.add(l.team, l.text, "<redacted>")
	}
	return h
}

// Hide returns what the log of a process must not show: what the references of the files led to, but for names and addresses that are
// shown everywhere, and secrets that stand in the files themselves.
func (c *Config) Hide() Hidden {
	h := c.hidden()
	for _, r := range c.references {
		if r.shown {
			continue
		}
		for value, instead := range r.names() {
			h.add(r.team, value, instead)
		}
	}
	return h
}

// names returns what the references led to, whole and in parts that are secrets of their own, by what takes its place.
func (r referring) names() map[string]string {
	names := map[string]string{}
	for value, reference := range r.led {
		for _, part := range redact.Words(schemas.NewSecret(value)) {
			if part == value || unlikelyWord(part) {
				names[part] = reference
			}
		}
	}
	return names
}

// unlikelyWord reports whether a part of a value is not what logs say anyway: a database's password is "forebay" often enough, and
// every line would have its reference.
func unlikelyWord(part string) bool {
	return len(part) >= 12 || len(part) >= 8 && strings.ContainsAny(part, "0123456789")
}

// hideIn takes what any reference led to out of the messages of problems: checks quote what they refuse. What a team's file leads to is
// taken out of the problems with that file.
func (c *Config) hideIn(problems []Problem) {
	h := c.quotable()
	everywhere, ofTeams := redact.Named(h.Everywhere), map[string]*redact.Redactor{}
	for team, names := range h.OfTeams {
		ofTeams[team] = redact.Named(names)
	}
	for i, p := range problems {
		problems[i].Message = everywhere.Text(p.Message)
		if ofTeam := ofTeams[teamOf(filepath.Base(p.File))]; ofTeam != nil && p.File != c.places[""].file {
			problems[i].Message = ofTeam.Text(problems[i].Message)
		}
	}
}

// quotable is what messages may quote of what is hidden: names and addresses too, and cut off.
func (c *Config) quotable() Hidden {
	h := c.hidden()
	for _, r := range c.references {
		for value, reference := range r.names() {
			h.add(r.team, value, reference)
			if _, name, ok := strings.Cut(value, ":"); ok { // of header:X-Id, which checks cut into its parts
				h.add(r.team, name, reference)
			}
			for _, cut := range clips {
				if len(value) > cut {
					h.add(r.team, string([]rune(value)[:min(cut, len([]rune(value)))]), reference)
				}
			}
		}
	}
	return h
}

// clips are where checks cut what they quote; see [clip].
var clips = []int{20, 40, 60, 64}

// HiddenOf returns what the references of a destination's keys and parameters led to, those of actions that go there among them,
// whichever team's. Of those that stand in a team's file, a shared destination has what is no word: it is also taken out of what other teams'
// actions were answered.
func (c *Config) HiddenOf(d NamedDestination) (list []schemas.Secret) {
	parts := []string{d.Path() + "."}
	for _, u := range c.usesOf(d) {
		parts = append(parts, u.path()+".params.")
	}
	var paths []string
	for path := range c.references {
		if slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(path, part) }) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, value := range slices.Sorted(maps.Keys(c.references[path].led)) {
			if d.Team == "" && c.references[path].team != "" && !unlikelyWord(value) {
				continue
			}
			list = append(list, schemas.NewSecret(value))
		}
	}
	return list
}
