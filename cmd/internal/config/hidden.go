package config

import (
	"maps"
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
}

// refer keeps how a value was written.
func (d *decoder) refer(path, written string, led map[string]string, shown bool) {
	d.references[path] = referring{written, led, shown}
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

// Hide returns what the log of a process must not show, and what takes its place: what the references of the file led to, but
// for names and addresses that are shown everywhere, and secrets that stand in the file itself.
func (c *Config) Hide() map[string]string {
	names := maps.Clone(c.literal)
	for _, r := range c.references {
		if !r.shown {
			maps.Copy(names, r.names())
		}
	}
	return names
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

// hideIn takes what any reference led to out of the messages of problems: checks quote what they refuse.
func (c *Config) hideIn(problems []Problem) {
	names := maps.Clone(c.literal)
	for _, r := range c.references {
		for value, reference := range r.names() {
			names[value] = reference
			if _, name, ok := strings.Cut(value, ":"); ok { // of header:X-Id, which checks cut into its parts
				names[name] = reference
			}
			for _, cut := range clips {
				if len(value) > cut {
					names[string([]rune(value)[:min(cut, len([]rune(value)))])] = reference
				}
			}
		}
	}
	hide := redact.Named(names)
	for i := range problems {
		problems[i].Message = hide.Text(problems[i].Message)
	}
}

// clips are where checks cut what they quote; see [clip].
var clips = []int{20, 40, 60, 64}

// HiddenOf returns what the references of a destination's keys and parameters led to, those of actions that go there among them.
func (c *Config) HiddenOf(team, destination string) (list []schemas.Secret) {
	own := "teams." + team + ".destinations." + destination + "."
	for _, path := range slices.Sorted(maps.Keys(c.references)) {
		if !strings.HasPrefix(path, own) && !c.paramOf(path, team, destination) {
			continue
		}
		for _, value := range slices.Sorted(maps.Keys(c.references[path].led)) {
			list = append(list, schemas.NewSecret(value))
		}
	}
	return list
}

// paramOf reports whether a path is that of a parameter of an action that goes to a destination.
func (c *Config) paramOf(path, team, destination string) bool {
	rest, ok := strings.CutPrefix(path, "teams."+team+".subscriptions.")
	name, rest, _ := strings.Cut(rest, ".")
	if !ok || c.Teams[team] == nil || c.Teams[team].Subscriptions[name] == nil {
		return false
	}
	for i, a := range c.Teams[team].Subscriptions[name].Actions {
		if a.To == destination && strings.HasPrefix(rest, "actions["+itoa(i)+"].params.") {
			return true
		}
	}
	return false
}
