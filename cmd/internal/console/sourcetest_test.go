package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
)

// TestSendATest: what a test would do is said before it is sent, who would act on it included; it is sent with a reason, to these alone, and with the
// ids that were made up for it: a form that is sent twice sends one delivery twice.
func TestSendATest(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.sources[0].Preset = "github"
	h := f.handler(t, nil)
	to := get(t, h, sourceURL).link("Send a test…")
	s := get(t, h, to)
	s.says("p", "Samples:", "github/issues.labeled")
	get(t, h, s.link("github/issues.labeled")).says("textarea", "X-GitHub-Event: issues")
	typed := url.Values{"body": {`{"id": 90}`}, "headers": {"X-Kind: a: b\n\n"}}
	s = post(t, h, to, typed)
	s.says("div", "Type", "order.changed")
	s.says("div", "Read by", "acme.fulfil, team pay")
	s.says("p", "these act on it as on any other", "Nothing was sent yet.")
	if len(f.tests) != 0 {
		t.Fatal("it was sent at once")
	}
	sent := url.Values{"reason": {"a new secret"}, "by": {"ada"}}
	for _, n := range s.all("input") {
		if attr(n, "type") == "hidden" {
			sent.Set(attr(n, "name"), attr(n, "value"))
		}
	}
	s = post(t, h, to, sent)
	s.says("p", "The intake has answered 202: event e-90.")
	if got := s.link("What its subscriptions do with it"); got != "/console/inbox?source=orders&team=acme&type=order.changed" {
		t.Errorf("the event is at %s", got)
	}
	want := []api.SourceTest{{Body: `{"id": 90}`, Headers: map[string]string{"X-Kind": "a: b", "X-Event-Id": "e-90"}, To: []string{"acme.fulfil", "team pay"}, Reason: "a new secret", By: "ada"}}
	if diff := cmp.Diff(want, f.tests); diff != "" {
		t.Error(diff)
	}
	sent.Set("to", "acme.fulfil")
	if s := post(t, h, to, sent); s.status != http.StatusConflict || len(f.tests) != 1 {
		t.Errorf("to others than who reads it: %d", s.status)
	} else {
		s.says("p", "nothing was sent: the event goes to acme.fulfil, team pay, and not to acme.fulfil")
	}
	sent.Set("to", "acme.fulfil, team pay")
	sent.Del("reason")
	if s := post(t, h, to, sent); s.status != http.StatusBadRequest || len(f.tests) != 1 {
		t.Errorf("without a reason: %d", s.status)
	}
	if s := post(t, h, to, url.Values{"body": {"{}"}, "headers": {"no header"}}); s.status != http.StatusBadRequest {
		t.Errorf("no header: %d", s.status)
	}
	f.tested = api.SourceTested{Result: delivery.Quarantined, Why: "no /type"}
	post(t, h, to, typed).says("p", "it goes to quarantine", "no /type", "Nothing was sent yet.")
	if s := get(t, h, to+"?sample=stripe/x"); s.status != http.StatusNotFound {
		t.Errorf("another preset's sample: %d", s.status)
	}
	none := f.handler(t, func(c *api.Config) { c.SourceTests = nil })
	if s := get(t, none, to); s.status != http.StatusConflict {
		t.Errorf("without the intake role: %d", s.status)
	}
}

// TestATestFromABrowser: browsers end each line of what is typed, and of hidden fields, with CR and LF; what is sent has the lines as they were typed.
func TestATestFromABrowser(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	form := url.Values{"body": {"{\r\n  \"id\": 90\r\n}"}, "headers": {"X-Kind: a\r\nX-More: b\r\n"}}
	s := post(t, h, sourceURL+"/test", form)
	if strings.Contains(s.source, `\u000d`) {
		t.Error("the page writes out ends of lines")
	}
	form = values(s)
	for name := range form {
		form.Set(name, strings.ReplaceAll(form.Get(name), "\n", "\r\n"))
	}
	form.Set("reason", "a new secret")
	post(t, h, sourceURL+"/test", form).says("p", "The intake has answered 202")
	want := []api.SourceTest{{Body: "{\n  \"id\": 90\n}", Headers: map[string]string{"X-Kind": "a", "X-More": "b", "X-Event-Id": "e-90"}, To: []string{"acme.fulfil", "team pay"}, Reason: "a new secret", By: "console"}}
	if diff := cmp.Diff(want, f.tests); diff != "" {
		t.Error(diff)
	}
}

// TestWhoMaySendATest: who sees to sources may send what nobody acts on, and looks at the rest.
func TestWhoMaySendATest(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	v := g.as("ann")
	v.get(sourceURL).link("Send a test…")
	form := url.Values{"body": {"{}"}, formField: {v.field("/console/health")}}
	s := v.post(sourceURL+"/test", form)
	s.says("p", "needs the role operator or admin")
	if strings.Contains(text(s.root), "Send the test") {
		t.Error("a responder is offered to have an agent act")
	}
	g.tested.To = []string{}
	v.post(sourceURL+"/test", form).says("button", "Send the test")
	if strings.Contains(text(g.as("viv").get(sourceURL).root), "Send a test…") {
		t.Error("a viewer is offered a test")
	}
}
