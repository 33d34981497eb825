package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/schemas"
)

// ExpiresSoon is how long before its end a secret is spoken of.
const ExpiresSoon = 14 * 24 * time.Hour

// SourceSecret is a secret of a source. A plain text is its value.
type SourceSecret struct {
	Value   schemas.Secret `yaml:"value"`
	Expires string         `yaml:"expires"`
}

var sourceSecretType = reflect.TypeFor[SourceSecret]()

// sourceSecret decodes a secret, which may be its value alone.
func (d *decoder) sourceSecret(n *yaml.Node, at string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.mapping(n, at, v)
		return
	}
	d.value(n, at, v.FieldByName("Value"), field{})
}

// Until returns when the secret is not taken any more; zero: never.
func (s SourceSecret) Until() time.Time {
	end, _ := parseExpires(s.Expires) // checked
	return end
}

// parseExpires reads a day, which ends at midnight UTC, or a moment. Nothing is never.
func parseExpires(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is not a day such as 2026-12-31, whose end in UTC is meant, or a time such as 2026-12-31T12:00:00Z", clip(text))
	}
	return at, nil
}

// Values returns the secrets themselves.
func (s *Source) Values() (list []schemas.Secret) {
	for _, secret := range s.Secrets {
		list = append(list, secret.Value)
	}
	return list
}

// until returns until when each secret of the source is taken; nil: all are for ever.
func (s *Source) until() (list []time.Time) {
	for i, secret := range s.Secrets {
		if end := secret.Until(); !end.IsZero() {
			if list == nil {
				list = make([]time.Time, len(s.Secrets))
			}
			list[i] = end
		}
	}
	return list
}

// Expiring is a secret of a source that has an end.
type Expiring struct {
	Team, Source string
	Key          string // teams.acme.sources.github.secrets[0]
	Number       int    // among its source's, from 1
	Until        time.Time
	Last         bool // no other secret of the source is taken for longer
}

// Expiring lists the secrets of sources that have an end, by their keys.
func (c *Config) Expiring() (list []Expiring) {
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Sources)) {
			ends := c.Teams[team].Sources[name].until()
			for i, end := range ends {
				if !end.IsZero() {
					last := !slices.ContainsFunc(ends, func(o time.Time) bool { return o.IsZero() || o.After(end) })
					list = append(list, Expiring{team, name, "teams." + team + ".sources." + name + ".secrets[" + itoa(i) + "]", i + 1, end, last})
				}
			}
		}
	}
	return list
}

// InWords says when the secret ends or has ended, and what that means for its source.
func (e Expiring) InWords(now time.Time) string {
	when := "ends on " + e.Until.UTC().Format(time.RFC3339)
	if !now.Before(e.Until) {
		when = "has ended on " + e.Until.UTC().Format(time.RFC3339) + ", and is not taken any more"
	}
	if e.Last {
		return when + "; the source has no other that is taken for longer: without one, all that comes is refused"
	}
	return when + "; the source has another"
}
