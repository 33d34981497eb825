package provider_test

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	issue, err := os.ReadFile(vectors + "/github/issues.labeled.json")
	if err != nil {
		t.Fatal(err)
	}
	untitled := strings.Replace(string(issue), `"title":`, `"title":{},"was":`, 1)
	if untitled == string(issue) {
		t.Fatal("the sample has no title")
	}
	own := orders()
	own.Schema = provider.SchemaConfig{Check: "quarantine", Own: `{"$id": "https://example.com/order", "required": ["order"], "properties": {"order": {"properties": {"n": {"type": "integer"}}}}}`}
	nameless := own
	nameless.Schema.Own = `{"required": ["order"]}`
	github := func(check string) provider.Config {
		return provider.Config{Preset: "github", Schema: provider.SchemaConfig{Check: check}}
	}
	named := github("quarantine")
	named.Event = &provider.EventConfig{Type: "/action"}
	const id = "urn:forebay:schema:com.github.issues:1"
	ce := provider.Config{Preset: "cloudevents", Schema: own.Schema, Event: &provider.EventConfig{Entity: []string{"/order/id"}}}
	said := []string{"Content-Type: application/json", "Ce-Specversion: 1.0", "Ce-Id: 1", "Ce-Source: /s", "Ce-Type: t", "Ce-Dataschema: https://example.com/order"}
	ceWarn, ceOff := ce, ce
	ceWarn.Schema.Check, ceOff.Schema.Check = "warn", "off"
	of, event := []string{"X-GitHub-Event: issues"}, []string{"X-Event-Id: 1"}
	for name, tt := range map[string]struct {
		cfg     provider.Config
		body    string
		headers []string
		verdict jsonschema.Verdict
		schema  string
		why     string
		kept    bool
	}{
		"off by default":     {provider.Config{Preset: "github"}, untitled, of, "", "", "", false},
		"off":                {github("off"), untitled, of, "", "", "", false},
		"fits":               {github("warn"), string(issue), of, jsonschema.Fits, id, "", false},
		"misfit, told":       {github("warn"), untitled, of, jsonschema.Misfit, "", "/issue/title is an object, not a string", false},
		"misfit, kept":       {github("quarantine"), untitled, of, jsonschema.Misfit, "", "/issue/title is an object, not a string", true},
		"fits, where kept":   {github("quarantine"), string(issue), of, jsonschema.Fits, id, "", false},
		"no schema":          {github("quarantine"), `{"action": "created", "repository": {"id": 1}, "starred_at": null}`, []string{"X-GitHub-Event: star"}, "", "", "", false},
		"in a form":          {github("warn"), "payload=" + url.QueryEscape(string(issue)), append(of, "Content-Type: application/x-www-form-urlencoded"), jsonschema.Fits, id, "", false},
		"misfit in a form":   {github("warn"), "payload=" + url.QueryEscape(untitled), append(of, "Content-Type: application/x-www-form-urlencoded"), jsonschema.Misfit, "", "/issue/title is an object, not a string", false},
		"a type of its own":  {named, string(issue), of, "", "", "", false},
		"own schema":         {own, `{"id": "1", "type": "com.github.issues.opened", "order": {"id": 1, "rev": 1, "n": 5}}`, event, jsonschema.Fits, "https://example.com/order", "", false},
		"own schema, misfit": {own, `{"id": "1", "type": "t", "order": {"id": 1, "rev": 1, "n": "5"}}`, event, jsonschema.Misfit, "", "/order/n is a string, not an integer", true},
		"own, without an id": {nameless, `{"id": "1", "type": "t", "order": {"id": 1, "rev": 1}}`, event, jsonschema.Fits, "", "", false},
		// What a sender says of its events is checked where anything is.
		"said, fits":          {ceWarn, `{"order": {"id": 1}}`, said, jsonschema.Fits, "https://example.com/order", "", false},
		"said, misfit":        {ceWarn, `{"order": {"id": 1, "n": "5"}}`, said, jsonschema.Misfit, "", "/order/n is a string, not an integer", false},
		"said, misfit, kept":  {ce, `{"order": {"id": 1, "n": "5"}}`, said, jsonschema.Misfit, "", "/order/n is a string, not an integer", true},
		"said, unchecked":     {ce, `{"order": {"id": 1}, "x": "` + strings.Repeat("x", jsonschema.MaxBody) + `"}`, said, jsonschema.Unchecked, "", "only up to 1048576 are checked", false},
		"said, off":           {ceOff, `{"order": {"id": 1, "n": "5"}}`, said, "", "https://example.com/order", "", false},
		"more than is looked": {own, `{"id": "1", "type": "t", "order": {"id": 1, "rev": 1}, "x": "` + strings.Repeat("x", jsonschema.MaxBody) + `"}`, event, jsonschema.Unchecked, "", "only up to 1048576 are checked", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, tt.cfg)
			r := request(tt.body, tt.headers...)
			e, err := s.Event(r, received)
			if err != nil {
				t.Fatal(err)
			}
			verdict, why, err := s.CheckSchema(e)
			if verdict != tt.verdict || !strings.Contains(why, tt.why) || (tt.why == "") != (why == "") || e.DataSchema != tt.schema {
				t.Errorf("%q %q, dataschema %q", verdict, why, e.DataSchema)
			}
			bad, ok := errors.AsType[*provider.Unusable](err)
			if ok != tt.kept || ok && (bad.Reason != provider.SchemaMisfit || bad.Detail != "the body "+why) {
				t.Errorf("%v, kept is %t", err, tt.kept)
			}
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSchemaConfigRefused(t *testing.T) {
	t.Parallel()
	for key, cfg := range map[string]provider.SchemaConfig{
		`json_schema.check "maybe" is not one of off, warn, quarantine`:                  {Check: "maybe"},
		`json_schema.own is no JSON: syntax at byte 0`:                                   {Check: "warn", Own: "orders.json"},
		`json_schema.own $ref: https://example.com/x is elsewhere, and nothing is fetch`: {Own: `{"$ref": "https://example.com/x"}`},
	} {
		_, err := provider.Compile(func() provider.Config {
			c := orders()
			c.Team, c.Name, c.Secrets, c.Schema = "acme", "orders", []schemas.Secret{schemas.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}, cfg
			return c
		}())
		if err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%v, want %s", err, key)
		}
	}
}
