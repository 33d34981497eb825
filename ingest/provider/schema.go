package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// What becomes of bodies that do not fit the schema of their type.
const (
	SchemaOff        = "off" // they are not looked at
	SchemaWarn       = "warn"
	SchemaQuarantine = "quarantine"
)

// SchemaChecks lists these.
func SchemaChecks() []string { return []string{SchemaOff, SchemaWarn, SchemaQuarantine} }

// SchemaConfig is a source's `json_schema:`.
type SchemaConfig struct {
	// Check is of [SchemaChecks]; empty is off.
	Check string
	// Own is the text of a schema for all events of the source; empty is the catalogue's for the event's type.
	Own string
}

func (s *Source) compileSchema(cfg SchemaConfig) (err error) {
	if s.check = cfg.Check; s.check == "" {
		s.check = SchemaOff
	}
	if !slices.Contains(SchemaChecks(), s.check) {
		return &KeyError{"json_schema.check", fmt.Errorf("%q is not one of %s", s.check, strings.Join(SchemaChecks(), ", "))}
	}
	if cfg.Own == "" {
		return nil
	}
	if s.schema, err = jsonschema.Parse([]byte(cfg.Own)); err != nil {
		return &KeyError{"json_schema.own", err}
	}
	return nil
}

// Schema returns the schema that events of a type are held against, whether or not they are; nil if there is none.
func (s *Source) Schema(eventType string) *jsonschema.Schema {
	if s.schema != nil {
		return s.schema
	}
	if s.preset.prefix == "" || !strings.HasPrefix(eventType, s.preset.prefix) {
		return nil // a sender's own word for its type
	}
	schema, _ := jsonschema.Of(eventType)
	return schema
}

// CheckSchema validates the body of an event by the schema of its type. If it fits, e gets the schema's id, else
// none. The verdict is empty, and e as it was, if the source does not check bodies or the type has no schema. why says how the body does not fit, or why the schema left it unchecked.
//
// The error, an *[Unusable], is returned for a misfit if the source quarantines these.
func (s *Source) CheckSchema(e *schemas.Event) (verdict jsonschema.Verdict, why string, err error) {
	if s.check == SchemaOff {
		return "", "", nil
	}
	schema := s.Schema(e.Type)
	if schema == nil {
		return "", "", nil
	}
	text, err := e.Text(s.MaxBody)
	if err != nil { // it was unpacked before: there is no error
		return "", "", err
	}
	e.DataSchema = "" // what its sender says of it counts only where nothing is held against a schema
	switch verdict, why = schema.Check(text); verdict {
	case jsonschema.Fits:
		e.DataSchema = schema.ID
	case jsonschema.Misfit:
		if s.check == SchemaQuarantine {
			return verdict, why, unusable(SchemaMisfit, "the body %s", why)
		}
	}
	return verdict, why, nil
}
