package provider_test

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// TestPeople: who made it happen, and what the entity is called. Neither keeps an event back, whatever stands there.
func TestPeople(t *testing.T) {
	t.Parallel()
	source := compile(t, provider.Config{Team: "acme", Name: "github", Preset: "github"})
	person := schemas.Sender{ID: "21031067", Login: "codertocat", Kind: schemas.Human}
	for _, c := range []struct {
		name, sender, title string
		want                schemas.Sender
		called              string
	}{
		{"person", `{"id":21031067,"login":"codertocat","type":"User"}`, `"It fails"`, person, "It fails"},
		{"a name that looks like a program's", `{"id":5,"login":"mallory[bot]","type":"User"}`, `"x"`, schemas.Sender{ID: "5", Login: "mallory[bot]", Kind: schemas.Human}, "x"},
		{"program", `{"id":6,"login":"renovate","type":"Bot"}`, `null`, schemas.Sender{ID: "6", Login: "renovate", Kind: schemas.Automation}, ""},
		{"nobody", `null`, `"x"`, schemas.Sender{}, "x"},
		{"of another type", `{"id":{"a":1},"login":["x"],"type":"Bot"}`, `{"a":1}`, schemas.Sender{Kind: schemas.Automation}, ""},
		{"no text", `{"id":1,"login":"\ud800"}`, `"\ud800"`, schemas.Sender{ID: "1", Kind: schemas.Human}, ""},
		{"control characters", `{"id":"a\u0000b","login":"x\ny"}`, `"a\nb"`, schemas.Sender{}, ""},
		{"twice", `{"id":1,"id":2}`, `"x"`, schemas.Sender{ID: "2", Kind: schemas.Human}, "x"},
		{"long", `{"id":1}`, `"` + strings.Repeat("é", 150) + `"`, schemas.Sender{ID: "1", Kind: schemas.Human}, strings.Repeat("é", 100) + "..."},
	} {
		body := `{"action":"opened","issue":{"number":1,"updated_at":"2026-01-01T00:00:00Z","title":` + c.title + `},"repository":{"id":9},"sender":` + c.sender + `}`
		e, err := source.Event(request(body, "X-GitHub-Event: issues"), received)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if e.Sender != c.want || e.Title != c.called {
			t.Errorf("%s: %+v %q, want %+v %q", c.name, e.Sender, e.Title, c.want, c.called)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPeopleOfSlack: a program's message has its bot's id, whoever it is shown as.
func TestPeopleOfSlack(t *testing.T) {
	t.Parallel()
	source := compile(t, provider.Config{Preset: "slack"})
	for _, c := range []struct {
		body string
		want schemas.Sender
	}{
		{`"user":"U1"`, schemas.Sender{ID: "U1", Kind: schemas.Human}},
		{`"user":"U1","bot_id":"B7"`, schemas.Sender{ID: "B7", Kind: schemas.Automation}},
		{`"user":{"id":"U2"}`, schemas.Sender{ID: "U2", Kind: schemas.Human}},
		{`"message":{"user":"U3","ts":"1.2"},"subtype":"message_changed"`, schemas.Sender{ID: "U3", Kind: schemas.Human}},
		{`"x":1`, schemas.Sender{}},
	} {
		e, err := source.Event(request(`{"type":"event_callback","team_id":"T","event_id":"E","event":{"type":"message","channel":"C","ts":"1.2",`+c.body+`}}`), received)
		if err != nil || e.Sender != c.want {
			t.Errorf("%s: %v, %v, want %+v", c.body, e, err, c.want)
		}
	}
}
