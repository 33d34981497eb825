package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Held is a value of the files that is a secret, or that references lead to.
type Held struct {
	Path string // teams.acme.sources.github.secrets[0]
	File string // in which it stands
	// Literal is set if the secret stands in File itself.
	Literal bool
	// Files are those that its references name, as paths from here.
	Files []string
	// Values are the secret, or what each of its references led to. Empty where they were not followed.
	Values []schemas.Secret
	// Shown is set if it is a name or an address.
	Shown bool
}

var fileReference = regexp.MustCompile(`(?:^|[^$])\$\{file:([^}]+)\}`)

// Held lists the secrets of the files, and all values with references, by their paths.
func (c *Config) Held() (list []Held) {
	for path, r := range c.references {
		h := Held{Path: path, File: c.at(path).file, Shown: r.shown}
		for _, m := range fileReference.FindAllStringSubmatch(r.written, -1) {
			h.Files = append(h.Files, m[1])
		}
		for value := range r.led {
			h.Values = append(h.Values, schemas.NewSecret(value))
		}
		list = append(list, h)
	}
	for l, path := range c.literal {
		list = append(list, Held{Path: path, File: c.at(path).file, Literal: true, Values: []schemas.Secret{schemas.NewSecret(l.text)}})
	}
	slices.SortFunc(list, func(a, b Held) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.File, b.File))
	})
	return list
}
