package config

import (
	"cmp"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// Source is the catalogue's view of a source. It must exist.
func (c *Config) Source(team, name string) provider.Config {
	s := c.Teams[team].Sources[name]
	return provider.Config{
		Team: team, Name: name, Preset: s.Preset, Secrets: s.Secrets, KeyEncoding: s.KeyEncoding,
		Verify: s.Verify.params(), Event: s.Event.mapping(), MaxBody: int64(s.MaxBody), Deadline: s.Deadline.Std(),
	}
}

func (v *Verify) params() *verify.Params {
	if v == nil {
		return nil
	}
	return &verify.Params{
		Scheme: v.Scheme, HeaderPrefix: v.HeaderPrefix, Header: v.Header, AllowSHA1: v.AllowSHA1,
		Algorithm: v.Algorithm, SignatureHeader: v.SignatureHeader, Encoding: v.Encoding, Prefix: v.Prefix, Separator: v.Separator,
		Field: v.Field, ItemSeparator: v.ItemSeparator, FieldSeparator: v.FieldSeparator,
		TimestampHeader: v.TimestampHeader, TimestampField: v.TimestampField, TimestampPointer: v.TimestampPointer,
		TimestampUnit: v.TimestampUnit, Tolerance: time.Duration(v.Tolerance), Signed: v.Signed, IDHeader: v.IDHeader,
		KeyEncoding: v.KeyEncoding, KeyPrefix: v.KeyPrefix,
	}
}

func (e *Event) mapping() *provider.EventConfig {
	if e == nil {
		return nil
	}
	m := &provider.EventConfig{ID: e.ID, Type: e.Type, Entity: e.Entity, Payload: e.Payload, Volatile: e.Volatile, Headers: e.Headers}
	if v := e.Version; v != nil {
		m.Version = &provider.VersionConfig{From: v.From, Kind: v.Kind, As: v.As, Clock: v.Clock, Epoch: v.Epoch, Resolution: time.Duration(v.Resolution)}
		if r := v.Rank; r != nil {
			m.Version.Rank = &provider.RankConfig{From: r.From, Order: r.Order}
		}
	}
	if e.First != nil {
		first := int64(*e.First)
		m.First = &first
	}
	if d := e.Deleted; d != nil {
		m.Deleted = &provider.DeletedConfig{From: d.From, Is: d.Is}
	}
	return m
}

// BackfillEvent is the mapping of an element of a backfill's answer: its own, completed from the source's. The source
// must have a backfill. Where elements need not say their entity, or have no id, those are empty.
func (c *Config) BackfillEvent(team, name string) *provider.EventConfig {
	return c.Teams[team].Sources[name].element().mapping()
}

// element is what maps an element. Ids are never the source's: those of deliveries are not in an answer.
func (s *Source) element() *Event {
	own, of := Event{}, Event{}
	if s.Backfill.Event != nil {
		own = *s.Backfill.Event
	}
	if s.Event != nil {
		of = *s.Event
	}
	e := &Event{
		ID: own.ID, Entity: own.Entity, Type: cmp.Or(own.Type, of.Type), Payload: cmp.Or(own.Payload, of.Payload),
		Version: cmp.Or(own.Version, of.Version), Deleted: cmp.Or(own.Deleted, of.Deleted), Volatile: own.Volatile,
	}
	if e.Volatile == nil {
		e.Volatile = of.Volatile
	}
	if e.Version != nil && e.Version.Kind == "sequence" {
		first := 1
		e.First = cmp.Or(own.First, of.First, &first)
	}
	return e
}

// MaxBody is the largest body of a source in bytes: its own, else its preset's.
func (c *Config) MaxBody(team, name string) int64 {
	s := c.Teams[team].Sources[name]
	if s.MaxBody > 0 {
		return int64(s.MaxBody)
	}
	info, _ := provider.Lookup(s.Preset) // shape.go lists no other
	return info.MaxBody
}

// Problem is a problem at a path of the file, for checks that other packages make.
func (c *Config) Problem(path, message string) Problem {
	at := c.at(path)
	return Problem{File: at.file, Line: at.line, Path: path, Message: message}
}
