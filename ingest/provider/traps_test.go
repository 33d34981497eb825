package provider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// trap is a delivery of a preset in which a reader goes wrong easily, and what its event must be.
type trap struct {
	name, body string
	headers    []string
	typ        string // without the preset's prefix
	entity     string // the key
	// version is the text that sorts; empty: none. clock is its line.
	version, clock string
	snapshot, gone bool
	// refused is the reason of a delivery that makes no event.
	refused string
}

// play runs the traps of a preset.
func play(t *testing.T, preset, prefix string, traps []trap) {
	t.Helper()
	s := compile(t, provider.Config{Preset: preset})
	for _, trap := range traps {
		e, err := s.Event(request(trap.body, trap.headers...), received)
		if trap.refused != "" {
			if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != trap.refused {
				t.Errorf("%s: %v, want %s", trap.name, err, trap.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", trap.name, err)
			continue
		}
		version := ""
		if e.Version.Kind != schemas.None {
			version = e.Version.Sortable()
		}
		if e.Type != prefix+trap.typ || string(e.Entity) != trap.entity {
			t.Errorf("%s: %s of %s", trap.name, e.Type, e.Entity)
		}
		if version != trap.version || e.Version.Clock != trap.clock {
			t.Errorf("%s: version %s of clock %q", trap.name, version, e.Version.Clock)
		}
		if (e.Payload == schemas.Snapshot) != trap.snapshot || e.Deleted != trap.gone {
			t.Errorf("%s: %s, deleted: %t", trap.name, e.Payload, e.Deleted)
		}
	}
}

// order compares the versions of deliveries of one entity: each must be newer than the one before, or the same where same says so.
func order(t *testing.T, preset string, same bool, bodies ...string) {
	t.Helper()
	s := compile(t, provider.Config{Preset: preset})
	var last *schemas.Event
	for _, body := range bodies {
		e, err := s.Event(request(body), received)
		if err != nil {
			t.Fatal(body, err)
		}
		if last != nil {
			got := e.Version.Compare(last.Version)
			if e.Entity != last.Entity || e.Version.Clock != last.Version.Clock || same && got != 0 || !same && got <= 0 {
				t.Errorf("%s of %s (%s) after %s of %s (%s)", e.Version.Sortable(), e.Entity, e.Version.Clock, last.Version.Sortable(), last.Entity, last.Version.Clock)
			}
		}
		last = e
	}
}

func TestGitLabTraps(t *testing.T) {
	t.Parallel()
	const project, zeros = `"project":{"id":7}`, "0000000000000000000000000000000000000000"
	play(t, "gitlab", "com.gitlab.", []trap{
		{name: "an issue has another number space than a merge request", body: `{"object_kind":"issue",` + project + `,"object_attributes":{"iid":3,"action":"update","updated_at":"2013-12-03T17:15:43Z"}}`,
			typ: "issue", entity: "7/issue:3", version: "2013-12-03T17:15:43.000000000Z", clock: "issue"},
		{name: "merge request", body: `{"object_kind":"merge_request",` + project + `,"object_attributes":{"iid":3,"updated_at":"2015-05-17 18:21:36 UTC"}}`,
			typ: "merge_request", entity: "7/3", version: "2015-05-17T18:21:36.000000000Z", clock: "merge_request"},
		{name: "a task has an issue's number", body: `{"object_kind":"work_item",` + project + `,"object_attributes":{"iid":4,"updated_at":"2013-12-03T17:15:43Z"}}`,
			typ: "work_item", entity: "7/issue:4", version: "2013-12-03T17:15:43.000000000Z", clock: "issue"},
		{name: "a note belongs to what it is on", body: `{"object_kind":"note",` + project + `,"object_attributes":{"id":12,"noteable_id":92,"updated_at":"2015-05-17 17:06:40 UTC"},"issue":{"iid":3,"updated_at":"2016-01-04T15:31:46.176Z"}}`,
			typ: "note", entity: "7/issue:3", version: "2015-05-17T17:06:40.000000000Z", clock: "note:12"},
		{name: "note on a merge request", body: `{"object_kind":"note",` + project + `,"object_attributes":{"id":13,"updated_at":"2015-05-17 17:06:40 UTC"},"merge_request":{"iid":3},"issue":null}`,
			typ: "note", entity: "7/3", version: "2015-05-17T17:06:40.000000000Z", clock: "note:13"},
		{name: "note on a commit", body: `{"object_kind":"note",` + project + `,"object_attributes":{"id":14,"updated_at":"2015-05-17 17:06:40 UTC"},"commit":{"id":"cfe3"}}`,
			typ: "note", entity: "7/commit:cfe3", version: "2015-05-17T17:06:40.000000000Z", clock: "note:14"},
		{name: "note on what is new to us", body: `{"object_kind":"note",` + project + `,"object_attributes":{"id":15,"noteable_id":92,"updated_at":"2015-05-17 17:06:40 UTC"}}`,
			typ: "note", entity: "7/note:92", version: "2015-05-17T17:06:40.000000000Z", clock: "note:15"},
		{name: "a branch is deleted", body: `{"object_kind":"push","event_name":"push","before":"ab","after":"` + zeros + `","project_id":7,"ref":"refs/heads/x"}`,
			typ: "push", entity: "7/refs%2Fheads%2Fx", gone: true},
		{name: "a branch is made", body: `{"object_kind":"push","before":"` + zeros + `","after":"ab","project_id":7,"ref":"refs/heads/x"}`,
			typ: "push", entity: "7/refs%2Fheads%2Fx"},
		{name: "a tag is deleted", body: `{"object_kind":"tag_push","before":"ab","after":"` + zeros + `","project_id":7,"ref":"refs/tags/x"}`,
			typ: "tag_push", entity: "7/refs%2Ftags%2Fx", gone: true},
		{name: "release", body: `{"object_kind":"release","action":"delete","tag":"v1",` + project + `}`, typ: "release", entity: "7/release:v1", gone: true},
		{name: "an event of a group", body: `{"event_name":"user_remove_from_group","group_id":7,"updated_at":"2020-12-11T04:57:22Z"}`, typ: "user_remove_from_group", entity: "group:7"},
		{name: "a system hook about nobody's project", body: `{"event_name":"user_create","user_id":7}`, typ: "user_create", entity: "in"},
		{name: "no kind", body: `{"project_id":7}`, headers: []string{"X-Gitlab-Event: Push Hook"}, refused: provider.MissingField},
	})
}

// TestGitLabPipelines: states of one run follow each other, also within a second, and what a pipeline that is tried again reports is not
// older than its first end, whose time it still has.
func TestGitLabPipelines(t *testing.T) {
	t.Parallel()
	pipeline := func(status, finished string) string {
		return `{"object_kind":"pipeline","project":{"id":7},"object_attributes":{"id":31,"status":"` + status + `","created_at":"2016-08-12 15:23:28 UTC","finished_at":` + finished + `}}`
	}
	const first, second = `"2016-08-12 15:23:28 UTC"`, `"2016-08-12 15:30:00 UTC"`
	order(t, "gitlab", false, pipeline("created", "null"), pipeline("pending", "null"), pipeline("running", "null"), pipeline("failed", first), pipeline("success", second))
	order(t, "gitlab", true, pipeline("failed", first), pipeline("running", first))
	job := func(status, started, finished string) string {
		return `{"object_kind":"build","project_id":7,"pipeline_id":31,"build_id":5,"build_status":"` + status + `","build_created_at":"2021-02-23T02:41:37.886Z","build_started_at":` + started + `,"build_finished_at":` + finished + `}`
	}
	const at = `"2021-02-23 02:41:38 UTC"`
	order(t, "gitlab", false, job("created", "null", "null"), job("pending", "null", "null"), job("running", at, "null"), job("failed", at, at))
}

// TestGitLabIDs: the id is GitLab's, from whichever header it comes, and the signed one where a signing token signs. An older GitLab has
// none.
func TestGitLabIDs(t *testing.T) {
	t.Parallel()
	const body = `{"object_kind":"push","project_id":7,"ref":"refs/heads/x"}`
	for _, tt := range []struct {
		config  provider.Config
		headers []string
		want    string
	}{
		{provider.Config{Preset: "gitlab"}, []string{"Idempotency-Key: a", "X-Gitlab-Event-UUID: shared"}, "a"},
		{provider.Config{Preset: "gitlab"}, []string{"webhook-id: b", "Idempotency-Key: a"}, "b"},
		{provider.Config{Preset: "gitlab"}, []string{"X-Gitlab-Event-UUID: shared"}, "sha256:"},
		{provider.Config{Preset: "gitlab", Verify: &verify.Params{Scheme: "standard_webhooks"}}, []string{"webhook-id: b", "Idempotency-Key: a"}, "b"},
		{provider.Config{Preset: "gitlab", Verify: &verify.Params{Scheme: "standard_webhooks"}}, []string{"Idempotency-Key: a"}, ""},
	} {
		if found := tt.config.Unsigned(); len(found) != 0 {
			t.Errorf("%+v: %v", tt.config.Verify, found)
		}
		e, err := compile(t, tt.config).Event(request(body, tt.headers...), received)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%q: id %s, which nothing signs", tt.headers, e.ID)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(e.ID, tt.want) {
			t.Errorf("%q: %+v %v", tt.headers, e, err)
		}
	}
}

func TestLinearTraps(t *testing.T) {
	t.Parallel()
	const head = `"organizationId":"o","webhookId":"the-hook","createdAt":"2026-07-01T16:45:22.391Z"`
	play(t, "linear", "com.linear.", []trap{
		{name: "an update tells what changed, so it is a delta", body: `{"type":"Issue","action":"update",` + head + `,"data":{"id":"i","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "issue.update", entity: "o/i", version: "2026-07-01T16:45:22.391000000Z", clock: "issue"},
		{name: "an issue goes", body: `{"type":"Issue","action":"remove",` + head + `,"data":{"id":"i","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "issue.remove", entity: "o/i", version: "2026-07-01T16:45:22.391000000Z", clock: "issue", gone: true},
		{name: "a comment has its own clock, and its end is not the issue's", body: `{"type":"Comment","action":"remove",` + head + `,"data":{"id":"c","issueId":"i","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "comment.remove", entity: "o/i", version: "2026-07-01T16:45:22.391000000Z", clock: "comment:c"},
		{name: "a comment on a project update", body: `{"type":"Comment","action":"create",` + head + `,"data":{"id":"c","issueId":null,"projectUpdateId":"u","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "comment.create", entity: "o/u", version: "2026-07-01T16:45:22.391000000Z", clock: "comment:c"},
		{name: "an agent's session", body: `{"type":"AgentSessionEvent","action":"prompted",` + head + `,"agentSession":{"id":"s","issueId":"i"}}`,
			typ: "agentsessionevent.prompted", entity: "o/s", version: "2026-07-01T16:45:22.391000000Z", clock: "agent_session"},
		{name: "SLA", body: `{"type":"IssueSLA","action":"breached",` + head + `,"issueData":{"id":"i"}}`, typ: "issuesla.breached", entity: "o/i"},
		{name: "the header is not signed and names nothing", body: `{"action":"update",` + head + `}`, headers: []string{"Linear-Event: Issue"}, refused: provider.MissingField},
	})
}

// TestLinearRetries: a retry has the bytes and the timestamp of the first attempt, and comes up to six hours later.
func TestLinearRetries(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "linear"})
	r := request(`{"type":"Issue","action":"update","webhookTimestamp":1,"organizationId":"o","data":{"id":"i"}}`)
	if err := s.Sign(r, received); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, after := range []time.Duration{0, time.Minute, time.Hour + time.Minute, 7 * time.Hour} {
		if err := s.Verifier.Verify(r, received.Add(after)); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
		r.Header.Set("Linear-Delivery", after.String())
		e, err := s.Event(r, received)
		if err != nil || e.DeliveryID != after.String() {
			t.Fatal(e, err)
		}
		ids = append(ids, e.ID)
	}
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("retries have the ids %q", ids)
	}
	for _, off := range []time.Duration{7*time.Hour + time.Second, -7*time.Hour - time.Second} {
		if err := s.Verifier.Verify(r, received.Add(off)); err == nil {
			t.Errorf("taken %s after it was signed", off)
		}
	}
}

// TestTypeNames: what chooses a type by a header that nobody signs cannot be written so that it escapes the fields of that type.
func TestTypeNames(t *testing.T) {
	t.Parallel()
	known, others := provider.Config{Preset: "linear"}.Types()
	if !slices.Contains(known, "com.linear.agentsessionevent.*") || others != "com.linear.*" {
		t.Errorf("%q, %s", known, others)
	}
	s := compile(t, provider.Config{Preset: "linear", Event: &provider.EventConfig{Type: "/type"}})
	e, err := s.Event(request(`{"type":"Issue","organizationId":"o","data":{"id":"i"}}`), received)
	if err != nil || e.Type != "com.linear.Issue" {
		t.Errorf("a source's own type is verbatim: %+v %v", e, err)
	}
}
