package samples

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// A slip in a sample's name leads to the sample that is meant, and to all of its provider; a slip in the provider to all of those.
func TestUnknownSample(t *testing.T) {
	t.Parallel()
	_, err := Lookup("github/isues.labeled")
	if err == nil || !strings.HasPrefix(err.Error(), `no sample "github/isues.labeled"; did you mean github/issues.labeled? there are: `) || !strings.Contains(err.Error(), ", github/push") || strings.Contains(err.Error(), "stripe/") {
		t.Error(err)
	}
	if _, err := Lookup("acme/x"); err == nil || !strings.Contains(err.Error(), "there are some of a2a, ") {
		t.Error(err)
	}
}

func TestEverySampleIsJSONAndNamed(t *testing.T) {
	t.Parallel()
	names := Names()
	if len(names) < 10 {
		t.Fatalf("only %d samples: %v", len(names), names)
	}
	for _, name := range names {
		s, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Headers["Content-Type"] == "application/json" && !json.Valid(s.Body) {
			t.Errorf("%s is not JSON", name)
		}
		if s.Provider+"/"+s.Name != name {
			t.Errorf("%s came back as %s/%s", name, s.Provider, s.Name)
		}
	}
}

// TestEveryPresetHasASample: who tries a preset has something to send. Two presets are no provider's.
func TestEveryPresetHasASample(t *testing.T) {
	t.Parallel()
	for _, p := range provider.Presets() {
		if p.Name != "generic" && p.Name != "standard-webhooks" && !slices.ContainsFunc(Names(), func(name string) bool { return strings.HasPrefix(name, p.Name+"/") }) {
			t.Errorf("preset %s has no sample: ingest/vectors/payloads/index.json names none", p.Name)
		}
	}
}

// TestEverySampleIsAnEvent: what `forebay send` signs and sends has to name itself, also where a header does that.
func TestEverySampleIsAnEvent(t *testing.T) {
	t.Parallel()
	events := 0
	for _, name := range Names() {
		s, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		info, ok := provider.Lookup(s.Provider)
		if !ok {
			continue
		}
		src, err := provider.Compile(provider.Config{Team: "t", Name: "s", Preset: s.Provider, Secrets: []schemas.Secret{verify.ExampleSecret(info.Scheme)}})
		if err != nil {
			t.Fatal(err)
		}
		r := &verify.Request{Method: http.MethodPost, URL: "https://example.com/hook", Header: http.Header{}, Body: s.Body}
		for name, value := range s.Headers {
			r.Header.Set(name, value)
		}
		if err := src.Sign(r, time.Now()); err != nil {
			t.Fatal(err)
		}
		elements := []verify.Request{*r}
		if src.Several() {
			if elements, err = src.Split(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, e := range elements {
			events++
			if _, err := src.Event(&e, time.Now()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if events < len(provider.Presets()) {
		t.Errorf("only %d events", events)
	}
}
