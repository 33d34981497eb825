package provider_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// of is a request of an agent that has proven itself.
func of(agent verify.Caller, body string, headers ...string) *verify.Request {
	r := request(body, headers...)
	r.Caller = agent
	return r
}

// Two agents speak of one entity, each under ids and on a version line of its own.
func TestAgentsAreApart(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "agent"})
	const body = `{"id":"1","type":"t","entity":"issue-7","version":7,"title":"T"}`
	event := func(name string, body string, headers ...string) *schemas.Event {
		e, err := s.Event(of(verify.Caller{Name: name}, body, headers...), received)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b := event("planner", body), event("coder", body)
	if a.ID != "planner/1" || b.ID != "coder/1" || a.Entity != b.Entity || a.Version.Clock != "agent:planner" || b.Version.Clock != "agent:coder" || a.Version.Value != 7 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if a.Sender != (schemas.Sender{ID: "planner", Kind: schemas.Automation}) || a.Payload != schemas.Delta {
		t.Errorf("%+v", a)
	}
	if e := event("planner", body, "Idempotency-Key: coder/1"); e.ID != "planner/coder%2F1" {
		t.Errorf("another agent's id: %s", e.ID)
	}
	if e := event("planner", body, "X-Agent-Call-Chain: human, coder", "X-Agent-Call-Depth: 3"); e.Chain.AgentsText() != "human, coder" || e.Chain.Depth != 3 {
		t.Errorf("the agents before it: %+v", e.Chain)
	}
	if e := event("planner", `{"id":"1","type":"t","entity":"e"}`); e.Version.Kind != schemas.None {
		t.Errorf("%+v", e.Version)
	}
	if e := event("planner", body, "X-Agent-Call-Chain: lead, planner", "X-Agent-Trace-Id: t1"); !slices.Equal(e.Chain.Agents, []string{"lead", "planner"}) || e.Chain.Depth != 2 || e.Chain.TraceID != "t1" {
		t.Errorf("the chain that led to it: %+v", e.Chain)
	}
	for name, c := range map[string]struct {
		r    *verify.Request
		want string
	}{
		"a depth that is no number":   {of(verify.Caller{Name: "a"}, body, "X-Agent-Call-Depth: deep"), "wrong_type"},
		"no type":                     {of(verify.Caller{Name: "a"}, `{"id":"1","entity":"e"}`), provider.MissingField},
		"no entity":                   {of(verify.Caller{Name: "a"}, `{"id":"1","type":"t"}`), provider.MissingField},
		"no id":                       {of(verify.Caller{Name: "a"}, `{"type":"t","entity":"e"}`), provider.MissingField},
		"nobody":                      {of(verify.Caller{}, body), provider.MissingField},
		"two ids in the header":       {of(verify.Caller{Name: "a"}, body, "Idempotency-Key: 1", "Idempotency-Key: 2"), provider.RepeatedHeader},
		"an id of 600":                {of(verify.Caller{Name: "a"}, body, "Idempotency-Key: "+strings.Repeat("x", 600)), provider.TooLong},
		"an id of 200 control bytes":  {of(verify.Caller{Name: "a"}, body, "Idempotency-Key: "+strings.Repeat("\x01", 200)), provider.TooLong},
		"a version that is no number": {of(verify.Caller{Name: "a"}, `{"id":"1","type":"t","entity":"e","version":"new"}`), provider.BadVersion},
		"a type with a control":       {of(verify.Caller{Name: "a"}, `{"id":"1","type":"t\u0000","entity":"e"}`), provider.ControlCharacter},
		"too deep":                    {of(verify.Caller{Name: "a"}, strings.Repeat(`{"a":`, 5000)), provider.TooDeep},
	} {
		_, err := s.Event(c.r, received)
		if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	_, err := s.Event(of(verify.Caller{Name: "a", Types: []string{"plan.*"}}, body), received)
	if _, ok := errors.AsType[*provider.Forbidden](err); !ok {
		t.Errorf("a type that the key is not for: %v", err)
	}
	if _, err := s.Event(of(verify.Caller{Name: "a", Types: []string{"plan.*"}}, strings.Replace(body, `"t"`, `"plan.made"`, 1)), received); err != nil {
		t.Error(err)
	}
}

// schema_version is a field like others: a schema of the source's own says which it takes, and what a body of each must have.
func TestAgentsSchemaVersion(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "agent", Schema: provider.SchemaConfig{Check: provider.SchemaQuarantine, Own: `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://acme.example/plan", "type": "object", "required": ["schema_version"],
		"oneOf": [
			{"properties": {"schema_version": {"const": 1}, "steps": {"type": "integer"}}, "required": ["steps"]},
			{"properties": {"schema_version": {"const": 2}, "steps": {"type": "array"}}, "required": ["steps"]}]}`}})
	for rest, fits := range map[string]bool{
		`"schema_version":1,"steps":3`: true, `"schema_version":2,"steps":["a"]`: true,
		`"schema_version":1,"steps":["a"]`: false, `"schema_version":2,"steps":3`: false, `"schema_version":3,"steps":3`: false, `"steps":3`: false,
	} {
		e, err := s.Event(of(verify.Caller{Name: "planner"}, `{"id":"1","type":"plan.made","entity":"e",`+rest+`}`), received)
		if err != nil {
			t.Fatal(err)
		}
		_, why, err := s.CheckSchema(e)
		if bad, ok := errors.AsType[*provider.Unusable](err); ok == fits || ok && bad.Reason != provider.SchemaMisfit || fits != (e.DataSchema != "") {
			t.Errorf("%s: %v %s", rest, err, why)
		}
	}
}

// at is a time as a version that sorts.
func at(t *testing.T, text string) string {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return schemas.Version{Kind: schemas.Timestamp, Value: when.UnixNano()}.Sortable()
}

func TestA2ATraps(t *testing.T) {
	t.Parallel()
	const id = `"taskId":"task-1","contextId":"c"`
	play(t, "a2a", "org.a2a-protocol.", []trap{
		{name: "a task that is done is news", body: `{"task":{"id":"task-1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-08-01T12:00:00Z"}}}`,
			typ: "task.completed", entity: "task-1", version: at(t, "2026-08-01T12:00:00Z"), clock: "task"},
		{name: "one that works is overtaken by a later one", body: `{"task":{"id":"task-1","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-08-01T12:00:00Z"}}}`,
			typ: "task.working", entity: "task-1", version: at(t, "2026-08-01T12:00:00Z"), clock: "task", snapshot: true},
		{name: "a change of status has no artifacts, so it makes no task stale", body: `{"statusUpdate":{` + id + `,"status":{"state":"TASK_STATE_AUTH_REQUIRED","timestamp":"2026-08-01T12:00:00.5Z"}}}`,
			typ: "status.auth-required", entity: "task-1", version: at(t, "2026-08-01T12:00:00.5Z"), clock: "status"},
		{name: "a status without a time", body: `{"statusUpdate":{` + id + `,"status":{"state":"TASK_STATE_FAILED"}}}`, typ: "status.failed", entity: "task-1"},
		{name: "an artifact", body: `{"artifactUpdate":{` + id + `,"artifact":{"artifactId":"a"},"append":true}}`, typ: "artifact", entity: "task-1"},
		{name: "a message of no task", body: `{"message":{"messageId":"m","contextId":"c"}}`, typ: "message", entity: "c"},
		{name: "what is to come", body: `{"taskDeleted":{"id":"task-1"}}`, typ: "notification", entity: "in"},
		{name: "a task without an id", body: `{"task":{"status":{"state":"TASK_STATE_WORKING"}}}`, refused: provider.MissingField},
		{name: "no JSON", body: `task`, refused: provider.NotJSON},
	})
}

// What stands around a message is its sender's; a message's attributes and the request's own headers take nothing of its place.
func TestPubSubEnvelopes(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "google-pubsub"})
	event := func(r *verify.Request) (*schemas.Event, error) {
		elements, err := s.Split(r)
		if err != nil {
			return nil, err
		}
		return s.Event(&elements[0], received)
	}
	envelope := func(data, more string) string {
		return fmt.Sprintf(`{"message":{"data":%q,"messageId":"7","publishTime":"2026-08-01T12:00:00.1Z"%s},"subscription":"s"}`, base64.StdEncoding.EncodeToString([]byte(data)), more)
	}
	for name, c := range map[string]struct {
		r                              *verify.Request
		id, typ, entity, content, data string
	}{
		"JSON":       {request(envelope(`{"a":1}`, "")), "s/7", "message", "s/7", "application/json", `{"a":1}`},
		"text":       {request(envelope("hello", "")), "s/7", "message", "s/7", "application/octet-stream", "hello"},
		"ordered":    {request(envelope("1", `,"orderingKey":"o/1"`)), "s/7", "message", "s/o%2F1", "application/json", "1"},
		"by type":    {request(envelope("", `,"attributes":{"eventType":"OBJECT_FINALIZE","objectId":"x"}`)), "s/7", "OBJECT_FINALIZE", "s/x", "application/octet-stream", ""},
		"CloudEvent": {request(envelope("1", `,"attributes":{"ce-type":"com.acme.paid"}`)), "s/7", "com.acme.paid", "s/7", "application/json", "1"},
		"attributes that look like its own": {request(envelope("1", `,"attributes":{"message-id":"8","Message-Id":"9","ordering-key":"evil","subscription-name":"t","publish-time":"2030-01-01T00:00:00Z"}`)),
			"s/7", "message", "s/7", "application/json", "1"},
		"headers beside an envelope": {request(envelope("1", ""), "X-Goog-Pubsub-Message-Id: 8", "X-Goog-Pubsub-Ordering-Key: evil"), "s/7", "message", "s/7", "application/json", "1"},
		"without an envelope":        {request(`{"a":1}`, "X-Goog-Pubsub-Message-Id: 8", "X-Goog-Pubsub-Subscription-Name: s", "X-Goog-Pubsub-Ordering-Key: o"), "s/8", "message", "s/o", "application/json", `{"a":1}`},
		"its attributes":             {request(`{"a":1}`, "X-Goog-Pubsub-Message-Id: 8", "X-Goog-Pubsub-Subscription-Name: s", "eventType: OBJECT_FINALIZE", "objectId: a.txt"), "s/8", "OBJECT_FINALIZE", "s/a.txt", "application/json", `{"a":1}`},
		"its type":                   {request(`{"a":1}`, "X-Goog-Pubsub-Message-Id: 8", "X-Goog-Pubsub-Subscription-Name: s", "ce-type: com.acme.paid"), "s/8", "com.acme.paid", "s/8", "application/json", `{"a":1}`},
	} {
		e, err := event(c.r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.ID != c.id || e.Type != "com.google.pubsub."+c.typ || string(e.Entity) != c.entity || e.DataContentType != c.content || string(e.Data) != c.data || e.Payload != schemas.Delta {
			t.Errorf("%s: %+v %s", name, e, e.Data)
		}
	}
	for name, body := range map[string]string{"no envelope": `{"a":1}`, "no JSON": "x", "no base64": `{"message":{"data":"%","messageId":"7"}}`, "too deep": strings.Repeat(`[`, 5000)} {
		if _, err := event(request(body)); err == nil {
			t.Errorf("%s is an event", name)
		} else if _, ok := errors.AsType[*provider.Unusable](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
