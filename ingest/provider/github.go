package provider

import (
	"maps"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(github())

// github: issues and pull requests share one number space, so they share one kind of entity. Each comment and each review has a
// clock of its own, because it makes neither the issue nor another one stale; that it is deleted or dismissed comes with the time of its last
// change, and is its newest. All events of an issue carry the whole of it, but only `edited` says
// nothing more: a label that was added, or that it was closed, is in no later event. An item of a project is never a snapshot: the field
// that was edited is in that event only.
//
// Checks of one commit are one entity, and each check has a clock of its own. Its status is a snapshot while it is under way; that it has
// ended is told once (also by `created`, where an app reports a check that it has made already), and its times may not be in order (a skipped
// job ends before it starts). An attempt of a run begins the statuses again. A job that waits for an approval is queued before that and behind it, so
// what it reports before it runs has no order within one time.
//
// `create` and `delete` name a branch or tag by its short name, `push` by the full one: they are one entity. `sub_issues` comes to both
// issues' repositories, and only one of them is the parent's. All that is unmapped has its repository as entity, its organization, or its
// installation. GitHub numbers each kind of object from 1 on, so a key says of which kind the number is, unless it is a repository's, or
// that of an issue or a pull request in it.
//
// The signature covers the body and nothing else, so the event's id is made of the body, and the body must have the fields of the event
// that X-GitHub-Event names.
// GitHub waits 10 s (GitHub Enterprise Server 30 s) and sends up to 25 MB; a redelivery has the same body and X-GitHub-Delivery.
// Sources: https://docs.github.com/webhooks, google/go-github github/messages.go, octokit/webhooks payload-examples/api.github.com.
func github() preset {
	const repo, installation = "/repository/id", "installation:{/installation/id}"
	action := func(is ...string) *condition { return &condition{from: "/action", is: is} }
	deleted := action("deleted")
	issue, pull := []string{repo, "/issue/number"}, []string{repo, "/pull_request/number"}
	discussion := []string{repo, "=discussion", "/discussion/number"}
	alert := func(kind string) mapping { // code and secret scanning have no time in older events
		return mapping{entity: []string{repo, "=" + kind, "/alert/number"}, clocks: seconds("/alert/updated_at?", kind)}
	}
	branch, tag := []string{repo, "refs/heads/{/ref}"}, []string{repo, "refs/tags/{/ref}"}
	gone := &condition{from: "=always", is: []string{"always"}}
	changed := func(name string) []clock {
		return []clock{second("/"+name+"/updated_at", name).ends("/action", "deleted")}
	}
	comment := func(name string) []clock {
		return []clock{second("/comment/updated_at", name).each("/comment/id").ends("/action", "deleted")}
	}
	by := sender{id: "/sender/id", login: "/sender/login", automation: &condition{from: "/sender/type", is: []string{"Bot"}}}
	// writer is the sender of what brings a text of theirs; of what happens to it later its author is somebody else.
	writer := func(object string) sender {
		s := by
		s.trust, s.author, s.others = object+"/author_association", object+"/user/id", "app/{"+object+"/performed_via_github_app/id}"
		s.mark, s.made, s.changed = &condition{from: object + "/body", line: "<!-- forebay:act_"}, action("created", "opened", "submitted"), action("edited")
		return s
	}
	p := preset{
		name: "github", title: "GitHub",
		verify:  verify.Params{Scheme: verify.SchemeGitHub},
		maxBody: 25 << 20, deadline: 10 * time.Second, deadlineNote: "GitHub Enterprise Server: 30s",
		takes:   "any 2xx (https://docs.github.com/webhooks/using-webhooks/best-practices-for-using-webhooks)",
		retries: "none by itself; by hand or through its API for 3 days", retryHorizon: 3 * day,
		prefix:      "com.github.",
		selects:     []string{"header:X-GitHub-Event", "/ref_type?"},
		fields:      githubFields,
		delivery:    "header:X-GitHub-Delivery",
		repeats:     githubRepeats(),
		says:        []string{"issue_comment.*", "pull_request_review.*", "pull_request_review_comment.*", "discussion_comment.*", "commit_comment.*"},
		formPayload: "payload",
		headers: []string{"x-github-event", "x-github-delivery", "x-github-hook-id", "x-github-hook-installation-target-type",
			"x-github-hook-installation-target-id"},
		fallback: mapping{
			sender: by,
			title:  "/issue/title|/pull_request/title|/discussion/title|/release/name|/workflow_run/display_title|/alert/rule/description|/alert/security_advisory/summary",
			id:     "sha256:body", // X-GitHub-Delivery is not signed
			typ:    []string{"header:X-GitHub-Event", "/action?"},
			entity: []string{repo + "|organization:{/organization/id}|" + installation + "?"},
		},
		rules: map[string]mapping{
			"issues":        {sender: writer("/issue"), entity: issue, clocks: changed("issue"), snapshots: action("edited"), deleted: deleted},
			"issue_comment": {sender: writer("/comment"), entity: issue, clocks: comment("comment")},
			"sub_issues": {entity: []string{"/parent_issue_repo/id|" + repo, "/parent_issue/number"},
				clocks: seconds("/parent_issue/updated_at?", "sub_issues")},
			"pull_request": {sender: writer("/pull_request"), entity: pull, clocks: seconds("/pull_request/updated_at", "pull_request"),
				snapshots: action("edited", "synchronize")},
			"pull_request_review": {sender: writer("/review"), entity: pull, // null while the review is pending
				clocks: []clock{second("/review/submitted_at?", "review").each("/review/id").ends("/action", "dismissed")}},
			"pull_request_review_comment": {sender: writer("/comment"), entity: pull, clocks: comment("review_comment")},
			"pull_request_review_thread":  {entity: pull},
			"discussion": {sender: writer("/discussion"), entity: discussion, clocks: changed("discussion"),
				snapshots: action("edited"), deleted: deleted},
			"discussion_comment": {sender: writer("/comment"), entity: discussion, clocks: comment("discussion_comment")},

			"push":          {entity: []string{repo, "/ref"}, deleted: &condition{from: "/deleted", is: []string{"true"}}},
			"create/branch": {entity: branch},
			"create/tag":    {entity: tag},
			"delete/branch": {entity: branch, deleted: gone},
			"delete/tag":    {entity: tag, deleted: gone},
			"release": {entity: []string{repo, "=release", "/release/id"}, // a draft has neither time
				clocks:    []clock{second("/release/updated_at|/release/published_at?", "release").ends("/action", "deleted")},
				snapshots: action("edited"), deleted: deleted},

			"workflow_dispatch":   {entity: []string{repo}},
			"repository_dispatch": {entity: []string{repo}},

			"deployment": {entity: []string{repo, "=deployment", "/deployment/id"}, clocks: seconds("/deployment/updated_at", "deployment")},
			"deployment_status": {entity: []string{repo, "=deployment", "/deployment/id"},
				clocks: seconds("/deployment_status/updated_at", "deployment_status")},

			"dependabot_alert":               alert("dependabot_alert"),
			"code_scanning_alert":            alert("code_scanning_alert"),
			"secret_scanning_alert":          alert("secret_scanning_alert"),
			"secret_scanning_alert_location": {entity: []string{repo, "=secret_scanning_alert", "/alert/number"}},

			"member": {entity: []string{repo}},
			"projects_v2_item": {entity: []string{"/organization/id", "=project_item", "/projects_v2_item/id"},
				clocks: changed("projects_v2_item"), deleted: deleted},
			"installation": {entity: []string{installation}, clocks: changed("installation"), deleted: deleted},
			"installation_repositories": {entity: []string{installation},
				clocks: seconds("/installation/updated_at", "installation")},
		},
	}
	maps.Copy(p.rules, githubChecks(repo, by, writer("/comment")))
	return p
}

// githubChecks are what is known of a commit and of the runs of workflows.
func githubChecks(repo string, by, comment sender) map[string]mapping {
	states := []string{"requested", "queued", "pending", "waiting", "in_progress", "completed"}
	action := func(is ...string) *condition { return &condition{from: "/action", is: is} }
	reports := func(object string) sender { // whoever pushed is their sender, and asks for them again
		s := by
		s.others, s.made = "app/{"+object+"/app/id}", action("created", "completed")
		return s
	}
	return map[string]mapping{
		"check_run": {sender: reports("/check_run"), entity: []string{repo, "/check_run/head_sha"},
			clocks: []clock{{from: "/check_run/completed_at|/check_run/started_at?", kind: schemas.Timestamp, name: "check_run", by: "/check_run/id",
				resolution: time.Second, rank: &rank{from: "/check_run/status", order: states}}},
			snapshots: &condition{from: "/action", is: []string{"created"}, unless: &condition{from: "/check_run/status", is: []string{"completed"}}}},
		"check_suite": {sender: reports("/check_suite"), entity: []string{repo, "/check_suite/head_sha"}, clocks: []clock{second("/check_suite/updated_at", "check_suite").each("/check_suite/id")}},
		"status":      {entity: []string{repo, "/sha"}, clocks: []clock{second("/updated_at", "status").each("/context")}},
		"commit_comment": {sender: comment, entity: []string{repo, "/comment/commit_id"},
			clocks: []clock{second("/comment/updated_at", "commit_comment").each("/comment/id").ends("/action", "deleted")}},
		"merge_group": {entity: []string{repo, "/merge_group/head_sha"}},
		"workflow_run": {entity: []string{repo, "=workflow_run", "/workflow_run/id"},
			clocks: []clock{{from: "/workflow_run/updated_at", kind: schemas.Timestamp, name: "workflow_run", resolution: time.Second,
				epoch: "/workflow_run/run_attempt", rank: &rank{from: "/workflow_run/status", order: states}}},
			snapshots: action("requested", "in_progress")},
		"workflow_job": {entity: []string{repo, "=workflow_run", "/workflow_job/run_id"},
			clocks: []clock{{from: "/workflow_job/completed_at|/workflow_job/started_at?", kind: schemas.Timestamp, name: "workflow_job",
				by: "/workflow_job/id", resolution: time.Second, epoch: "/workflow_job/run_attempt",
				rank: &rank{from: "/workflow_job/status", order: []string{"in_progress", "completed"}}}}, // all before a run are 0
			snapshots: action("queued", "waiting", "in_progress")},
	}
}

// githubRepeats are the events whose bodies have no time and no number of their own.
func githubRepeats() []Repeat {
	const again = "a source of its own for them, with event.id: header:X-GitHub-Delivery"
	const app = "an App has one URL, so the source is the App's, with event.id: header:X-GitHub-Delivery, which is not signed"
	return []Repeat{{"repository_dispatch", "put an id that differs into client_payload"}, {"workflow_dispatch", "give it an input that differs"},
		{"member", again}, {"membership", again}, {"organization", again}, {"team", again}, {"team_add", again}, {"org_block", again},
		{"public", again}, {"watch", again}, {"star", ""}, {"ping", ""},
		{"installation_repositories", app}, {"check_run.requested_action", app}, {"check_run.rerequested", app}}
}
