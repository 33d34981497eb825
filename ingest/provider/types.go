package provider

import (
	"slices"
	"strings"
)

// Types returns what the source's events can be called, as globs: the types that its preset knows (com.github.issues.*, and
// com.github.push), and what all others are called (com.github.*). A source that says itself where its type is can have any ("*"), and
// known ones none.
func (cfg Config) Types() (known []string, others string) {
	p, ok := catalogue[cfg.Preset]
	if !ok || p.fallback.typ == nil || cfg.Event != nil && cfg.Event.Type != "" {
		return nil, "*"
	}
	for _, name := range sortedKeys(p.rules) {
		typ := p.rules[name].typ
		if typ == nil {
			typ = p.fallback.typ
		}
		known = append(known, p.typeGlobs(typ, strings.SplitN(name, "/", max(1, len(p.selects))))...)
	}
	for _, name := range sortedKeys(p.fields) {
		if _, mapped := p.rules[name]; !mapped {
			known = append(known, p.typeGlobs(p.fallback.typ, []string{name})...)
		}
	}
	return known, p.prefix + "*"
}

// typeGlobs returns the names of the types that are made of the values of typ, where the values that choose a rule are these. With a value
// that may be missing there are two. The name of a rule that stands for all "orders/..." is "orders": where a "/" in a value becomes a ".", one without
// it has more behind it.
func (p preset) typeGlobs(typ, chosen []string) []string {
	globs := []string{""}
	for i, from := range typ {
		value, optional := strings.CutSuffix(from, "?")
		text, literal := strings.CutPrefix(value, "=")
		if !literal {
			text = "*"
			for n, by := range p.selects {
				if strings.TrimSuffix(by, "?") == value && n < len(chosen) {
					text = chosen[n]
				}
			}
		}
		if i > 0 {
			text = "." + text
		}
		if p.names != nil {
			text = strings.NewReplacer(p.names...).Replace(strings.ToLower(text))
			if slices.Contains(p.names, "/") && !strings.ContainsAny(text, ".*") {
				text += ".*"
			}
		}
		before := globs
		globs = nil
		for _, g := range before {
			globs = append(globs, g+text)
		}
		if optional {
			globs = append(globs, before...)
		}
	}
	for i := range globs {
		globs[i] = p.prefix + globs[i]
	}
	return globs
}

// GlobsMeet reports whether there is a text that two globs match. In a glob, * stands for any text.
func GlobsMeet(a, b string) bool {
	for a != "" && b != "" && a[0] != '*' && b[0] != '*' { // most differ here
		if a[0] != b[0] {
			return false
		}
		a, b = a[1:], b[1:]
	}
	// meets[j] says whether a[i:] and b[j:] meet; rows are filled from the ends.
	meets := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		below := meets // of a[i+1:]
		meets = make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch starA, starB := i < len(a) && a[i] == '*', j < len(b) && b[j] == '*'; {
			case i == len(a) && j == len(b):
				meets[j] = true
			case starA && (below[j] || j < len(b) && meets[j+1]): // a's star ends here, or takes b[j]
				meets[j] = true
			case starB && (meets[j+1] || i < len(a) && below[j]):
				meets[j] = true
			case !starA && !starB && i < len(a) && j < len(b) && a[i] == b[j]:
				meets[j] = below[j+1]
			}
		}
	}
	return meets[0]
}
