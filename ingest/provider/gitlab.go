package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(gitlab())

// gitlab: issues and merge requests have numbers of their own each, so an issue's is marked. A note (a comment) belongs to what it is
// written on, and has a clock of its own. `update` is a delta: it is also how a label or an assignee is told, and its `changes` are in no
// later event. With `oldrev` it tells of new commits, of which the last count. An action is in the body and in no type.
// A push and a tag_push have the ref as entity, which is gone where `after` is all zeros.
//
// A job belongs to its pipeline, and a pipeline has the status of its jobs, so each status may come back until its end (running, waiting_for_resource,
// running): they have no order. A pipeline that is tried again runs with the time at which it had finished before: what it reports then is not
// older than that end.
//
// The token signs nothing. With a signing token say `verify: {scheme: standard_webhooks}`: the id is webhook-id then, which is signed, and
// GitLab's Idempotency-Key otherwise. Older GitLab sends neither: the id is the body's hash then, and two equal bodies are one event.
// X-Gitlab-Event-UUID is no id: hooks that set off other hooks share it.
//
// GitLab waits 10 s, and pauses a hook after 4 failures in a row. Times are `2013-12-03T17:23:34Z`, `2015-05-17 18:21:36 UTC` or
// `2021-04-28 21:50:00 +0200`.
// Sources: https://docs.gitlab.com/user/project/integrations/webhooks and webhook_events, xanzy/go-gitlab testdata/webhooks.
func gitlab() preset {
	const project = "/project/id|/project_id|/object_attributes/project_id|group:{/group/id}|group:{/group_id}"
	attributes := func(kind string) []string { return []string{project, kind + "{/object_attributes/id}"} }
	issue := mapping{entity: []string{project, "issue:{/object_attributes/iid}"}, clocks: seconds("/object_attributes/updated_at", "issue")}
	removed := &condition{from: "/object_attributes/action|/action", is: []string{"delete"}}
	ref := mapping{entity: []string{"/project_id", "/ref"}, sender: sender{id: "/user_id", login: "/user_username"}, deleted: &condition{from: "/after",
		is: []string{"0000000000000000000000000000000000000000", "0000000000000000000000000000000000000000000000000000000000000000"}}}
	under := []string{"created", "waiting_for_resource", "preparing", "waiting_for_callback", "pending", "running"}
	ended := &rank{from: "=ended", order: append(under[:len(under):len(under)], "ended")} // behind all that was reported before the end
	stage := func(name, by, from, status string) clock {
		k := clock{from: from, kind: schemas.Timestamp, name: name, by: by, resolution: time.Second, rank: ended}
		if status != "" {
			k.rank = &rank{from: status, order: under}
		}
		return k
	}
	return preset{
		name: "gitlab", title: "GitLab",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "X-Gitlab-Token"},
		maxBody: 25 << 20, deadline: 10 * time.Second,
		retries: "4 where GitLab could not send it; by hand for 7 days", retryHorizon: 7 * day,
		prefix:  "com.gitlab.",
		selects: []string{"/object_kind|/event_name"},
		says:    []string{"note"},
		headers: []string{"x-gitlab-event", "x-gitlab-instance", "x-gitlab-webhook-uuid", "x-gitlab-event-uuid", "idempotency-key"},
		fallback: mapping{
			id:     "header:webhook-id|header:Idempotency-Key|sha256:body",
			typ:    []string{"/object_kind|/event_name"},
			entity: []string{project + "?"},
			sender: sender{id: "/user/id", login: "/user/username"}, // that an access token's user is a bot is in its name alone
			title:  "/object_attributes/title|/merge_request/title|/issue/title|/snippet/title|/name|/object_attributes/name|/commit/title|/commit_title",
		},
		rules: map[string]mapping{
			"merge_request": {entity: []string{project, "/object_attributes/iid"}, clocks: seconds("/object_attributes/updated_at", "merge_request"),
				snapshots: &condition{from: "/object_attributes/oldrev", there: true}},
			"issue":     issue,
			"work_item": issue, // tasks, incidents and epics, in the issues' numbers
			"note": {entity: []string{project, "/merge_request/iid|issue:{/issue/iid}|commit:{/commit/id}|snippet:{/snippet/id}|note:{/object_attributes/noteable_id}?"},
				clocks: []clock{second("/object_attributes/updated_at", "note").each("/object_attributes/id")}},
			"emoji": {entity: []string{project, "/merge_request/iid|issue:{/issue/iid}|commit:{/commit/id}|snippet:{/project_snippet/id}?"}},

			"push":     ref,
			"tag_push": ref,
			"pipeline": {entity: attributes("pipeline:"),
				clocks:    []clock{stage("pipeline", "", "/object_attributes/finished_at?", ""), second("/object_attributes/created_at", "pipeline")},
				snapshots: &condition{from: "/object_attributes/status", is: under}},
			"build": {entity: []string{project, "pipeline:{/pipeline_id}"},
				clocks:    []clock{stage("build", "/build_id", "/build_finished_at?", ""), stage("build", "/build_id", "/build_started_at|/build_created_at", "/build_status")},
				snapshots: &condition{from: "/build_status", is: under}},
			"deployment": {entity: []string{project, "deployment:{/deployment_id}"},
				clocks: []clock{{from: "/status_changed_at", kind: schemas.Timestamp, name: "deployment", resolution: time.Second,
					rank: &rank{from: "/status", order: []string{"created", "blocked", "running", "success"}}}}},
			"release":      {entity: []string{project, "release:{/tag}"}, deleted: removed},
			"milestone":    {entity: attributes("milestone:"), clocks: seconds("/object_attributes/updated_at", "milestone"), deleted: removed},
			"wiki_page":    {entity: []string{project, "wiki:{/object_attributes/slug}"}, deleted: removed},
			"feature_flag": {entity: attributes("feature_flag:")},
			"access_token": {entity: attributes("access_token:")},
		},
	}
}
