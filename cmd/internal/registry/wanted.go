package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// Wanted is a schema that a source holds its bodies against.
type Wanted struct {
	// Source is the attribute source of the source's events, "/<team>/<source>".
	Source string
	// Subject is where the registry has it: "<topic>-value" of a source's own schema, which is all that its topic has; the schema's name
	// of one of the catalogue, which all sources of that provider share.
	Subject string
	Schema  *jsonschema.Schema
}

// Of lists the schemas of the sources whose bodies are held against some, by source and subject. The file must have been checked.
func Of(c *config.Config) (all []Wanted, err error) {
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		sources := c.Teams[team].Sources
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			of, err := ofSource(sources[name])
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", team, name, err)
			}
			for i := range of {
				of[i].Source = "/" + team + "/" + name
			}
			all = append(all, of...)
		}
	}
	return all, nil
}

func ofSource(s *config.Source) (all []Wanted, err error) {
	if s.JSONSchema.Check == provider.SchemaOff {
		return nil, nil
	}
	if s.JSONSchema.Own != "" {
		own, err := jsonschema.Parse([]byte(s.JSONSchema.Own))
		if err != nil {
			return nil, fmt.Errorf("json_schema.own %w", err)
		}
		return []Wanted{{Subject: s.Topic + "-value", Schema: own}}, nil
	}
	_, types := provider.Config{Preset: s.Preset, Event: s.Event}.Types()
	if types == "*" {
		return nil, nil // a sender's own words for its types
	}
	for _, schema := range jsonschema.All() {
		if slices.ContainsFunc(schema.Types, func(glob string) bool { return strings.HasPrefix(glob, strings.TrimSuffix(types, "*")) }) {
			all = append(all, Wanted{Subject: schema.Name(), Schema: schema})
		}
	}
	return all, nil
}
