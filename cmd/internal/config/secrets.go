package config

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Setting is a setting of the files whose value is a secret, or has references.
type Setting struct {
	Key  string // teams.acme.sources.github.secrets[0]
	File string // in which it stands
	// Literal is set if the secret stands in File itself.
	Literal bool
	// Files are those that its references name, as paths from here.
	Files []string
	// Values are the secret, or what each of its references led to. Empty where they were not followed.
	Values []schemas.Secret
	// Public is set if it is no secret, but a name or an address.
	Public bool
}

var fileReference = regexp.MustCompile(`(?:^|[^$])\$\{file:([^}]+)\}`)

// SecretSettings lists the settings that are secrets or have references, by their keys.
func (c *Config) SecretSettings() (list []Setting) {
	for path, r := range c.references {
		h := Setting{Key: path, File: c.at(path).file, Public: r.shown}
		for _, m := range fileReference.FindAllStringSubmatch(r.written, -1) {
			h.Files = append(h.Files, pathFrom(filepath.Dir(h.File), m[1]))
		}
		for value := range r.led {
			h.Values = append(h.Values, schemas.NewSecret(value))
		}
		list = append(list, h)
	}
	for l, path := range c.literal {
		list = append(list, Setting{Key: path, File: c.at(path).file, Literal: true, Values: []schemas.Secret{schemas.NewSecret(l.text)}})
	}
	slices.SortFunc(list, func(a, b Setting) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.File, b.File))
	})
	return list
}
