package app

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/registry"
	"github.com/forebay-io/forebay/schemas"
)

// The intake knows an id once the registry has the schema as it is in the file; while the registry is away, lacks it, or has another text under
// the same $id, events go without one, and what is known stays.
func TestSchemaIDs(t *testing.T) {
	t.Parallel()
	reg := srfake.New()
	t.Cleanup(reg.Close)
	var away atomic.Bool
	var asked atomic.Int32
	reg.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	file := func(url, more string) *config.Config {
		t.Helper()
		text := strings.NewReplacer("URL", url, "MORE", more).Replace(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://127.0.0.1/x"}
registry: {url: "URL"}
teams:
  acme:
    sources:
      orders:
        preset: generic
        secrets: [of-the-orders-of-this-test]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: /type, entity: [/id]}
        json_schema: {check: warn, own: '{"$id": "https://example.com/order/1", "type": "object"MORE}'}
      unchecked: {preset: stripe, secrets: [whsec_of-this-test]}
`)
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	push := func(c *config.Config) {
		t.Helper()
		wanted, err := registry.Of(c)
		if err != nil || len(wanted) != 1 || wanted[0].Subject != "events.acme.orders-value" {
			t.Fatal(wanted, err)
		}
		client, err := registry.New(*c.RegistryFound())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Push(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
	}
	of := schemas.Event{Source: "/acme/orders", DataSchema: "https://example.com/order/1"}
	s := newSchemaIDs(slog.New(slog.DiscardHandler))
	want := func(what, missing string, known bool, of *schemas.Event) {
		t.Helper()
		got := s.ask(t.Context())
		if (got == "") != (missing == "") || !strings.Contains(got, missing) {
			t.Errorf("%s: %q is missing, want %q", what, got, missing)
		}
		if id := s.of(of); (id != nil) != known || known && (len(id) != 17 || id[0] != 1) {
			t.Errorf("%s: %x", what, id)
		}
	}
	change := func(c *config.Config) {
		t.Helper()
		if err := s.want(c); err != nil {
			t.Fatal(err)
		}
	}
	first := file(reg.URL(), "")
	change(first)
	want("nothing is there", "lacks 1 of 1 schemas: `forebay schemas push`", false, &of)
	push(first)
	away.Store(true)
	want("away", "answers 503", false, &of)
	away.Store(false)
	want("there", "", true, &of)
	asked.Store(0)
	want("known", "", true, &of)
	if asked.Load() > 0 {
		t.Errorf("%d questions about what is known", asked.Load())
	}
	want("an event that was not held against it", "", false, &schemas.Event{Source: of.Source})
	want("another source", "", false, &schemas.Event{Source: "/acme/unchecked", DataSchema: of.DataSchema})
	away.Store(true)
	change(file(reg.URL(), ""))
	want("a reload without a change, away", "", true, &of)
	second := file(reg.URL(), `, "required": ["id"]`)
	change(second)
	if id := s.of(&of); id != nil {
		t.Errorf("another text has the id of the one before: %x", id)
	}
	want("another text", "answers 503", false, &of)
	away.Store(false)
	want("another text, back", "lacks 1 of 1", false, &of)
	push(second)
	want("and pushed", "", true, &of)
	change(file("http://127.0.0.1:1", `, "required": ["id"]`))
	want("another registry", "does not answer", false, &of)
}

// What the registry refuses to say of one subject, or fails on, is that source's alone: the ids of those behind it are known.
func TestSchemaIDsBehindOneThatIsRefused(t *testing.T) {
	t.Parallel()
	reg := srfake.New()
	t.Cleanup(reg.Close)
	source := func(name string) string {
		return strings.ReplaceAll(`
      NAME:
        preset: generic
        secrets: [of-the-orders-of-this-test]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: /type, entity: [/id]}
        json_schema: {check: warn, own: '{"$id": "https://example.com/NAME"}'}`, "NAME", name)
	}
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://127.0.0.1/x"}
registry: {url: "` + reg.URL() + `"}
teams:
  acme:
    sources:` + source("first") + `
  pay:
    sources:` + source("second"))})
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := registry.Of(c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := registry.New(*c.RegistryFound())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Push(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	var status, asked atomic.Int32
	reg.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if asked.Add(1); !strings.Contains(r.URL.Path, "events.acme.first-value") {
			return false
		}
		w.WriteHeader(int(status.Load()))
		return true
	})
	for answer, goesOn := range map[int]bool{http.StatusForbidden: true, http.StatusNotFound: true, http.StatusInternalServerError: true,
		http.StatusUnauthorized: false, http.StatusTooManyRequests: false, http.StatusBadGateway: false, http.StatusServiceUnavailable: false, http.StatusGatewayTimeout: false} {
		status.Store(int32(answer))
		asked.Store(0)
		s := newSchemaIDs(slog.New(slog.DiscardHandler))
		if err := s.want(c); err != nil {
			t.Fatal(err)
		}
		missing := s.ask(t.Context())
		known := s.of(&schemas.Event{Source: "/pay/second", DataSchema: "https://example.com/second"}) != nil
		if !strings.Contains(missing, strconv.Itoa(answer)) || known != goesOn || (asked.Load() == 2) != goesOn {
			t.Errorf("%d: %q is missing, the second is known %t after %d questions", answer, missing, known, asked.Load())
		}
	}
}
