package provider_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestGitHubFields holds each body that octokit/webhooks has as an example against the name of every event: it fits its own, and of
// the others only those from which nothing sets it apart (SECURITY.md lists them).
func TestGitHubFields(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/github_fields.jsonl") // bodies without their values
	if err != nil {
		t.Fatal(err)
	}
	alike := map[string]bool{"repository": true, "watch": true, "branch_protection_configuration": true}
	cfg := provider.Config{Preset: "github", Event: &provider.EventConfig{Entity: []string{}, Version: &provider.VersionConfig{Kind: "none"}, Type: "header:X-GitHub-Event"}}
	s := compile(t, cfg)
	bodies := map[string][]json.RawMessage{}
	for line := range bytes.Lines(text) {
		var sample struct {
			Event string
			Body  json.RawMessage
		}
		if err := json.Unmarshal(line, &sample); err != nil {
			t.Fatal(err)
		}
		bodies[sample.Event] = append(bodies[sample.Event], sample.Body)
	}
	if len(bodies) < 60 {
		t.Fatalf("%d events", len(bodies))
	}
	fit := 0
	for event, list := range bodies {
		for name := range bodies {
			for _, body := range list {
				_, err := s.Event(request(string(body), "X-GitHub-Event: "+name), received)
				u, ok := errors.AsType[*provider.Unusable](err)
				switch {
				case err != nil && (!ok || u.Reason != provider.TypeMismatch):
					t.Errorf("%s %s: %v", event, body, err)
				case err == nil && event != name && !(alike[event] && alike[name]):
					t.Errorf("a body of %s passes for %s: %s", event, name, body)
				case err != nil && event == name:
					t.Errorf("a body of %s: %v: %s", event, err, body)
				case err == nil:
					fit++
				}
			}
		}
	}
	if fit < 200 {
		t.Errorf("%d bodies fit", fit)
	}
}

// TestOneKeyIsOneObject: objects of different kinds that have the same number have different keys. Where they shared one, an agent would
// see events of one as those of the other, and one that is parked would keep the other back.
func TestOneKeyIsOneObject(t *testing.T) {
	t.Parallel()
	const at = `"updated_at":"2019-05-15T15:20:18Z"`
	s := compile(t, provider.Config{Preset: "github"})
	keys := map[schemas.EntityKey]string{}
	for _, object := range []struct{ event, body string }{
		{"issues", `{"action":"opened","repository":{"id":7},"issue":{"number":12,` + at + `}}`},
		{"discussion", `{"action":"created","repository":{"id":7},"discussion":{"number":12,` + at + `}}`},
		{"release", `{"action":"deleted","repository":{"id":7},"release":{"id":12}}`},
		{"deployment", `{"action":"created","repository":{"id":7},"deployment":{"id":12,` + at + `}}`},
		{"workflow_run", `{"action":"completed","repository":{"id":7},"workflow_run":{"id":12,` + at + `}}`},
		{"projects_v2_item", `{"action":"deleted","organization":{"id":7},"projects_v2_item":{"id":12,` + at + `}}`},
		{"code_scanning_alert", `{"action":"created","repository":{"id":7},"alert":{"number":12,"rule":{}}}`},
		{"dependabot_alert", `{"action":"created","repository":{"id":7},"alert":{"number":12,"dependency":{}}}`},
		{"secret_scanning_alert", `{"action":"created","repository":{"id":7},"alert":{"number":12,"secret_type":"x"}}`},
		{"star", `{"action":"created","starred_at":"x","repository":{"id":7}}`},
		{"membership", `{"action":"added","scope":"team","member":{},"organization":{"id":7}}`},
		{"installation", `{"action":"deleted","installation":{"id":7,"account":{},` + at + `}}`},
	} {
		e, err := s.Event(request(object.body, "X-GitHub-Event: "+object.event), received)
		if err != nil {
			t.Fatalf("%s: %v", object.event, err)
		}
		if other, taken := keys[e.Entity]; taken {
			t.Errorf("%s and %s have the key %s", other, object.event, e.Entity)
		}
		keys[e.Entity] = object.event
	}
}

// TestOneBodyIsOneEvent: nothing that GitHub does not sign makes another event of a signed body.
func TestOneBodyIsOneEvent(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "github"})
	const body = `{"action":"opened","repository":{"id":7},"issue":{"number":2,"updated_at":"2019-05-15T15:20:18Z"}}`
	keys := map[schemas.EventKey]bool{}
	for _, id := range []string{"1", "2", strings.Repeat("x", 5000), "a\tb", "\xff", ""} {
		r := request(body, "X-GitHub-Event: issues")
		if id != "" {
			r.Header.Set("X-GitHub-Delivery", id)
		}
		e, err := s.Event(r, received)
		if err != nil {
			t.Fatalf("%q: %v", id, err) // the id is not signed: it makes nothing unusable
		}
		if usable := id == "1" || id == "2"; usable != (e.DeliveryID == id && id != "") || !usable && e.DeliveryID != "" {
			t.Errorf("delivery id %q of %q", e.DeliveryID, id)
		}
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		keys[e.Key()] = true
	}
	e, err := s.Event(request(body, "X-GitHub-Event: issues", "X-GitHub-Delivery: 1", "X-GitHub-Delivery: 2"), received)
	if err != nil || e.DeliveryID != "" {
		t.Errorf("two delivery ids: %+v %v", e, err)
	}
	keys[e.Key()] = true
	if len(keys) != 1 {
		t.Errorf("%d events", len(keys))
	}
}

// TestDeliveryID: a source of one's own has the body as id, and the sender's id beside it.
func TestDeliveryID(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event.ID, cfg.Event.DeliveryID = "sha256:body", "header:X-Event-Id"
	s := compile(t, cfg)
	const body = `{"type":"t","order":{"id":1,"rev":1}}`
	a, errA := s.Event(request(body, "X-Event-Id: 1"), received)
	b, errB := s.Event(request(body, "X-Event-Id: 2"), received)
	if errA != nil || errB != nil || a.ID != b.ID || a.DeliveryID != "1" || b.DeliveryID != "2" {
		t.Errorf("%+v %v, %+v %v", a, errA, b, errB)
	}
}

// TestUnsigned: what can be changed on a captured delivery is said of the file's key, and nothing else is.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	id := func(from string) *provider.EventConfig {
		return &provider.EventConfig{ID: from, Type: "/type", Entity: []string{"/e"}}
	}
	hmac := func(p verify.Params) *verify.Params { p.SignatureHeader = "X-Signature"; return &p }
	for _, tt := range []struct {
		name   string
		config provider.Config
		want   []string
	}{
		{"in the body", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("/id")}, nil},
		{"the body", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("sha256:body")}, nil},
		{"a form's field", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("form:Sid")}, nil},
		{"a header", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("header:x-id")}, []string{"event.id"}},
		{"a signed header", provider.Config{Preset: "generic", Verify: hmac(verify.Params{IDHeader: "X-ID", Signed: "{id}.{body}"}), Event: id("header:x-id")}, nil},
		{"another header than the signed", provider.Config{Preset: "generic", Verify: hmac(verify.Params{IDHeader: "X-ID", Signed: "{id}.{body}"}), Event: id("header:X-Other")}, []string{"event.id"}},
		{"an expression over headers", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("cel:header['x-id']")}, []string{"event.id"}},
		{"an expression over the body", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: id("cel:body.id")}, nil},
		{"the type", provider.Config{Preset: "generic", Verify: hmac(verify.Params{}), Event: &provider.EventConfig{ID: "/id", Type: "header:X-Type", Entity: []string{"/e"}}}, []string{"event.type"}},
		{"a token signs nothing", provider.Config{Preset: "generic", Verify: &verify.Params{Scheme: "token", Header: "X-Token"}, Event: id("header:X-ID")}, nil},
		{"github", provider.Config{Preset: "github"}, nil},
		{"github as it was", provider.Config{Preset: "github", Event: &provider.EventConfig{ID: "header:X-GitHub-Delivery"}}, []string{"event.id"}},
		{"github, a type of one's own", provider.Config{Preset: "github", Event: &provider.EventConfig{Type: "header:X-GitHub-Event"}}, []string{"event.type"}},
		{"standard webhooks", provider.Config{Preset: "standard-webhooks"}, nil},
		{"standard webhooks, verified otherwise", provider.Config{Preset: "standard-webhooks", Verify: &verify.Params{Scheme: "hmac", SignatureHeader: "X-Signature"}}, []string{"event.id"}},
		{"stripe", provider.Config{Preset: "stripe"}, nil},
		{"slack", provider.Config{Preset: "slack"}, nil},
	} {
		var got []string
		for _, e := range tt.config.Unsigned() {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFieldsTellBodiesApart holds each real body of the vectors against the name of every event of its provider, where that is in a header: it
// fits its own, and of the others only those that SECURITY.md says are not told apart.
func TestFieldsTellBodiesApart(t *testing.T) {
	t.Parallel()
	alike := []string{"pullrequest:created pullrequest:updated pullrequest:fulfilled pullrequest:rejected", "pullrequest:approved pullrequest:unapproved",
		"pullrequest:comment_created pullrequest:comment_updated pullrequest:comment_deleted pullrequest:comment_resolved pullrequest:comment_reopened",
		"repo:commit_status_created repo:commit_status_updated", "pull_request_approved pull_request_rejected pull_request_comment",
		"pull_request pull_request_comment", "issue_comment pull_request_comment", "issues pull_request_comment"}
	fit := 0
	for _, p := range payloads(t) {
		names, header := provider.EventNames(p.Provider)
		event := p.Headers[header]
		if header == "" || p.Provider == "github" { // which has a test of its own
			continue
		}
		body, err := os.ReadFile(vectors + "/" + p.File)
		if err != nil {
			t.Fatal(err)
		}
		s := compile(t, provider.Config{Preset: p.Provider, Event: &provider.EventConfig{Entity: []string{}, Version: &provider.VersionConfig{Kind: "none"}}})
		for _, name := range names {
			_, err := s.Event(request(string(body), header+": "+name), received)
			same := name == event || slices.ContainsFunc(alike, func(group string) bool {
				of := strings.Fields(group)
				return slices.Contains(of, name) && slices.Contains(of, event)
			})
			bad, ok := errors.AsType[*provider.Unusable](err)
			switch {
			case name == event && err != nil:
				t.Errorf("%s is no %s: %v", p.File, name, err)
			case !same && (!ok || bad.Reason != provider.TypeMismatch):
				t.Errorf("%s passes for %s: %v", p.File, name, err)
			case err == nil:
				fit++
			}
		}
	}
	if fit < 15 {
		t.Errorf("%d bodies fit", fit)
	}
}

// TestNoPresetTrustsAHeader: no preset reads an id or a type from what its signature does not cover.
func TestNoPresetTrustsAHeader(t *testing.T) {
	t.Parallel()
	for _, info := range provider.Presets() {
		if found := (provider.Config{Preset: info.Name}).Unsigned(); len(found) != 0 {
			t.Errorf("%s: %v", info.Name, found)
		}
	}
}

// TestTheSameBodyAgain: somebody is added, removed and added again, and the first and the third body are the same byte for byte. They are one event,
// since nothing else is signed; with what the preset's list says to do they are two, and a delivery that is sent again under its id is still one.
func TestTheSameBodyAgain(t *testing.T) {
	t.Parallel()
	info, _ := provider.Lookup("github")
	i := slices.IndexFunc(info.Repeats, func(r provider.Repeat) bool { return r.Event == "membership" })
	if i < 0 || !strings.Contains(info.Repeats[i].Do, "event.id: header:X-GitHub-Delivery") {
		t.Fatalf("the list says of it: %+v", info.Repeats)
	}
	membership := func(action string) string {
		return `{"action":"` + action + `","scope":"team","member":{"login":"bob","id":2},"sender":{"login":"ann","id":1},"team":{"id":3,"slug":"admins"},"organization":{"id":5}}`
	}
	ids := func(cfg provider.Config) (distinct map[string]bool) {
		t.Helper()
		s := compile(t, cfg)
		distinct = map[string]bool{}
		for _, d := range [][2]string{{"added", "g1"}, {"removed", "g2"}, {"added", "g3"}, {"added", "g3"}} {
			e, err := s.Event(request(membership(d[0]), "X-GitHub-Event: membership", "X-GitHub-Delivery: "+d[1]), received)
			if err != nil {
				t.Fatal(err)
			}
			distinct[e.ID] = true
		}
		return distinct
	}
	if got := ids(provider.Config{Preset: "github"}); len(got) != 2 {
		t.Errorf("as it is: %v", got)
	}
	if got := ids(provider.Config{Preset: "github", Event: &provider.EventConfig{ID: "header:X-GitHub-Delivery"}}); len(got) != 3 {
		t.Errorf("with what the list says: %v", got)
	}
}
