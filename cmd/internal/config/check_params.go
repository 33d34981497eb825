package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// params reports parameters that a sink would refuse. It does not report missing ones: actions may give them, and actionParams checks
// that.
func (ck *checker) params(path string, about spec.Description, given Params) {
	declared := about.Params
	if len(declared) == 0 || ck.unresolvedBelow(path) {
		return
	}
	compiled, err := template.Compile(declared, given.Values())
	if err == nil && compiled.Untrusted() != "" && !about.Untrusted {
		ck.problem(path+"."+compiled.Untrusted(), "puts words of an event where they may be taken for instructions; if that is meant, write untrusted: ok at the destination: they are fenced then")
	}
	bad, ok := errors.AsType[*template.KeyError](err)
	if !ok {
		return
	}
	if given.references(bad.Key) { // the error may show the value, which may be a secret
		ck.problem(path+"."+bad.Key, "what its reference leads to cannot be used here")
		return
	}
	ck.problem(path+"."+bad.Key, "%v", bad.Err)
}

// actionParams checks the parameters of the action at path, and that the action or its destination gives each required one.
func (ck *checker) actionParams(path string, a Action, d *Destination) {
	if d.Keys == nil {
		return // no such type, which is already reported
	}
	declared := d.about().Params
	if len(declared) == 0 {
		if ck.written(path + ".params") {
			ck.problem(path+".params", "has no meaning: destination %s is of type %s", a.To, d.Type)
		}
		return
	}
	ck.params(path+".params", d.about(), a.Params)
	all := maps.Clone(d.Params.Values())
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, a.Params.Values())
	for _, p := range declared {
		if _, given := all[p.Name]; p.Required && p.Default == "" && !given {
			ck.problem(path, "params.%s is missing, here or at destination %s: %s", p.Name, a.To, p.Doc)
		}
	}
}

// unresolvedBelow reports whether a path below path is unresolved.
func (ck *checker) unresolvedBelow(path string) bool {
	if ck.below == nil {
		ck.below = map[string]bool{}
		for p := range ck.c.unresolved {
			for at, c := range p {
				if c == '.' || c == '[' {
					ck.below[p[:at]] = true
				}
			}
		}
	}
	return ck.below[path]
}

// ActionParams returns the parameters that actions give instead of their destination's, by "<team>.<subscription>/<action>".
func (c *Config) ActionParams(d NamedDestination) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, u := range c.usesOf(d) {
		if a := u.action(); len(a.Params) > 0 {
			all[u.team+"."+u.subscription+"/"+a.Name] = a.Params.Values()
		}
	}
	return all
}

// Takes returns parameters that were written for another destination, or why this one cannot be sent them. What references lead to was not meant
// for it.
func (d *Destination) Takes(p Params) (map[string]any, error) {
	declared := d.about().Params
	for _, name := range keys(p) {
		if !slices.ContainsFunc(declared, func(of template.Param) bool { return of.Name == name }) {
			return nil, fmt.Errorf("params.%s means nothing there", name)
		}
		if led(p[name]) {
			return nil, fmt.Errorf("params.%s has a reference", name)
		}
	}
	values := p.Values()
	compiled, err := template.Compile(declared, values)
	switch {
	case err != nil:
		return nil, fmt.Errorf("params.%w", err)
	case compiled.Untrusted() != "" && !d.about().Untrusted:
		return nil, fmt.Errorf("params.%s puts words of an event where they may be taken for instructions", compiled.Untrusted())
	}
	return values, nil
}

// Unfit returns why what is open of an action can no more be sent where it goes: its `to:` names something else by now, and its parameters are for that.
// nil: it can.
func (c *Config) Unfit(team string, its Action, open sink.Action) error {
	if len(its.Params) == 0 || its.To == open.To() {
		return nil
	}
	d, ok := c.Destination(team, open.To())
	if !ok {
		return nil
	}
	_, err := d.Takes(its.Params)
	return err
}
