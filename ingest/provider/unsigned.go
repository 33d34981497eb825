package provider

import (
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/ingest/verify"
)

// Unsigned says which of a source's id and type are read from what its signature does not cover, so that whoever has seen one delivery
// can send it again as another event. Each is the [KeyError] of a key of the file, without being an error. It leaves out what cannot be
// compiled.
func (cfg Config) Unsigned() []*KeyError {
	p, ok := catalogue[cfg.Preset]
	if !ok {
		return nil
	}
	params, err := cfg.params(p)
	if signed, _ := params.Signs(); err != nil || signed == "" { // nothing at all: no other id would help
		return nil
	}
	e := cfg.Event
	if e == nil {
		e = &EventConfig{}
	}
	var found []*KeyError
	if header := unsigned(params, e.ID, p.idAs(params)); header != "" {
		found = append(found, &KeyError{"event.id", fmt.Errorf("is read from %s, which the signature does not cover: whoever has seen one delivery can "+
			"have it acted on again and again under new ids; take what is in the body, or id: sha256:body and delivery_id: for the sender's id, "+
			"or add {id} to verify.signed where the sender signs it", header)})
	}
	if p.fields != nil && e.Type == "" {
		return found // bodies are held against it
	}
	if header := unsigned(params, e.Type, p.fallback.typ...); header != "" {
		found = append(found, &KeyError{"event.type", fmt.Errorf("is read from %s, which the signature does not cover: whoever has seen a delivery can "+
			"send it as an event of another type; take what is in the body, or have a source for each type", header)})
	}
	return found
}

// unsigned returns a header from which a value is read that the signature does not cover: as the user says it, else the preset.
func unsigned(params verify.Params, user string, preset ...string) string {
	var c refs
	var values []value
	var err error
	if user != "" {
		values = make([]value, 1)
		values[0], err = c.user(user, names)
	} else {
		values, err = c.list(preset)
	}
	if err != nil {
		return ""
	}
	for _, v := range values {
		for _, r := range v.refs {
			if r.kind == refHeader && !params.Covers(r.name) {
				return "header " + r.name
			}
			// Which header an expression reads is not known: where some are covered, it may be those.
			if r.kind == refExpression && r.cel.Reads("header") && params.IDHeader == "" && params.Scheme != verify.SchemeStandardWebhooks {
				return "headers (" + strings.TrimSuffix(r.text, "...") + ")"
			}
		}
	}
	return ""
}

// SignsURL reports whether the source's signature covers the URL that the provider calls.
func (cfg Config) SignsURL() bool {
	params, err := cfg.params(catalogue[cfg.Preset])
	return err == nil && params.SignsURL()
}
