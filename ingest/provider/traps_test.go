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
		{name: "of new commits the last count", body: `{"object_kind":"merge_request",` + project + `,"object_attributes":{"iid":3,"action":"update","oldrev":"ab","updated_at":"2015-05-17 18:21:36 UTC"}}`,
			typ: "merge_request", entity: "7/3", version: "2015-05-17T18:21:36.000000000Z", clock: "merge_request", snapshot: true},
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
		{name: "a deployment's time", body: `{"object_kind":"deployment","status":"success","status_changed_at":"2021-04-28 21:50:00 +0200","deployment_id":15,` + project + `}`,
			typ: "deployment", entity: "7/deployment:15", version: "2021-04-28T19:50:00.000000000Z+00004", clock: "deployment"},
		{name: "release", body: `{"object_kind":"release","action":"delete","tag":"v1",` + project + `}`, typ: "release", entity: "7/release:v1", gone: true},
		{name: "an event of a group", body: `{"event_name":"user_remove_from_group","group_id":7,"updated_at":"2020-12-11T04:57:22Z"}`, typ: "user_remove_from_group", entity: "group:7"},
		{name: "an event without a project", body: `{"object_kind":"vulnerability","object_attributes":{"project_id":7,"state":"detected"}}`, typ: "vulnerability", entity: "7"},
		{name: "a system hook about nobody's project", body: `{"event_name":"user_create","user_id":7}`, typ: "user_create", entity: "in"},
		{name: "no kind", body: `{"project_id":7}`, headers: []string{"X-Gitlab-Event: Push Hook"}, refused: provider.MissingField},
	})
}

// TestGitLabPipelines: a pipeline has the status of its jobs, so each may come back until its end, which is behind them all, also within a second;
// what a pipeline that is tried again reports is not older than its first end, whose time it still has. A job's states follow each other.
func TestGitLabPipelines(t *testing.T) {
	t.Parallel()
	pipeline := func(status, finished string) string {
		return `{"object_kind":"pipeline","project":{"id":7},"object_attributes":{"id":31,"status":"` + status + `","created_at":"2016-08-12 15:23:28 UTC","finished_at":` + finished + `}}`
	}
	const first, second = `"2016-08-12 15:23:28 UTC"`, `"2016-08-12 15:30:00 UTC"`
	order(t, "gitlab", false, pipeline("running", "null"), pipeline("failed", first), pipeline("success", second))
	order(t, "gitlab", true, pipeline("pending", "null"), pipeline("running", "null"), pipeline("waiting_for_resource", "null"), pipeline("running", "null"),
		pipeline("manual", "null"), pipeline("preparing", "null"))
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
			typ: "issue.remove", entity: "o/i", version: "2026-07-01T16:45:22.391000000Z+00001", clock: "issue", gone: true},
		{name: "a comment has its own clock, and its end is not the issue's", body: `{"type":"Comment","action":"remove",` + head + `,"data":{"id":"c","issueId":"i","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "comment.remove", entity: "o/i", version: "2026-07-01T16:45:22.391000000Z+00001", clock: "comment:c"},
		{name: "a comment on a project update", body: `{"type":"Comment","action":"create",` + head + `,"data":{"id":"c","issueId":null,"projectUpdateId":"u","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "comment.create", entity: "o/u", version: "2026-07-01T16:45:22.391000000Z", clock: "comment:c"},
		{name: "an agent's session", body: `{"type":"AgentSessionEvent","action":"prompted",` + head + `,"agentSession":{"id":"s","issueId":"i"}}`,
			typ: "agentsessionevent.prompted", entity: "o/s", version: "2026-07-01T16:45:22.391000000Z", clock: "agent_session"},
		{name: "an update of an initiative", body: `{"type":"InitiativeUpdate","action":"create",` + head + `,"data":{"id":"u","initiativeId":"n","updatedAt":"2026-07-01T16:45:22.391Z"}}`,
			typ: "initiativeupdate.create", entity: "o/n", version: "2026-07-01T16:45:22.391000000Z", clock: "update:u"},
		{name: "SLA", body: `{"type":"IssueSLA","action":"breached",` + head + `,"issueData":{"id":"i"}}`, typ: "issuesla.breached", entity: "o/i"},
		{name: "the header is not signed and names nothing", body: `{"action":"update",` + head + `}`, headers: []string{"Linear-Event: Issue"}, refused: provider.MissingField},
	})
}

// TestLinearRetries: a retry has the bytes and the timestamp of the first attempt, of which the last comes 7 h and 1 min behind it.
func TestLinearRetries(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "linear"})
	r := request(`{"type":"Issue","action":"update","webhookTimestamp":1,"organizationId":"o","data":{"id":"i"}}`)
	if err := s.Sign(r, received); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, after := range []time.Duration{0, time.Minute, time.Hour + time.Minute, 7*time.Hour + time.Minute} {
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
	for _, off := range []time.Duration{8*time.Hour + time.Second, -8*time.Hour - time.Second} {
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

func TestJiraTraps(t *testing.T) {
	t.Parallel()
	play(t, "jira", "com.atlassian.jira.", []trap{
		{name: "only the timestamp", body: `{"timestamp":1784068800000,"webhookEvent":"jira:issue_updated","issue":{"id":"10142","fields":{}}}`,
			typ: "issue_updated", entity: "10142", version: "2026-07-14T22:40:00.000000000Z", clock: "issue"},
		{name: "what is deleted has an old time of its own", body: `{"timestamp":1784068800000,"webhookEvent":"jira:issue_deleted","issue":{"id":"10142","fields":{"updated":"2026-07-13T09:20:00.000Z"}}}`,
			typ: "issue_deleted", entity: "10142", version: "2026-07-14T22:40:00.000000000Z", clock: "issue", gone: true},
		{name: "a time with an offset", body: `{"timestamp":1784068800000,"webhookEvent":"jira:issue_updated","issue":{"id":"10142","fields":{"updated":"2026-11-28T10:40:01.123+0000"}}}`,
			typ: "issue_updated", entity: "10142", version: "2026-11-28T10:40:01.123000000Z", clock: "issue"},
		{name: "a comment that is deleted", body: `{"timestamp":1784068800000,"webhookEvent":"comment_deleted","comment":{"id":"9","updated":"2026-07-13T09:20:00.000Z"},"issue":{"id":"10142"}}`,
			typ: "comment_deleted", entity: "10142", version: "2026-07-14T22:40:00.000000000Z", clock: "comment:9"},
		{name: "a comment of Jira Server", body: `{"timestamp":1512034084304,"webhookEvent":"comment_created","comment":{"id":"9"}}`,
			typ: "comment_created", entity: "comment:9", version: "2017-11-30T09:28:04.304000000Z", clock: "comment:9"},
		{name: "a worklog belongs to its issue", body: `{"timestamp":1784068800000,"webhookEvent":"worklog_updated","worklog":{"id":"5","issueId":"10142"}}`,
			typ: "worklog_updated", entity: "10142", version: "2026-07-14T22:40:00.000000000Z", clock: "worklog:5"},
		{name: "a link belongs to the issue that it starts from", body: `{"timestamp":1784068800000,"webhookEvent":"issuelink_created","issueLink":{"id":7,"sourceIssueId":11442,"destinationIssueId":11961}}`,
			typ: "issuelink_created", entity: "11442", version: "2026-07-14T22:40:00.000000000Z", clock: "link:7"},
		{name: "a sprint has an issue's number", body: `{"timestamp":1784068800000,"webhookEvent":"sprint_deleted","sprint":{"id":10142}}`,
			typ: "sprint_deleted", entity: "sprint:10142", version: "2026-07-14T22:40:00.000000000Z", clock: "event", gone: true},
		{name: "version", body: `{"timestamp":1784068800000,"webhookEvent":"jira:version_released","version":{"id":"10142"}}`,
			typ: "version_released", entity: "version:10142", version: "2026-07-14T22:40:00.000000000Z", clock: "event"},
		{name: "something new", body: `{"timestamp":1784068800000,"webhookEvent":"option_voting_changed"}`,
			typ: "option_voting_changed", entity: "in", version: "2026-07-14T22:40:00.000000000Z", clock: "event"},
	})
}

func TestBitbucketCloudTraps(t *testing.T) {
	t.Parallel()
	const at = `"2015-04-06T15:23:38.205705+00:00"`
	key := func(name string) []string { return []string{"X-Event-Key: " + name} }
	body := func(more string) string {
		return `{"repository":{"uuid":"r"},"pullrequest":{"id":1,"updated_on":` + at + `}` + more + `}`
	}
	const version = "2015-04-06T15:23:38.205705000Z"
	play(t, "bitbucket-cloud", "com.bitbucket.", []trap{
		{name: "restated", body: body(""), headers: key("pullrequest:updated"), typ: "pullrequest.updated", entity: "r/1", version: version, clock: "pullrequest", snapshot: true},
		{name: "merged", body: body(""), headers: key("pullrequest:fulfilled"), typ: "pullrequest.fulfilled", entity: "r/1", version: version, clock: "pullrequest"},
		{name: "an approval has a clock of its own", body: body(`,"approval":{"date":` + at + `,"user":{"uuid":"{u}"}}`), headers: key("pullrequest:approved"),
			typ: "pullrequest.approved", entity: "r/1", version: version, clock: "approval:{u}"},
		{name: "a comment has one, too", body: body(`,"comment":{"id":17,"updated_on":` + at + `}`), headers: key("pullrequest:comment_deleted"),
			typ: "pullrequest.comment_deleted", entity: "r/1", version: version + "+00001", clock: "comment:17"},
		{name: "an issue has a pull request's number", body: `{"repository":{"uuid":"r"},"issue":{"id":1,"updated_on":` + at + `},"changes":{}}`, headers: key("issue:updated"),
			typ: "issue.updated", entity: "r/issue:1", version: version, clock: "issue"},
		{name: "a status under way", body: `{"repository":{"uuid":"r"},"commit_status":{"key":"k","state":"INPROGRESS","commit":{"hash":"ab"},"updated_on":` + at + `}}`, headers: key("repo:commit_status_updated"),
			typ: "repo.commit_status_updated", entity: "r/commit:ab", version: version, clock: "status:k", snapshot: true},
		{name: "a status that has ended", body: `{"repository":{"uuid":"r"},"commit_status":{"key":"k","state":"FAILED","commit":{"hash":"ab"},"updated_on":` + at + `}}`, headers: key("repo:commit_status_updated"),
			typ: "repo.commit_status_updated", entity: "r/commit:ab", version: version, clock: "status:k"},
		{name: "a comment under a pull request's name", body: body(`,"comment":{"id":17}`), headers: key("pullrequest:fulfilled"), refused: provider.TypeMismatch},
		{name: "a pull request under a comment's name", body: body(""), headers: key("pullrequest:comment_created"), refused: provider.TypeMismatch},
		{name: "a name that comes to the same type", body: body(`,"comment":{"id":17}`), headers: key("pullrequest.fulfilled"), refused: provider.TypeMismatch},
		{name: "or in upper case", body: body(`,"comment":{"id":17}`), headers: key("PullRequest:fulfilled"), refused: provider.TypeMismatch},
	})
}

func TestBitbucketDataCenterTraps(t *testing.T) {
	t.Parallel()
	pull := func(key string, version, more string) string {
		return `{"eventKey":"` + key + `","date":"2019-03-01T10:31:15+0100","pullRequest":{"id":3,"version":` + version + `,"toRef":{"repository":{"id":4}},"fromRef":{"repository":{"id":124}}}` + more + `}`
	}
	play(t, "bitbucket-data-center", "com.bitbucket.", []trap{
		{name: "the repository is the target's", body: pull("pr:modified", "1", ""), typ: "pr.modified", entity: "4/3", version: "00000000000000000001", clock: "pullrequest", snapshot: true},
		{name: "an approval repeats the counter", body: pull("pr:reviewer:approved", "1", ""), typ: "pr.reviewer.approved", entity: "4/3", version: "00000000000000000001", clock: "pullrequest"},
		{name: "a comment counts for itself", body: pull("pr:comment:edited", "20", `,"comment":{"id":165,"version":3}`), typ: "pr.comment.edited", entity: "4/3", version: "00000000000000000003", clock: "comment:165"},
		{name: "a pull request goes", body: pull("pr:deleted", "26", ""), typ: "pr.deleted", entity: "4/3", version: "00000000000000000026+00001", clock: "pullrequest", gone: true},
		{name: "the header names nothing that the body names", body: pull("pr:modified", "1", ""), headers: []string{"X-Event-Key: pr:merged"},
			typ: "pr.modified", entity: "4/3", version: "00000000000000000001", clock: "pullrequest", snapshot: true},
		{name: "the test of a connection", body: `{"test":true}`, headers: []string{"X-Event-Key: diagnostics:ping"}, typ: "diagnostics.ping", entity: "in"},
		{name: "a ping that is something else", body: `{"x":true}`, headers: []string{"X-Event-Key: diagnostics:ping"}, refused: provider.TypeMismatch},
		{name: "a ping under another name", body: `{"test":true}`, headers: []string{"X-Event-Key: pr:merged"}, refused: provider.MissingField},
	})
	order(t, "bitbucket-data-center", false, pull("pr:opened", "0", ""), pull("pr:modified", "1", ""), pull("pr:from_ref_updated", "5", ""), pull("pr:merged", "10", ""), pull("pr:deleted", "10", ""))
	comment := func(key string) string { return pull(key, "20", `,"comment":{"id":165,"version":3}`) }
	order(t, "bitbucket-data-center", false, comment("pr:comment:edited"), comment("pr:comment:deleted"))
}

func TestGiteaTraps(t *testing.T) {
	t.Parallel()
	for preset, brand := range map[string]string{"gitea": "Gitea", "gogs": "Gogs"} {
		prefix := map[string]string{"gitea": "com.gitea.", "gogs": "io.gogs."}[preset]
		event := func(name string) []string { return []string{"X-" + brand + "-Event: " + name} }
		const repo, at = `"repository":{"id":1}`, `"updated_at":"2022-03-09T16:31:06+09:00"`
		const version = "2022-03-09T07:31:06.000000000Z"
		play(t, preset, prefix, []trap{
			{name: "push", body: `{"ref":"refs/heads/x","before":"0","after":"ab","commits":[],` + repo + `}`, headers: event("push"), typ: "push", entity: "1/refs%2Fheads%2Fx"},
			{name: "create names the branch shortly", body: `{"ref":"x","ref_type":"branch","sha":"ab",` + repo + `}`, headers: event("create"), typ: "create", entity: "1/refs%2Fheads%2Fx"},
			{name: "delete", body: `{"ref":"x","ref_type":"tag","pusher_type":"user",` + repo + `}`, headers: event("delete"), typ: "delete", entity: "1/refs%2Ftags%2Fx", gone: true},
			{name: "edited", body: `{"action":"edited","issue":{"number":2,` + at + `},` + repo + `}`, headers: event("issues"), typ: "issues.edited", entity: "1/2", version: version, clock: "issue", snapshot: true},
			{name: "label", body: `{"action":"label_updated","issue":{"number":2,` + at + `},` + repo + `}`, headers: event("issues"), typ: "issues.label_updated", entity: "1/2", version: version, clock: "issue"},
			{name: "comment", body: `{"action":"created","issue":{"number":2,` + at + `},"comment":{"id":6,` + at + `},` + repo + `}`, headers: event("issue_comment"), typ: "issue_comment.created", entity: "1/2", version: version, clock: "comment:6"},
			{name: "pushed to", body: `{"action":"synchronized","pull_request":{"number":2,` + at + `},"review":null,` + repo + `}`, headers: event("pull_request"), typ: "pull_request.synchronized", entity: "1/2", version: version, clock: "pull_request", snapshot: true},
			{name: "review", body: `{"action":"reviewed","pull_request":{"number":2,` + at + `},"review":{"type":"x"},` + repo + `}`, headers: event("pull_request_approved"), typ: "pull_request_approved.reviewed", entity: "1/2", version: version, clock: "review"},
			{name: "a pull request under a review's name", body: `{"action":"opened","pull_request":{"number":2,` + at + `},"review":null,` + repo + `}`, headers: event("pull_request_approved"), refused: provider.TypeMismatch},
			{name: "a comment under an issue's name", body: `{"action":"created","issue":{"number":2,` + at + `},"comment":{"id":6,` + at + `},` + repo + `}`, headers: event("issues"), refused: provider.TypeMismatch},
			{name: "a status of one context", body: `{"sha":"ab","state":"success","context":"ci/build",` + at + `,` + repo + `}`, headers: event("status"), typ: "status", entity: "1/commit:ab", version: version, clock: "status:ci/build"},
			{name: "a repository goes", body: `{"action":"deleted",` + repo + `}`, headers: event("repository"), typ: "repository.deleted", entity: "1", gone: true},
		})
	}
}

func TestSentryTraps(t *testing.T) {
	t.Parallel()
	resource := func(name string) []string { return []string{"Sentry-Hook-Resource: " + name} }
	play(t, "sentry", "io.sentry.", []trap{
		{name: "issue", body: `{"action":"resolved","data":{"issue":{"id":"45","lastSeen":"2026-07-14T18:56:00.738000+00:00"}}}`, headers: resource("issue"),
			typ: "issue.resolved", entity: "45", version: "2026-07-14T18:56:00.738000000Z", clock: "issue"},
		{name: "an error belongs to its issue", body: `{"action":"created","data":{"error":{"event_id":"f2","issue_id":45}}}`, headers: resource("error"), typ: "error.created", entity: "45"},
		{name: "an alert, too", body: `{"action":"triggered","data":{"event":{"issue_id":"45"},"triggered_rule":"r"}}`, headers: resource("event_alert"), typ: "event_alert.triggered", entity: "45"},
		{name: "and a comment", body: `{"action":"deleted","data":{"comment_id":1234,"issue_id":45,"timestamp":"2022-03-02T21:51:44.118160Z"}}`, headers: resource("comment"),
			typ: "comment.deleted", entity: "45", version: "2022-03-02T21:51:44.118160000Z+00001", clock: "comment:1234"},
		{name: "a metric's alert has an issue's number", body: `{"action":"critical","data":{"metric_alert":{"id":"45"}}}`, headers: resource("metric_alert"), typ: "metric_alert.critical", entity: "metric_alert:45"},
		{name: "what Seer has found out, too", body: `{"action":"root_cause_completed","installation":{"uuid":"u"},"data":{"run_id":12,"group_id":45}}`, headers: resource("seer"), typ: "seer.root_cause_completed", entity: "45"},
		{name: "what is of no issue", body: `{"action":"x","installation":{"uuid":"u"},"data":{"run_id":12}}`, headers: resource("seer"), typ: "seer.x", entity: "installation:u"},
		{name: "an error under an issue's name", body: `{"action":"created","data":{"error":{"issue_id":45}}}`, headers: resource("issue"), refused: provider.TypeMismatch},
	})
}

func TestPagerDutyTraps(t *testing.T) {
	t.Parallel()
	event := func(typ, data string) string {
		return `{"event":{"id":"E","event_type":"` + typ + `","occurred_at":"2021-04-26T17:36:27.458Z","data":` + data + `}}`
	}
	const version = "2021-04-26T17:36:27.458000000Z"
	play(t, "pagerduty", "com.pagerduty.", []trap{
		{name: "a note belongs to its incident", body: event("incident.annotated", `{"id":"PN","type":"incident_note","incident":{"id":"PI"}}`), typ: "incident.annotated", entity: "PI", version: version},
		{name: "incident", body: event("incident.acknowledged", `{"id":"PI","type":"incident"}`), typ: "incident.acknowledged", entity: "PI", version: version},
		{name: "service", body: event("service.updated", `{"id":"PS"}`), typ: "service.updated", entity: "PS", version: version, snapshot: true},
		{name: "ping", body: event("pagey.ping", `{"message":"Hello from your friend Pagey!","type":"ping"}`), typ: "pagey.ping", entity: "in", version: version},
	})
}

func TestBuildTraps(t *testing.T) {
	t.Parallel()
	play(t, "circleci", "com.circleci.", []trap{
		{name: "a job belongs to its workflow", body: `{"id":"1","type":"job-completed","happened_at":"2022-05-27T16:20:13.954328Z","workflow":{"id":"w"},"job":{"id":"j"}}`,
			typ: "job-completed", entity: "w", version: "2022-05-27T16:20:13.954328000Z", clock: "job:j"},
		{name: "ping", body: `{"id":"1","type":"ping","happened_at":"2022-05-27T16:20:13Z","webhook":{"id":"h"}}`, typ: "ping", entity: "in"},
	})
	play(t, "vercel", "com.vercel.", []trap{
		{name: "deployment", body: `{"id":"1","type":"deployment.error","createdAt":1752520920123,"payload":{"deployment":{"id":"dpl"},"project":{"id":"prj"}}}`,
			typ: "deployment.error", entity: "dpl", version: "2025-07-14T19:22:00.123000000Z"},
		{name: "project", body: `{"id":"1","type":"project.removed","createdAt":1752520920123,"payload":{"project":{"id":"prj"},"team":{"id":"t"}}}`,
			typ: "project.removed", entity: "project:prj", version: "2025-07-14T19:22:00.123000000Z", gone: true},
	})
	play(t, "buildkite", "com.buildkite.", []trap{
		{name: "a job belongs to its build", body: `{"event":"job.started","job":{"id":"j","state":"running","started_at":"2015-05-09T21:05:59.874Z"},"build":{"id":"b"}}`,
			typ: "job.started", entity: "b", version: "2015-05-09T21:05:59.874000000Z+00005", clock: "job:j"},
		{name: "agent", body: `{"event":"agent.connected","agent":{"id":"a"}}`, typ: "agent.connected", entity: "agent:a"},
		{name: "ping", body: `{"event":"ping","service":{"id":"s"},"organization":{"id":"o"}}`, typ: "ping", entity: "organization:o"},
	})
	build := func(event, state, started, finished string) string {
		return `{"event":"` + event + `","build":{"id":"b","state":"` + state + `","created_at":"2015-05-09T21:05:59.874Z","started_at":` + started + `,"finished_at":` + finished + `}}`
	}
	const at = `"2015-05-09T21:06:00.000Z"`
	order(t, "buildkite", false, build("build.scheduled", "scheduled", "null", "null"), build("build.running", "running", at, "null"), build("build.failing", "failing", at, "null"),
		build("build.finished", "failed", at, at))
}

func TestAzureDevOpsTraps(t *testing.T) {
	t.Parallel()
	const version = "2016-09-19T13:03:26.428552800Z"
	event := func(typ, resource string) string {
		return `{"id":"1","eventType":"` + typ + `","resource":` + resource + `,"resourceContainers":{"collection":{"id":"c"},"project":{"id":"p"}},"createdDate":"2016-09-19T13:03:26.4285528Z"}`
	}
	play(t, "azure-devops", "com.azure.devops.", []trap{
		{name: "the update's id is not the item's", body: event("workitem.updated", `{"id":2,"workItemId":5,"rev":7,"revision":{"id":5,"rev":7}}`), typ: "workitem.updated", entity: "c/workitem:5", version: "00000000000000000007", clock: "workitem"},
		{name: "a work item as it is made", body: event("workitem.created", `{"id":5,"rev":1}`), typ: "workitem.created", entity: "c/workitem:5", version: "00000000000000000001", clock: "workitem"},
		{name: "a work item goes", body: event("workitem.deleted", `{"id":5,"rev":8}`), typ: "workitem.deleted", entity: "c/workitem:5", version: "00000000000000000008+00001", clock: "workitem", gone: true},
		{name: "a comment belongs to its pull request", body: event("ms.vss-code.git-pullrequest-comment-event", `{"comment":{"id":2},"pullRequest":{"pullRequestId":1,"repository":{"id":"r"}}}`),
			typ: "ms.vss-code.git-pullrequest-comment-event", entity: "r/1", version: version, clock: "pullrequest"},
		{name: "a build has a pull request's number", body: event("build.complete", `{"id":1}`), typ: "build.complete", entity: "p/build:1", version: version, clock: "build"},
		{name: "something new", body: event("ms.vss-pipelines.run-state-changed-event", `{"run":{"id":9}}`), typ: "ms.vss-pipelines.run-state-changed-event", entity: "p/run:9", version: version, clock: "event"},
	})
}

func TestDeskTraps(t *testing.T) {
	t.Parallel()
	play(t, "zendesk", "com.zendesk.", []trap{
		{name: "what all types begin with is left out", body: `{"id":"1","type":"zen:event-type:ticket.CommentAdded","account_id":7,"subject":"zen:ticket:123","time":"2022-07-04T05:33:18Z"}`,
			typ: "ticket.commentadded", entity: "7/zen:ticket:123", version: "2022-07-04T05:33:18.000000000Z"},
		{name: "a trigger's own body", body: `{"ticket_id":30482}`, refused: provider.MissingField},
	})
	play(t, "notion", "com.notion.", []trap{
		{name: "a comment belongs to its page", body: `{"id":"1","type":"comment.deleted","timestamp":"2026-07-05T16:20:59.000Z","workspace_id":"w","entity":{"id":"c","type":"comment"},"data":{"page_id":"p"}}`,
			typ: "comment.deleted", entity: "w/p", version: "2026-07-05T16:20:59.000000000Z", clock: "comment:c"},
		{name: "a page goes", body: `{"id":"1","type":"page.deleted","timestamp":"2026-07-05T16:20:59.000Z","workspace_id":"w","entity":{"id":"p","type":"page"}}`,
			typ: "page.deleted", entity: "w/p", version: "2026-07-05T16:20:59.000000000Z", clock: "event", gone: true},
		{name: "thin: what changed is in no later event", body: `{"id":"1","type":"page.content_updated","timestamp":"2026-07-05T16:20:59.000Z","workspace_id":"w","entity":{"id":"p","type":"page"}}`,
			typ: "page.content_updated", entity: "w/p", version: "2026-07-05T16:20:59.000000000Z", clock: "event"},
	})
	play(t, "opsgenie", "com.opsgenie.alert.", []trap{
		{name: "nanoseconds", body: `{"action":"Add Note","alert":{"alertId":"a","createdAt":1420452191104,"updatedAt":1420452193166002000}}`,
			typ: "add_note", entity: "a", version: "2015-01-05T10:03:13.166002000Z"},
	})
	play(t, "datadog", "com.datadog.", []trap{
		{name: "the default payload has no monitor", body: `{"id":"9","event_type":"metric_alert_monitor","last_updated":"1784024463000","org":{"id":"1"}}`,
			typ: "metric_alert_monitor", entity: "1/9", version: "2026-07-14T10:21:03.000000000Z"},
	})
	play(t, "alertmanager", "io.prometheus.alert.", []trap{{name: "group", body: `{"status":"resolved","groupKey":"{}:{a=\"b/c\"}"}`, typ: "resolved", entity: string(schemas.NewEntityKey(`{}:{a="b/c"}`))}})
}

// TestNotionToken: the post that brings the secret is answered and is no event; an event that has the words in a text is one.
func TestNotionToken(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "notion"})
	for body, handshake := range map[string]bool{
		`{"verification_token":"secret_abc"}`:                           true,
		`{"id":"1","verification_token":"secret_abc","type":"x"}`:       false,
		`{"id":"1","type":"page.created","title":"verification_token"}`: false,
		`{"verification_token":{"a":1}}`:                                false,
		`verification_token`:                                            false,
	} {
		answer, ok := s.Challenge(request(body))
		if ok != handshake || ok && (answer.Status != 200 || strings.Contains(string(answer.Body), "secret")) {
			t.Errorf("%s: %t %+v", body, ok, answer)
		}
	}
}

// TestSNSConfirmationIsLookedAt: to recognize a confirmation is not to agree to it, which is a call of AWS and of nobody else.
func TestSNSConfirmationIsLookedAt(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "sns"})
	r := request(`{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.us-east-1.amazonaws.com.example.org/?Action=ConfirmSubscription"}`)
	if answer, ok := s.Challenge(r); !ok || answer.Status != 200 {
		t.Errorf("a confirmation: %t %+v", ok, answer)
	}
	if err := s.Confirm(r); err == nil || !strings.Contains(err.Error(), "not of AWS") {
		t.Errorf("it was confirmed at another's address: %v", err)
	}
	otherwise := compile(t, provider.Config{Preset: "sns", Verify: &verify.Params{Scheme: verify.SchemeToken, Header: "X-Token"}, Secrets: []schemas.Secret{schemas.NewSecret("the token of this source")}})
	if err := otherwise.Confirm(r); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("verified otherwise than by SNS: %v", err)
	}
	if _, ok := s.Challenge(request(`{"Type":"Notification"}`)); ok {
		t.Error("a notification is a handshake")
	}
	if err := compile(t, provider.Config{Preset: "slack"}).Confirm(request(`{"type":"url_verification","challenge":"c"}`)); err != nil {
		t.Error(err)
	}
}

// TestNotionAttempts: the attempt is counted in the body, and is no difference.
func TestNotionAttempts(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "notion"})
	body := func(attempt string) string {
		return `{"id":"1","attempt_number":` + attempt + `,"type":"page.created","timestamp":"2026-07-05T16:20:59.000Z","workspace_id":"w","entity":{"id":"p","type":"page"}}`
	}
	a, errA := s.Event(request(body("1")), received)
	b, errB := s.Event(request(body("2")), received)
	if errA != nil || errB != nil || a.Key() != b.Key() || a.Hash != b.Hash {
		t.Errorf("%+v %v, %+v %v", a, errA, b, errB)
	}
}

// TestOtherProofs: what the presets' comments say of other ways to verify, as a source's `verify:` has it.
func TestOtherProofs(t *testing.T) {
	t.Parallel()
	for preset, params := range map[string]verify.Params{
		"gitlab":       {Scheme: verify.SchemeStandardWebhooks},
		"buildkite":    {Scheme: verify.SchemeToken, Header: "X-Buildkite-Token"},
		"grafana":      {TimestampHeader: "X-Grafana-Timestamp", Signed: "{timestamp}:{body}"},
		"alertmanager": {Header: "Authorization", Prefix: "Basic "},
	} {
		s := compile(t, provider.Config{Preset: preset, Verify: &params})
		r := request(`{"object_kind":"push","project_id":7,"ref":"r","event":"ping","status":"firing","groupKey":"g"}`)
		if err := s.Sign(r, received); err != nil {
			t.Fatal(preset, err)
		}
		if err := s.Verifier.Verify(r, received); err != nil {
			t.Errorf("%s: %v", preset, err)
		}
		if _, err := s.Event(r, received); err != nil {
			t.Errorf("%s: %v", preset, err)
		}
		if err := s.Verifier.Verify(request(string(r.Body)), received); err == nil {
			t.Errorf("%s: taken without a proof", preset)
		}
	}
}

// TestPeopleOfProviders: who did it, by the field that the provider sets, and what the entity is called.
func TestPeopleOfProviders(t *testing.T) {
	t.Parallel()
	const human, automation = schemas.Human, schemas.Automation
	for _, c := range []struct {
		preset, body, header string
		want                 schemas.Sender
		title                string
	}{
		{"gitlab", `{"object_kind":"note","user":{"id":42,"username":"user1"},"project":{"id":5},"issue":{"iid":17,"title":"test_issue"},"object_attributes":{"id":1,"updated_at":"2015-05-17 17:06:40 UTC"}}`, "",
			schemas.Sender{ID: "42", Login: "user1"}, "test_issue"},
		{"gitlab", `{"object_kind":"push","user_id":4,"user_username":"jsmith","project_id":5,"ref":"r"}`, "", schemas.Sender{ID: "4", Login: "jsmith"}, ""},
		{"gitlab", `{"event_name":"user_add_to_group","user_id":64,"user_username":"whom","group_id":100}`, "", schemas.Sender{}, ""}, // who was added, not who added
		{"linear", `{"type":"Issue","action":"update","organizationId":"o","actor":{"id":"u","type":"user","name":"Marcus"},"data":{"id":"i","title":"It fails"}}`, "", schemas.Sender{ID: "u", Login: "Marcus", Kind: human}, "It fails"},
		{"linear", `{"type":"Issue","action":"update","organizationId":"o","actor":{"id":"c","type":"OauthClient","name":"Agent"},"data":{"id":"i"}}`, "", schemas.Sender{ID: "c", Login: "Agent", Kind: automation}, ""},
		{"jira", `{"timestamp":1784068800000,"webhookEvent":"jira:issue_updated","user":{"accountId":"6a9b","accountType":"atlassian","displayName":"Priya"},"issue":{"id":"1","fields":{"summary":"Retries"}}}`, "",
			schemas.Sender{ID: "6a9b", Login: "Priya", Kind: human}, "Retries"},
		{"jira", `{"timestamp":1784068800000,"webhookEvent":"comment_created","comment":{"id":"2","updateAuthor":{"accountId":"7","accountType":"app","displayName":"Automation for Jira"}},"issue":{"id":"1","fields":{"summary":"Retries"}}}`, "",
			schemas.Sender{ID: "7", Login: "Automation for Jira", Kind: automation}, "Retries"},
		{"bitbucket-cloud", `{"actor":{"type":"app_user","uuid":"{a}","nickname":"ci"},"repository":{"uuid":"r"},"push":{}}`, "X-Event-Key: repo:push", schemas.Sender{ID: "{a}", Login: "ci", Kind: automation}, ""},
		{"bitbucket-data-center", `{"eventKey":"pr:opened","actor":{"id":3231,"name":"gopher","type":"NORMAL"},"pullRequest":{"id":1,"version":0,"title":"Update README","toRef":{"repository":{"id":4}}}}`, "",
			schemas.Sender{ID: "3231", Login: "gopher", Kind: human}, "Update README"},
		{"gitea", `{"ref":"r","before":"0","after":"1","commits":[],"repository":{"id":1},"sender":{"id":-2,"login":"gitea-actions"}}`, "X-Gitea-Event: push", schemas.Sender{ID: "-2", Login: "gitea-actions", Kind: automation}, ""},
		{"sentry", `{"action":"created","actor":{"type":"application","id":"sentry","name":"Sentry"},"data":{"issue":{"id":"1","title":"TypeError"}}}`, "Sentry-Hook-Resource: issue",
			schemas.Sender{ID: "sentry", Login: "Sentry", Kind: automation}, "TypeError"},
		{"pagerduty", `{"event":{"id":"E","event_type":"incident.annotated","occurred_at":"2021-04-26T17:36:27.458Z","agent":{"id":"P","summary":"Tenex","type":"user_reference"},"data":{"incident":{"id":"I","summary":"A bump"}}}}`, "",
			schemas.Sender{ID: "P", Login: "Tenex", Kind: human}, "A bump"},
		{"pagerduty", `{"event":{"id":"E","event_type":"incident.triggered","occurred_at":"2021-04-26T17:36:27.458Z","agent":{"id":"P","summary":"Monitor","type":"service_reference"},"data":{"id":"I","title":"A bump"}}}`, "",
			schemas.Sender{ID: "P", Login: "Monitor", Kind: automation}, "A bump"},
		{"buildkite", `{"event":"build.running","build":{"id":"b","message":"Retry","creator":{"id":"u","name":"Priya"}},"sender":{"id":"w","name":"who made the hook"}}`, "", schemas.Sender{ID: "u", Login: "Priya"}, "Retry"},
		{"notion", `{"id":"1","type":"page.created","timestamp":"2026-07-05T16:20:59.000Z","workspace_id":"w","authors":[{"id":"a","type":"bot"},{"id":"b","type":"person"}],"entity":{"id":"p","type":"page"}}`, "", schemas.Sender{ID: "a", Kind: automation}, ""},
		{"azure-devops", `{"id":"1","eventType":"git.pullrequest.updated","createdDate":"2016-09-19T13:03:26Z","resource":{"repository":{"id":"r"},"pullRequestId":1,"title":"my first","createdBy":{"id":"u","displayName":"Jamal"}}}`, "",
			schemas.Sender{}, "my first"}, // who made it, not who changed it
		// A customer's data names nobody who did it.
		{"lemon-squeezy", `{"meta":{"event_name":"order_refunded"},"data":{"type":"orders","id":"1","attributes":{"customer_id":1,"user_name":"Ada","first_order_item":{"product_name":"Product One"}}}}`, "", schemas.Sender{}, "Product One"},
		{"grafana", `{"status":"firing","groupKey":"g","commonLabels":{"alertname":"HighLatency"}}`, "", schemas.Sender{}, "HighLatency"},
		{"opsgenie", `{"action":"Create","alert":{"alertId":"a","message":"5xx","userId":"u","username":"fili"}}`, "", schemas.Sender{ID: "u", Login: "fili"}, "5xx"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		e, err := compile(t, provider.Config{Preset: c.preset}).Event(request(c.body, headers...), received)
		if err != nil || e.Sender != c.want || e.Title != c.title {
			t.Errorf("%s %s: %+v %v", c.preset, c.body, e, err)
		}
	}
}

func TestLemonSqueezyTraps(t *testing.T) {
	t.Parallel()
	const renewed = "2026-07-12T09:54:19.000000000Z"
	body := func(event, kind, id, attributes string) string {
		return `{"meta":{"event_name":"` + event + `"},"data":{"type":"` + kind + `","id":"` + id + `","attributes":{` + attributes + `"updated_at":"2026-07-12T09:54:19.000000Z"}}}`
	}
	play(t, "lemon-squeezy", "com.lemonsqueezy.", []trap{
		{name: "an order", body: body("order_created", "orders", "1", ""), typ: "order_created", entity: "orders/1", version: renewed},
		{name: "a subscription of the same number, named by the order", body: body("subscription_created", "subscriptions", "1", `"order_id":1,`),
			typ: "subscription_created", entity: "subscriptions/1", version: renewed},
		{name: "the name of a header that nobody signs", body: body("subscription_updated", "subscriptions", "1", ""), headers: []string{"X-Event-Name: subscription_expired"},
			typ: "subscription_updated", entity: "subscriptions/1", version: renewed, snapshot: true},
		{name: "an invoice is its subscription's, whose number is a number here", body: body("subscription_payment_success", "subscription-invoices", "7", `"subscription_id":1,`),
			typ: "subscription_payment_success", entity: "subscriptions/1", version: renewed, clock: "invoice:7"},
		{name: "a change of plan is told by no later event", body: body("subscription_plan_changed", "subscriptions", "1", ""),
			typ: "subscription_plan_changed", entity: "subscriptions/1", version: renewed},
		{name: "the time of an order's item is not the order's", body: body("order_refunded", "orders", "1", `"first_order_item":{"id":1,"updated_at":"2026-07-13T00:00:00.000000Z"},`),
			typ: "order_refunded", entity: "orders/1", version: renewed},
		{name: "no object", body: `{"meta":{"event_name":"order_created"}}`, refused: provider.MissingField},
	})
}
