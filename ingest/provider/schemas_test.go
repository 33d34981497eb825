package provider_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// payload is a real body of the vectors, with the headers that say what it is.
type payload struct {
	File     string            `json:"file"`
	Provider string            `json:"provider"`
	Headers  map[string]string `json:"headers"`
}

const vectors = "../vectors/payloads"

// payloads returns the vectors' bodies of providers with a preset.
func payloads(t *testing.T) (all []payload) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectors, "index.json"))
	var index struct{ Payloads []payload }
	if err == nil {
		err = json.Unmarshal(text, &index)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range index.Payloads {
		if _, ok := provider.Lookup(p.Provider); ok {
			all = append(all, p)
		}
	}
	return all
}

// event reads a body as the delivery of p.
func (p payload) event(s *provider.Source, body string) (typ string, err error) {
	var headers []string
	for name, value := range p.Headers {
		headers = append(headers, name+": "+value)
	}
	r := request(body, headers...)
	if err := s.Sign(r, received); err != nil { // sets the id, where a header has it
		return "", err
	}
	if s.Several() {
		elements, err := s.Split(r)
		if err != nil {
			return "", err
		}
		r = &elements[0]
	}
	e, err := s.Event(r, received)
	if err != nil {
		return "", err
	}
	return e.Type, e.Validate()
}

// Real bodies fit the schemas of their types. And whatever the mapping misses in a body, or cannot use for its kind, its schema refuses:
// each field with a name that the catalogue knows is taken out, and made null and an object, one after the other.
func TestSchemasRefuseWhatTheMappingDoes(t *testing.T) {
	t.Parallel()
	used, refused, sources := map[string]bool{}, 0, map[string]*provider.Source{}
	for _, p := range payloads(t) {
		body, err := os.ReadFile(filepath.Join(vectors, p.File))
		if err != nil {
			t.Fatal(err)
		}
		if sources[p.Provider] == nil {
			sources[p.Provider] = compile(t, provider.Config{Preset: p.Provider})
		}
		source := sources[p.Provider]
		info, _ := provider.Lookup(p.Provider)
		known, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		typ, err := p.event(source, string(body))
		if err != nil {
			t.Errorf("%s: %v", p.File, err)
			continue
		}
		schema, ok := jsonschema.Of(typ)
		if !ok {
			t.Logf("%s: there is no schema for %s", p.File, typ)
			continue
		}
		used[schema.ID] = true
		if verdict, why := schema.Check(body); verdict != jsonschema.Fits {
			t.Errorf("%s: %s by %s: %s", p.File, verdict, schema.ID, why)
		}
		for changed, text := range changes(t, body, known) {
			_, err := p.event(source, text)
			bad, ok := errors.AsType[*provider.Unusable](err)
			if !ok || bad.Reason != provider.MissingField && bad.Reason != provider.WrongType && !strings.Contains(bad.Detail, ", and the body has not") {
				continue
			}
			refused++
			if verdict, _ := schema.Check([]byte(text)); verdict != jsonschema.Misfit {
				t.Errorf("%s with %s: the mapping says %v, and the schema %s", p.File, changed, bad, verdict)
			}
		}
	}
	if len(used) < 30 || refused < 300 {
		t.Errorf("%d schemas and %d refusals of the mapping were compared: %v", len(used), refused, slices.Sorted(maps.Keys(used)))
	}
}

// changes returns bodies in which one field, of the body or of an object in it, is missing or of another kind. Its name is in known.
func changes(t *testing.T, body, known []byte) map[string]string {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal(body, &top); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	note := func(what string) {
		text, err := json.Marshal(top)
		if err != nil {
			t.Fatal(err)
		}
		all[what] = string(text)
	}
	var each func(object map[string]any, at string, depth int)
	each = func(object map[string]any, at string, depth int) {
		for _, key := range slices.Collect(maps.Keys(object)) {
			if !bytes.Contains(known, []byte("/"+key)) && depth > 0 {
				continue
			}
			before := object[key]
			delete(object, key)
			note("no " + at + "/" + key)
			for _, other := range []any{nil, map[string]any{}} {
				object[key] = other
				text, _ := json.Marshal(other)
				note(at + "/" + key + " = " + string(text))
			}
			object[key] = before
			if inner, ok := before.(map[string]any); ok && depth < 2 {
				each(inner, at+"/"+key, depth+1)
			}
		}
	}
	each(top, "", 0)
	return all
}

// Each mapping of a provider has a schema for its types, or is here with the reason that it has none.
func TestMappingsHaveSchemas(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"slack event_callback": "any event that has no mapping of its own: its fields are not known",
		"slack command":        "a form",
		"slack interaction":    "a dozen kinds of bodies, of which the catalogue requires nothing",
		// app_rate_limited says nothing of an entity but the team.
		"slack app_rate_limited": "no main entity",
		"cal-com":                "the catalogue has none",
		"cycles":                 "the catalogue has none",
		"intercom":               "the catalogue has none",
		"shopify":                "the catalogue has none",
		"square":                 "the catalogue has none",
		"svix":                   "the catalogue has none",
		"telegram":               "the catalogue has none",
		"whatsapp":               "the catalogue has none",
	}
	catalogued := []string{"github", "slack", "stripe"} // of other providers there are no schemas
	for _, info := range provider.Presets() {
		if !slices.Contains(catalogued, info.Name) {
			continue
		}
		for _, m := range info.Types {
			name := info.Name + " " + m.Match
			match := strings.Split(m.Match, "/")
			known, _ := provider.Config{Preset: info.Name}.Types()
			found := slices.ContainsFunc(known, func(glob string) bool {
				_, ok := jsonschema.Of(glob)
				return ok && slices.ContainsFunc(match, func(part string) bool { return strings.Contains(glob+".", "."+part+".") })
			})
			if info.Name == "stripe" {
				_, found = jsonschema.Of("com.stripe.v1.billing.meter.error_report_triggered")
			}
			if reason := cmp.Or(without[name], without[info.Name]); found == (reason != "") {
				t.Errorf("%s: has a schema: %t; listed without one: %q", name, found, reason)
			}
		}
	}
}
