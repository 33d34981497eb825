package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(github())

// github: issues and pull requests share one number space, so they share one kind of entity. The time of a comment or a review is a
// clock of its own, because it never makes an issue stale. Events of several runs or comments that share a version line are deltas: a
// late event of one must not be dropped because another has a newer time.
//
// The signature covers the body and nothing else, so the event's id is made of the body, and the body must have the fields of the event
// that X-GitHub-Event names.
// GitHub waits 10 s and sends up to 25 MB; a redelivery has the same body and X-GitHub-Delivery.
// Sources: https://docs.github.com/webhooks, google/go-github github/messages.go.
func github() preset {
	issue := []string{"/repository/id", "/issue/number"}
	pull := []string{"/repository/id", "/pull_request/number"}
	deleted := &condition{from: "/action", is: []string{"deleted"}}
	return preset{
		name: "github", title: "GitHub",
		verify:  verify.Params{Scheme: verify.SchemeGitHub},
		maxBody: 25 << 20, deadline: 10 * time.Second,
		prefix:      "com.github.",
		selects:     []string{"header:X-GitHub-Event"},
		fields:      githubFields,
		delivery:    "header:X-GitHub-Delivery",
		formPayload: "payload",
		headers: []string{"x-github-event", "x-github-delivery", "x-github-hook-id", "x-github-hook-installation-target-type",
			"x-github-hook-installation-target-id"},
		fallback: mapping{
			id:      "sha256:body", // X-GitHub-Delivery is not signed
			typ:     []string{"header:X-GitHub-Event", "/action?"},
			payload: schemas.Delta,
		},
		rules: map[string]mapping{
			"issues":        {entity: issue, clocks: seconds("/issue/updated_at", "issue"), payload: schemas.Snapshot, deleted: deleted},
			"issue_comment": {entity: issue, clocks: seconds("/comment/updated_at", "comment"), payload: schemas.Delta},
			"pull_request":  {entity: pull, clocks: seconds("/pull_request/updated_at", "pull_request"), payload: schemas.Snapshot},
			"pull_request_review": {entity: pull, // null while the review is pending
				clocks: seconds("/review/submitted_at?", "review"), payload: schemas.Delta},
			"pull_request_review_comment": {entity: pull,
				clocks: seconds("/comment/updated_at", "review_comment"), payload: schemas.Delta},
			"pull_request_review_thread": {entity: pull, payload: schemas.Delta},
			"push": {entity: []string{"/repository/id", "/ref"}, payload: schemas.Delta,
				deleted: &condition{from: "/deleted", is: []string{"true"}}},
			"check_run": {entity: []string{"/repository/id", "/check_run/head_sha"}, // null until it is completed
				clocks: seconds("/check_run/completed_at?", "check_run"), payload: schemas.Delta},
			"check_suite": {entity: []string{"/repository/id", "/check_suite/head_sha"},
				clocks: seconds("/check_suite/updated_at", "check_suite"), payload: schemas.Delta},
			"status": {entity: []string{"/repository/id", "/sha"},
				clocks: seconds("/updated_at", "status"), payload: schemas.Delta},
			"workflow_run": {entity: []string{"/repository/id", "/workflow_run/id"},
				clocks: []clock{{from: "/workflow_run/updated_at", kind: schemas.Timestamp, name: "workflow_run", resolution: time.Second,
					rank: &rank{from: "/workflow_run/status", order: []string{"requested", "queued", "pending", "waiting", "in_progress", "completed"}}}},
				payload: schemas.Snapshot},
			"workflow_job": {entity: []string{"/repository/id", "/workflow_job/run_id"},
				clocks: seconds("/workflow_job/completed_at|/workflow_job/started_at?", "workflow_job"), payload: schemas.Delta},
			"installation": {entity: []string{"/installation/id"},
				clocks: seconds("/installation/updated_at", "installation"), payload: schemas.Snapshot, deleted: deleted},
			"installation_repositories": {entity: []string{"/installation/id"},
				clocks: seconds("/installation/updated_at", "installation"), payload: schemas.Delta},
		},
	}
}
