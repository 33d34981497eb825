package provider_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

func FuzzEvent(f *testing.F) {
	var sources []*provider.Source
	place := map[string]uint8{}
	for _, info := range provider.Presets() {
		cfg := provider.Config{Preset: info.Name}
		if info.Name == "generic" {
			cfg = orders()
			cfg.Event.Version.Epoch = "/order/run"
			cfg.Event.Volatile = []string{"/a", "/a/b", "/order/rev"}
		}
		place[info.Name] = uint8(len(sources))
		sources = append(sources, compile(f, cfg))
	}
	files, err := filepath.Glob("../vectors/payloads/*/*")
	if err != nil || len(files) < 24 {
		f.Fatal(files, err)
	}
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, "application/json", "issues", "id", uint8(i))
	}
	f.Add([]byte(`{"type":"t","order":{"id":1,"rev":2,"run":3},"a":{"b":1}}`), "", "", "1", place["generic"])
	f.Add([]byte(`payload={"type":"block_actions"}`), "application/x-www-form-urlencoded", "push", "1", place["slack"])
	f.Add([]byte(`command=x&team_id=T`), "application/x-www-form-urlencoded;a", "", "", place["slack"])
	f.Fuzz(func(t *testing.T, body []byte, contentType, event, id string, which uint8) {
		s := sources[int(which)%len(sources)]
		r := request(string(body))
		r.Header["Content-Type"] = []string{contentType}
		r.Header["X-Github-Event"] = []string{event}
		for _, name := range []string{"X-Github-Delivery", "X-Event-Id", "Webhook-Id"} {
			r.Header[name] = []string{id}
		}
		s.Challenge(r)
		e, err := s.Event(r, received)
		if err != nil {
			u, ok := errors.AsType[*provider.Unusable](err)
			if !ok || !slices.Contains(provider.UnusableReasons(), u.Reason) {
				t.Fatalf("%v is no reason of the list", err)
			}
			return
		}
		for _, text := range []string{e.ID, e.Type, string(e.Entity)} {
			if text == "" || strings.ContainsFunc(text, unicode.IsControl) {
				t.Fatalf("unusable text %q", text)
			}
		}
		if len(e.ID) > provider.MaxID || len(e.Type) > provider.MaxType || len(e.Entity) > provider.MaxEntity {
			t.Fatal("over a limit")
		}
		if form, err := url.ParseQuery(string(body)); string(e.Data) != string(body) && (err != nil || string(e.Data) != form.Get("payload")) || e.Hash == (schemas.BodyHash{}) || !e.Payload.Valid() {
			t.Fatalf("%+v", e)
		}
		// What the gate will read back from the record is what we meant.
		v, err := schemas.ParseVersion(e.Version.Clock, e.Version.Kind, e.Version.Sortable())
		if err != nil || v != e.Version {
			t.Fatalf("version %+v reads back as %+v: %v", e.Version, v, err)
		}
		again, err := s.Event(r, received)
		if err != nil || again.Hash != e.Hash || again.ID != e.ID {
			t.Fatalf("the same delivery is another event: %v", err)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	body, err := os.ReadFile("../vectors/payloads/github/issues.labeled.json")
	if err != nil {
		b.Fatal(err)
	}
	s := compile(b, provider.Config{Preset: "github"})
	r := request(string(body), "X-GitHub-Event: issues", "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Event(r, received); err != nil {
			b.Fatal(err)
		}
	}
}
