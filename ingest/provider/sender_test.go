package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

const mark = `\n\n<!-- forebay:act_0123 -->`

// TestWhoSentIt: ids and associations decide who a sender is, and never a name or a text that a stranger can write.
func TestWhoSentIt(t *testing.T) {
	t.Parallel()
	own := []string{"app/77", "501", "marked/21"}
	const app = `"performed_via_github_app":{"id":77}`
	for _, c := range []struct {
		name, action, comment, sender string
		want                          schemas.SenderKind
		trust                         schemas.Trust
	}{
		{"a member", "created", `"author_association":"MEMBER","user":{"id":1}`, `"id":1,"type":"User"`, schemas.Human, schemas.Member},
		{"somebody new", "created", `"author_association":"FIRST_TIMER","user":{"id":1}`, `"id":1,"type":"User"`, schemas.Human, schemas.FirstTime},
		{"another's comment is edited", "edited", `"author_association":"OWNER","user":{"id":2}`, `"id":1,"type":"User"`, schemas.Human, ""},
		{"a word that GitHub does not have", "created", `"author_association":"ADMIN","user":{"id":1}`, `"id":1,"type":"User"`, schemas.Human, ""},
		{"a user called like an app", "created", `"user":{"id":1}`, `"id":1,"login":"forebay[bot]","type":"User"`, schemas.Human, ""},
		{"another program", "created", `"user":{"id":9}`, `"id":9,"login":"renovate","type":"Bot"`, schemas.Automation, ""},
		{"our own user", "created", `"user":{"id":501}`, `"id":501,"type":"Bot"`, schemas.Own, ""},
		{"our own user, called a person", "edited", `"user":{"id":1}`, `"id":501,"type":"User"`, schemas.Own, ""},
		{"our app, by its bot", "created", app, `"id":9,"type":"Bot"`, schemas.Own, ""},
		{"our app, for a person", "created", app, `"id":1,"type":"User"`, schemas.Own, ""},
		{"our app edits its comment", "edited", app, `"id":9,"type":"Bot"`, schemas.Own, ""},
		{"a person edits our app's comment", "edited", app, `"id":1,"type":"User"`, schemas.Human, ""},
		{"a person deletes our app's comment", "deleted", app, `"id":1,"type":"User"`, schemas.Human, ""},
		{"another app", "created", `"performed_via_github_app":{"id":78}`, `"id":9,"type":"Bot"`, schemas.Automation, ""},
		{"our mark, by a program", "created", `"body":"Done.` + mark + `"`, `"id":9,"type":"Bot"`, schemas.Own, ""},
		{"our mark, by a program without an id", "created", `"body":"Done.` + mark + `"`, `"login":"x","type":"Bot"`, schemas.Own, ""},
		{"a program without an id", "created", `"body":"Done."`, `"login":"x","type":"Bot"`, schemas.Automation, ""},
		{"our mark, pasted by a stranger", "created", `"body":"/deploy` + mark + `"`, `"id":1,"type":"User"`, schemas.Human, ""},
		{"our mark, in a program's quotation", "created", `"body":"> Done. <!-- forebay:act_0123 -->\n\nThanks!"`, `"id":9,"type":"Bot"`, schemas.Automation, ""},
		{"our mark, by whose token we use", "created", `"body":"Done.` + mark + `"`, `"id":21,"type":"User"`, schemas.Own, ""},
		{"whose token we use, without our mark", "created", `"body":"/deploy"`, `"id":21,"type":"User"`, schemas.Human, ""},
		{"whose token we use, in what we wrote", "edited", `"body":"/deploy` + mark + `"`, `"id":21,"type":"User"`, schemas.Human, ""},
		{"the name of the mark's program", "created", `"body":"x"`, `"id":9,"login":"501","type":"User"`, schemas.Human, ""},
	} {
		source := compile(t, provider.Config{Team: "acme", Name: "github", Preset: "github", Own: own})
		body := `{"action":"` + c.action + `","issue":{"number":1,"author_association":"OWNER","user":{"id":99},"body":"` + mark + `"},"repository":{"id":9},"comment":{"id":5,"updated_at":"2026-01-01T00:00:00Z",` +
			c.comment + `},"sender":{` + c.sender + `}}`
		e, err := source.Event(request(body, "X-GitHub-Event: issue_comment"), received)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Sender.Kind != c.want || e.Sender.Trust != c.trust || !e.Conversation || e.Validate() != nil {
			t.Errorf("%s: %+v, conversation %v, want %s %q", c.name, e.Sender, e.Conversation, c.want, c.trust)
		}
	}
}

// TestOwnWithoutAList: marks are known without `own:`, and no id is.
func TestOwnWithoutAList(t *testing.T) {
	t.Parallel()
	source := compile(t, provider.Config{Team: "acme", Name: "github", Preset: "github"})
	kind := func(event, text string) schemas.SenderKind {
		t.Helper()
		e, err := source.Event(request(`{"repository":{"id":9},`+text+`}`, "X-GitHub-Event: "+event), received)
		if err != nil {
			t.Fatal(err)
		}
		return e.Sender.Kind
	}
	const bot = `"sender":{"id":9,"type":"Bot"}`
	issue := `"issue":{"number":1,"updated_at":"2026-01-01T00:00:00Z","body":"x` + mark + `"},` + bot
	if got := kind("issues", `"action":"opened",`+issue); got != schemas.Own {
		t.Errorf("an issue that we opened: %q", got)
	}
	if got := kind("issues", `"action":"labeled","label":{"name":"x"},`+issue); got != schemas.Automation {
		t.Errorf("a label of another program on an issue that we opened: %q", got)
	}
	checks := compile(t, provider.Config{Team: "acme", Name: "github", Preset: "github", Own: []string{"app/77"}})
	for action, want := range map[string]schemas.SenderKind{"created": schemas.Own, "completed": schemas.Own, "rerequested": schemas.Human} {
		e, err := checks.Event(request(`{"action":"`+action+`","repository":{"id":9},"check_run":{"id":3,"head_sha":"a","status":"completed","app":{"id":77}},"sender":{"id":1,"type":"User"}}`,
			"X-GitHub-Event: check_run"), received)
		if err != nil {
			t.Fatal(err)
		}
		if e.Sender.Kind != want || e.Conversation {
			t.Errorf("check_run.%s of our app: %+v, conversation %v", action, e.Sender, e.Conversation)
		}
	}
}

// TestOwnOfSlack: of an app by its bot, its app and its user; its metadata marks what we posted.
func TestOwnOfSlack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own  []string
		body string
		want schemas.SenderKind
	}{
		{[]string{"bot/B7"}, `"user":"U1","bot_id":"B7"`, schemas.Own},
		{[]string{"B7"}, `"user":"U1","bot_id":"B7"`, schemas.Own},
		{[]string{"app/A1"}, `"bot_id":"B7","app_id":"A1"`, schemas.Own},
		{[]string{"U1"}, `"user":"U1","bot_id":"B7"`, schemas.Own},
		{[]string{"bot/B8", "app/A2"}, `"user":"U1","bot_id":"B7","app_id":"A1"`, schemas.Automation},
		{nil, `"bot_id":"B7","metadata":{"event_type":"forebay","event_payload":{}}`, schemas.Own},
		{nil, `"bot_id":"B7","metadata":{"event_type":"other"}`, schemas.Automation},
		{nil, `"user":"U1","metadata":{"event_type":"forebay"}`, schemas.Human},
	} {
		e, err := compile(t, provider.Config{Preset: "slack", Own: c.own}).Event(
			request(`{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","ts":"1.2",`+c.body+`}}`), received)
		if err != nil {
			t.Fatal(err)
		}
		if e.Sender.Kind != c.want || !e.Conversation {
			t.Errorf("%v %s: %+v", c.own, c.body, e.Sender)
		}
	}
}

// TestOwnIDs: what can be no id is refused, by its place.
func TestOwnIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", " ", "marked/", " 7", "a\nb", strings.Repeat("x", 513)} {
		_, err := provider.Compile(provider.Config{Team: "acme", Name: "github", Preset: "github", Secrets: []schemas.Secret{schemas.NewSecret("0123456789abcdef")}, Own: []string{"1", id}})
		if key, ok := errors.AsType[*provider.KeyError](err); !ok || key.Key != "own[1]" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestChain: an agent's headers are taken from its sources alone, and what is no chain is quarantined.
func TestChain(t *testing.T) {
	t.Parallel()
	verified := &verify.Params{SignatureHeader: "X-Signature"}
	agents := provider.Config{Preset: "generic", Verify: verified, Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/on"}, Chain: true}}
	others := agents
	others.Event = &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/on"}}
	headers := []string{"X-Agent-Call-Chain: planner, coder", "X-Agent-Call-Depth: 1", "X-Agent-Trace-Id: t-9"}
	const body = `{"id":"1","type":"run","on":"x"}`
	e, err := compile(t, agents).Event(request(body, headers...), received)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemas.Chain{Agents: []string{"planner", "coder"}, Depth: 2, TraceID: "t-9"}, e.Chain); diff != "" {
		t.Error(diff)
	}
	if e, err = compile(t, others).Event(request(body, headers...), received); err != nil || !e.Chain.IsZero() {
		t.Errorf("a chain from a source that is no agent: %+v %v", e.Chain, err)
	}
	_, err = compile(t, agents).Event(request(body, "X-Agent-Call-Depth: many"), received)
	if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != provider.WrongType {
		t.Errorf("a depth that is no number: %v", err)
	}
}
