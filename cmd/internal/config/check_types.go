package config

import (
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/provider"
)

// matchable notes globs over event types that no event of the subscription's sources can match: without a note, nothing would ever run,
// and nothing would say why.
func (ck *checker) matchable(path string, of []NamedSource, sub *Subscription) {
	var presets []string
	var sources []sourceTypes
	if len(of) < len(sub.Sources) || ck.options.again {
		return // the one is a problem of its own, the other many sources and types to go through
	}
	for _, s := range of {
		if s.Preset == "" {
			return // that is one, too
		}
		known, others := provider.Config{Preset: s.Preset, Event: s.Event}.Types()
		if others == "*" {
			return // its events can have any type
		}
		sources = append(sources, sourceTypes{known, strings.TrimSuffix(others, "*")})
		if !slices.Contains(presets, s.Preset) {
			presets = append(presets, s.Preset)
		}
	}
	for i, glob := range sub.Types {
		at := path + "[" + itoa(i) + "]"
		if ck.unresolved(at) || len(sources) == 0 {
			continue
		}
		near, possible := nearestType(glob, sources)
		switch {
		case near != "" && possible:
			ck.note(at, "%s: %s does not know such a type; did you mean %s?", clip(glob), strings.Join(presets, ", "), near)
		case near != "":
			ck.note(at, "%s: no preset of its sources has such a type, so nothing will match; did you mean %s?", clip(glob), near)
		case !possible:
			ck.note(at, "%s: no preset of its sources has such a type, so nothing will match; `forebay sources presets %s` lists them", clip(glob), presets[0])
		}
	}
}

// sourceTypes are the types that a source's events can have: known globs, and everything with the prefix.
type sourceTypes struct {
	known  []string
	prefix string
}

// nearestType returns what a glob was probably meant to be; empty if it is right, or nobody can tell. possible is true if an event of a type
// that the presets do not know could match it.
func nearestType(glob string, sources []sourceTypes) (near string, possible bool) {
	var known []string
	for _, s := range sources {
		if slices.ContainsFunc(s.known, func(k string) bool { return provider.GlobsMeet(glob, k) }) {
			return "", true
		}
		possible = possible || provider.GlobsMeet(glob, s.prefix+"*")
		known = append(known, s.known...)
	}
	if possible {
		return slip(glob, sources), true
	}
	for _, s := range sources {
		if whole := s.prefix + glob; slices.ContainsFunc(s.known, func(k string) bool { return provider.GlobsMeet(whole, k) }) {
			return whole, false
		}
	}
	return names.Nearest(glob, known), false
}

// slip returns what a glob over types that no preset knows is, if it is one slip or two away from one that they know: in its first word
// behind the prefix, GitHub's event.
func slip(glob string, sources []sourceTypes) string {
	for _, s := range sources {
		word, rest, _ := strings.Cut(strings.TrimPrefix(glob, s.prefix), ".")
		var words []string
		for _, k := range s.known {
			first, _, _ := strings.Cut(strings.TrimPrefix(k, s.prefix), ".")
			words = append(words, first)
		}
		if near := names.Nearest(word, words); near != "" && strings.HasPrefix(glob, s.prefix) && !strings.Contains(word, "*") {
			whole := s.prefix + near
			if slices.Contains(s.known, whole) || rest != "" {
				return strings.TrimSuffix(whole+"."+rest, ".")
			}
			return whole + ".*" // which alone it has
		}
	}
	return ""
}
