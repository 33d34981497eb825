package ingest

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
)

// One delivery, many events: each has its own bytes, id, type, entity and version; what cannot be mapped is kept alone, with its place.
func TestEachElementIsAnEvent(t *testing.T) {
	t.Parallel()
	const list = `[{"id":1,"type":"contact.creation","order":"c-1","rev":1}, {"type":"no id"},` + "\n" +
		`{ "id":2 , "type":"deal.deletion","order":"d-1","rev":7}, 5, {"id":3,"type":"deal.deletion","order":"d-2","rev":1}]`
	for _, test := range []struct{ each, body string }{{"/", list}, {"/a~1b/events", `{"id":"none","a/b":{"events":` + list + `},"type":"none"}`},
		{"/entry/*/changes", `{"entry":[{"changes":[]},{"id":"none","changes":` + list + `},{"changes":[]}]}`},
		{"/*/a/b", `[{"a":{"b":` + list + `}}]`}} {
		in := setup(t, nil)
		cfg := ordersMapping
		cfg.Each = test.each
		in.preset(cfg)
		if a := in.signed([]byte(test.body), "Content-Type", "application/json"); a.status != 202 || a.body != `{"id":null,"events":3,"quarantined":2}` {
			t.Fatalf("each: %s: %d %s", test.each, a.status, a.body)
		}
		var got []string
		for _, e := range in.log.events {
			got = append(got, e.ID+" "+e.Type+" "+string(e.Entity)+" "+e.Version.Sortable()+" "+string(e.Data)+" "+e.DataContentType)
		}
		want := []string{
			`1 contact.creation c-1 00000000000000000001 {"id":1,"type":"contact.creation","order":"c-1","rev":1} application/json`,
			`2 deal.deletion d-1 00000000000000000007 { "id":2 , "type":"deal.deletion","order":"d-1","rev":7} application/json`,
			`3 deal.deletion d-2 00000000000000000001 {"id":3,"type":"deal.deletion","order":"d-2","rev":1} application/json`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("each: %s:\n%s", test.each, strings.Join(got, "\n"))
		}
		if kept := in.log.deliveries; len(kept) != 2 || string(kept[0].Body) != `{"type":"no id"}` || kept[0].Element != 2 || kept[0].Reason != provider.MissingField ||
			string(kept[1].Body) != "5" || kept[1].Element != 4 || len(kept[1].Headers) == 0 {
			t.Errorf("kept: %+v", kept)
		}
		if in.count("quarantined", provider.MissingField) != 1 {
			t.Error("the delivery is not counted once, with the first reason")
		}
	}
}

// What is kept of an element has its own headers, where each has some: with another's it would be that one's event once it is read again.
func TestKeptElementsHaveTheirHeaders(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct{ preset, contentType, body, header string }{
		{"cloudevents", "application/cloudevents-batch+json", `[{"specversion":"1.0","id":"a","source":"/s"},{"specversion":"1.0","id":"b","source":"/s"}]`, "ce-id"},
		{"whatsapp", "application/json", `{"entry":[{"id":"a","changes":[{}]},{"id":"b","changes":[{}]}]}`, "forebay-around"},
	} {
		in.log.deliveries = nil
		in.preset(provider.Config{Preset: test.preset})
		if a := in.signed([]byte(test.body), "Content-Type", test.contentType); a.status >= 300 || len(in.log.deliveries) != 2 {
			t.Fatalf("%s: %+v, %d kept", test.preset, a, len(in.log.deliveries))
		}
		for i, want := range []string{"a", "b"} {
			got := ""
			for _, h := range in.log.deliveries[i].Headers {
				if h.Name == test.header {
					got = strings.TrimSuffix(h.Value, ":")
				}
			}
			if got != want {
				t.Errorf("%s: element %d is kept with %s %q", test.preset, i+1, test.header, got)
			}
		}
	}
}

// What is no list is kept whole; a single object is a list of one; an empty list is taken, and nothing comes of it.
func TestListsAndWhatIsNone(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 1<<20, 1<<20 })
	cfg := ordersMapping
	cfg.Each, cfg.MaxBody = "/events", 1<<20
	in.preset(cfg)
	one := `{"id":"1","type":"t","order":"o","rev":1}`
	for _, test := range []struct{ body, answer, outcome, reason string }{
		{`{"events":[]}`, `{"id":null,"events":0,"quarantined":0}`, "accepted", emptyList},
		{`{"events":` + one + `}`, `{"id":"1"}`, "accepted", ""},
		{"\ufeff" + `{"events":[` + one + `]}`, `{"id":"1"}`, "accepted", ""},
		{`{"event":[]}`, `{"id":null}`, "quarantined", provider.MissingField},
		{`{"events":"[]"}`, `{"id":null}`, "quarantined", provider.WrongType},
		{`{"events":[}`, `{"id":null}`, "quarantined", provider.NotJSON},
		{`{"events":[],"events":[` + one + `]}`, `{"id":null}`, "quarantined", provider.DuplicateKey},
		{`{"events":[` + strings.Repeat("{},", provider.MaxElements) + `{}]}`, `{"id":null}`, "quarantined", provider.TooLong},
	} {
		before := in.count(test.outcome, test.reason)
		if a := in.signed([]byte(test.body)); a.status != 202 || a.body != test.answer {
			t.Errorf("%.40s: %d %s", test.body, a.status, a.body)
		}
		if in.count(test.outcome, test.reason) != before+1 {
			t.Errorf("%.40s is not counted as %s %s", test.body, test.outcome, test.reason)
		}
	}
	if n := len(in.log.deliveries); n != 5 || in.log.deliveries[4].Element != 0 {
		t.Errorf("%d kept whole", n)
	}
}
