package config

import (
	"cmp"

	"github.com/forebay-io/forebay/ingest/provider"
)

// Source returns the catalogue's view of a source. It must exist.
func (c *Config) Source(team, name string) provider.Config {
	s := c.Teams[team].Sources[name]
	return provider.Config{
		Team: team, Name: name, Preset: s.Preset, Secrets: s.Values(), Until: s.until(), KeyEncoding: s.KeyEncoding,
		Verify: s.Verify, Event: s.Event, Each: s.Each, Own: s.Own, MaxBody: int64(s.MaxBody), Deadline: s.Deadline.Std(),
		Schema: provider.SchemaConfig{Check: s.JSONSchema.Check, Own: s.JSONSchema.Own},
	}
}

// BackfillEvent returns the mapping that makes an event of an element of a backfill's answer: the backfill's event, completed from the
// source's. The source must have a backfill. ID and Entity are empty where the file leaves them out.
func (c *Config) BackfillEvent(team, name string) *provider.EventConfig {
	return c.Teams[team].Sources[name].element()
}

// element makes the mapping that BackfillEvent returns. It has nothing of the source's id and entity: the ids of deliveries are not in an
// API's answer, and its elements are about the entity that was asked for.
func (s *Source) element() *provider.EventConfig {
	var own, source provider.EventConfig
	if s.Backfill.Event != nil {
		own = *s.Backfill.Event
	}
	if s.Event != nil {
		source = *s.Event
	}
	e := &provider.EventConfig{
		ID: own.ID, Entity: own.Entity, Type: cmp.Or(own.Type, source.Type), Payload: cmp.Or(own.Payload, source.Payload),
		Version: cmp.Or(own.Version, source.Version), Deleted: cmp.Or(own.Deleted, source.Deleted), Volatile: own.Volatile,
	}
	if e.Volatile == nil {
		e.Volatile = source.Volatile
	}
	if e.Version != nil && e.Version.Kind == "sequence" {
		first := int64(1)
		e.First = cmp.Or(own.First, source.First, &first)
	}
	return e
}

// MaxBody returns the largest body of a source in bytes: its own, else its preset's.
func (c *Config) MaxBody(team, name string) int64 {
	s := c.Teams[team].Sources[name]
	if s.MaxBody > 0 {
		return int64(s.MaxBody)
	}
	info, _ := provider.Lookup(s.Preset) // found: the decoder takes no other preset
	return info.MaxBody
}

// Problem returns a problem at a path of the file, for checks that other packages make.
func (c *Config) Problem(path, message string) Problem {
	at := c.at(path)
	one := []Problem{{File: at.file, Line: at.line, Path: path, Message: message}}
	c.hideIn(one)
	return one[0]
}
