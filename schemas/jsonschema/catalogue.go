package jsonschema

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"sync"
)

//go:embed events/*.json
var files embed.FS

// catalogue has the schemas of the folder events.
type catalogue struct {
	all   []*Schema          // by file name
	types map[string]*Schema // by x-types; of globs without their star
}

// loaded compiles the catalogue with its first use: commands and processes that check nothing do not.
var loaded = sync.OnceValue(func() catalogue {
	c := catalogue{types: map[string]*Schema{}}
	entries, err := files.ReadDir("events")
	if err != nil {
		panic("jsonschema: " + err.Error()) // embedded
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("events", e.Name()))
		if err != nil {
			panic("jsonschema: " + err.Error())
		}
		s, err := Parse(text)
		if err != nil {
			panic(fmt.Sprintf("jsonschema: events/%s %v", e.Name(), err)) // a test reads all of them
		}
		c.all = append(c.all, s)
		for _, glob := range s.Types {
			c.types[strings.TrimSuffix(glob, "*")] = s
		}
	}
	return c
})

// All returns the catalogue's schemas, sorted by the types that they are for.
func All() []*Schema { return loaded().all }

// Of returns the catalogue's schema for an event type: that which names it, else that of the longest glob.
func Of(eventType string) (*Schema, bool) {
	types := loaded().types
	if s, ok := types[eventType]; ok {
		return s, true
	}
	for end := strings.LastIndexByte(eventType, '.'); end > 0; end = strings.LastIndexByte(eventType[:end], '.') {
		if s, ok := types[eventType[:end+1]]; ok {
			return s, true
		}
	}
	return nil, false
}

// Name returns what a schema of the catalogue is called, as its file without .json: com.github.issues.
func (s *Schema) Name() string {
	name := strings.TrimPrefix(s.ID, "urn:forebay:schema:")
	return name[:max(strings.LastIndexByte(name, ':'), 0)]
}

// Lookup returns a schema of the catalogue by its name, its $id or an event type.
func Lookup(name string) (*Schema, bool) {
	for _, s := range All() {
		if s.ID == name || s.Name() == name {
			return s, true
		}
	}
	return Of(name)
}
