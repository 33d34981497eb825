package httpsink

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestBodyByTemplate(t *testing.T) {
	t.Parallel()
	key := schemas.NewSecret("whsec_" + strings.Repeat("A", 32))
	signing, err := signingKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		params     map[string]any
		body, kind string
	}{
		{nil, `{"order":7,"rev":1}`, "application/json"},
		{map[string]any{"body": "{{null}}"}, `{"order":7,"rev":1}`, "application/json"},
		{map[string]any{"content_type": "application/vnd.x+json"}, `{"order":7,"rev":1}`, "application/vnd.x+json"},
		{map[string]any{"body": map[string]any{"n": "{{body.order}}", "t": "order {{body.order}}", "id": "{{event.id}}"}}, `{"id":"delivery-1","n":7,"t":"order 7"}`, "application/json"},
		{map[string]any{"body": "order {{body.order}}"}, "order 7", "text/plain; charset=utf-8"},
		{map[string]any{"body": "<o>{{body.order}}</o>", "content_type": "application/xml"}, "<o>7</o>", "application/xml"},
		{map[string]any{"body": ""}, "", "text/plain; charset=utf-8"},
	} {
		set, err := template.NewSet(Params(), tt.params, nil)
		if err != nil {
			t.Fatal(err)
		}
		header, body := receive(t, Config{Common: spec.Common{Params: set}, Secret: key}, sinktest.Action(1))
		if string(body) != tt.body || header.Get("Content-Type") != tt.kind {
			t.Errorf("%v: %s of type %s, want %s of type %s", tt.params, body, header.Get("Content-Type"), tt.body, tt.kind)
		}
		if want := sign(signing, header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), body); header.Get("Webhook-Signature") != want {
			t.Errorf("%v: what is signed is not what is sent", tt.params)
		}
		if header.Get("Ce-Id") != "delivery-1" {
			t.Errorf("%v: the event's attributes are gone", tt.params)
		}
	}
}

func TestBodyThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for _, params := range []map[string]any{{"body": "{{body.nope}}"}, {"content_type": "{{'a\\nb'}}"}} {
		set, err := template.NewSet(Params(), params, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := must(t, Config{URL: "https://agents.example", Common: spec.Common{Params: set}})
		if _, err := s.Do(t.Context(), sinktest.Action(1)); sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) {
			t.Errorf("%v: %v", params, err)
		}
	}
	if _, err := template.NewSet(Params(), map[string]any{"content_type": "a\nb"}, nil); err == nil {
		t.Error("a content type of two lines was taken")
	}
}
