package provider_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// cloudEvents returns the events of a delivery; nil for what cannot be one.
func cloudEvents(t *testing.T, cfg provider.Config, r *verify.Request) (events []*schemas.Event) {
	t.Helper()
	cfg.Preset = "cloudevents"
	s := compile(t, cfg)
	elements, err := s.Split(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range elements {
		e, err := s.Event(&elements[i], received)
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			e = nil
		}
		events = append(events, e)
	}
	return events
}

// Every scenario of the HTTP feature of the CloudEvents conformance suite (features/http-protocol-binding.feature).
func TestCloudEventsConformance(t *testing.T) {
	t.Parallel()
	const body = "{\n    \"message\": \"Hello World!\"\n}"
	structured := `{
    "specversion": "1.0",
    "type": "com.example.someevent",
    "time": "2018-04-05T03:56:24Z",
    "id": "1234-1234-1234",
    "source": "/mycontext/subcontext",
    "datacontenttype": "application/json",
    "data": {
        "message": "Hello World!"
    }
}`
	attributes := []string{"ce-specversion: 1.0", "ce-type: com.example.someevent", "ce-time: 2018-04-05T03:56:24Z", "ce-id: 1234-1234-1234", "ce-source: /mycontext/subcontext"}
	for contentType, r := range map[string]*verify.Request{
		"application/json":                            request(body, append(attributes, "Content-Type: application/json")...),
		"application/json; charset=utf-8":             request(body, append(attributes, "Content-Type: application/json; charset=utf-8")...),
		"application/cloudevents+json":                request(structured, "Content-Type: application/cloudevents+json"),
		"application/cloudevents+json; charset=utf-8": request(structured, "Content-Type: application/cloudevents+json; charset=utf-8"),
	} {
		want := contentType
		if strings.HasPrefix(contentType, "application/cloudevents") {
			want = "application/json"
		}
		e := cloudEvents(t, provider.Config{}, r)[0]
		if e == nil || e.ID != "%2Fmycontext%2Fsubcontext/1234-1234-1234" || e.Type != "com.example.someevent" || e.Time.Format("2006-01-02T15:04:05Z") != "2018-04-05T03:56:24Z" ||
			e.DataContentType != want || strings.Join(strings.Fields(string(e.Data)), "") != `{"message":"HelloWorld!"}` || e.Headers[0] != (schemas.Header{Name: "ce-source", Value: "/mycontext/subcontext"}) {
			t.Errorf("%s: %+v", contentType, e)
		}
	}
}

// A batch has each event by itself, with the data that it means, and what is none alone.
func TestCloudEventsBatch(t *testing.T) {
	t.Parallel()
	const batch = `[
{"specversion":"1.0","id":"1","source":"/a","type":"t","subject":"s","sequence":"9","sequencetype":"Integer","data":{"n":1},"tenant":"x","level":3,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
{"specversion":"1.0","id":"1","source":"/b","type":"t","sequence":"10","sequencetype":"Integer","data_base64":"AP8=","datacontenttype":"application/octet-stream","partitionkey":"p"},
{"specversion":"1.0","id":"2","source":"/b","type":"t","data":"plain","datacontenttype":"text/plain"},
{"specversion":"1.0","id":"3","source":"/b","type":"t","data":"text"},
{"specversion":"1.0","id":"4","source":"/b","type":"t","time":"2026-08-01T12:00:05Z"},
{"specversion":"0.3","id":"5","source":"/b","type":"t"},
{"specversion":"1.0","id":"6","source":"/b","type":"t","data":1,"data_base64":""},
{"specversion":"1.0","id":"7","id":"8","source":"/b","type":"t"},
{"specversion":"1.0","source":"/b","type":"t"},
{"specversion":"1.0","id":"9","source":"/b","type":"t","x":{}},
7]`
	var got []string
	events := cloudEvents(t, provider.Config{}, request(batch, "Content-Type: application/cloudevents-batch+json"))
	for _, e := range events {
		if e == nil {
			got = append(got, "none")
			continue
		}
		got = append(got, e.ID+" "+string(e.Entity)+" "+e.Version.Clock+" "+e.Version.Sortable()+" "+string(e.Data)+" "+e.DataContentType)
	}
	want := []string{`%2Fa/1 s sequence:/a =0000000009 {"n":1} application/json`, "%2Fb/1 p sequence:/b =0000000010 \x00\xff application/octet-stream",
		"%2Fb/2 %2Fb   plain text/plain", `%2Fb/3 %2Fb   "text" application/json`, "%2Fb/4 %2Fb time:/b 2026-08-01T12:00:05.000000000Z  application/json", "none", "none", "none", "none", "none", "none"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if extra := maps.Clone(events[0].Extensions); !maps.Equal(extra, map[string]string{"sequence": "9", "sequencetype": "Integer", "tenant": "x", "level": "3"}) {
		t.Errorf("extensions: %v", extra)
	}
}

// A source's own mapping reads attributes as headers, decoded, and the data as body.
func TestCloudEventsOwnMapping(t *testing.T) {
	t.Parallel()
	cfg := provider.Config{Event: &provider.EventConfig{Entity: []string{"header:ce-subject", "/order/id"}, Version: &provider.VersionConfig{From: "/order/rev", Kind: "sequence"}}}
	e := cloudEvents(t, cfg, request(`{"order":{"id":7,"rev":2}}`, "ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: t", "ce-subject: Euro%20%E2%82%AC%2520"))[0]
	if e == nil || e.Entity != schemas.NewEntityKey("Euro €%20", "7") || e.Version.Value != 2 {
		t.Errorf("%+v", e)
	}
}

// The question whether a sender may send is answered without a token; a rate only if one was asked for.
func TestCloudEventsConsent(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "cloudevents"})
	for asked, want := range map[string]string{"": "", "120": "*"} {
		r := &verify.Request{Method: http.MethodOptions, Header: http.Header{"Webhook-Request-Origin": {"a.example.com"}, "Webhook-Request-Callback": {"http://127.0.0.1:1/"}}}
		if asked != "" {
			r.Header.Set("WebHook-Request-Rate", asked)
		}
		answer, ok := s.Challenge(r)
		if !ok || answer.Header.Get("WebHook-Allowed-Origin") != "a.example.com" || answer.Header.Get("WebHook-Allowed-Rate") != want || answer.Header.Get("Allow") != "POST" {
			t.Errorf("%+v", answer)
		}
	}
	if _, ok := s.Challenge(&verify.Request{Method: http.MethodOptions, Header: http.Header{}}); ok {
		t.Error("a question without an origin is answered")
	}
}
