package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(bitbucketCloud())

// bitbucketCloud: pull requests and issues count apart, so an issue's number is marked. `pullrequest:updated` tells of its title, its
// reviewers or new commits, and a later one makes it pointless; all else says what happened. Comments, approvals and statuses of a build
// have clocks of their own. One push may change several refs, so its entity is the repository.
//
// The signature covers the body and nothing else, so the event's id is made of the body, and the body must have the fields of the event
// that X-Event-Key names. Bitbucket waits 10 s, and sends no body above 256 KB.
// Sources: https://support.atlassian.com/bitbucket-cloud/docs/event-payloads and manage-webhooks, go-playground/webhooks testdata/bitbucket.
func bitbucketCloud() preset {
	const repo = "/repository/uuid"
	at := func(from, name, by string) []clock {
		return []clock{{from: from, kind: schemas.Timestamp, name: name, by: by, resolution: time.Microsecond}}
	}
	pull := func(from, name, by string) mapping {
		return mapping{entity: []string{repo, "/pullrequest/id"}, clocks: at(from, name, by)}
	}
	issue := []string{repo, "issue:{/issue/id}"}
	changed, approval := pull("/pullrequest/updated_on", "pullrequest", ""), pull("/approval/date?", "approval", "/approval/user/uuid")
	request, commented := pull("/changes_request/date?", "changes_request", "/changes_request/user/uuid"), at("/comment/updated_on?", "comment", "/comment/id")
	commented[0] = commented[0].ends("header:X-Event-Key", "pullrequest:comment_deleted") // its time is that of its last edit
	comment := mapping{entity: request.entity, clocks: commented}
	changed.snapshots = &condition{from: "header:X-Event-Key", is: []string{"pullrequest:updated"}}
	status := mapping{entity: []string{repo, "commit:{/commit_status/commit/hash}|commit:{/commit_status/links/commit/href}"},
		clocks:    at("/commit_status/updated_on", "status", "/commit_status/key"),
		snapshots: &condition{from: "/commit_status/state", is: []string{"INPROGRESS"}}}
	whole := fields{has: []string{"/pullrequest"}, lacks: []string{"/approval", "/changes_request", "/comment"}}
	return preset{
		name: "bitbucket-cloud", title: "Bitbucket Cloud",
		verify:  verify.Params{Scheme: verify.SchemeWebSub},
		maxBody: 1 << 20, deadline: 10 * time.Second,
		retries: "2, where the answer is 5xx or none; by hand from the request log", retryHorizon: day,
		prefix: "com.bitbucket.", names: []string{":", "."},
		selects: []string{"header:X-Event-Key"},
		fields: map[string]fields{
			"repo:push":                           {has: []string{"/push"}},
			"repo:fork":                           {has: []string{"/fork"}},
			"repo:updated":                        {has: []string{"/changes"}, lacks: []string{"/issue"}},
			"repo:commit_comment_created":         {has: []string{"/commit", "/comment"}},
			"repo:commit_status_created":          {has: []string{"/commit_status"}},
			"repo:commit_status_updated":          {has: []string{"/commit_status"}},
			"issue:created":                       {has: []string{"/issue"}, lacks: []string{"/changes", "/comment"}},
			"issue:updated":                       {has: []string{"/issue", "/changes"}},
			"issue:comment_created":               {has: []string{"/issue", "/comment"}, lacks: []string{"/changes"}},
			"pullrequest:created":                 whole,
			"pullrequest:updated":                 whole,
			"pullrequest:fulfilled":               whole,
			"pullrequest:rejected":                whole,
			"pullrequest:approved":                {has: []string{"/pullrequest", "/approval"}},
			"pullrequest:unapproved":              {has: []string{"/pullrequest", "/approval"}},
			"pullrequest:changes_request_created": {has: []string{"/pullrequest", "/changes_request"}},
			"pullrequest:changes_request_removed": {has: []string{"/pullrequest", "/changes_request"}},
			"pullrequest:comment_created":         {has: []string{"/pullrequest", "/comment"}},
			"pullrequest:comment_updated":         {has: []string{"/pullrequest", "/comment"}},
			"pullrequest:comment_deleted":         {has: []string{"/pullrequest", "/comment"}},
			"pullrequest:comment_resolved":        {has: []string{"/pullrequest", "/comment"}},
			"pullrequest:comment_reopened":        {has: []string{"/pullrequest", "/comment"}},
		},
		says:     []string{"pullrequest.comment_*", "pullrequest.approved", "pullrequest.changes_request_created", "issue.comment_created", "repo.commit_comment_created"},
		delivery: "header:X-Request-UUID",
		repeats:  []Repeat{{"repo.push", "a source of its own for them, with event.id: header:X-Request-UUID"}}, // from A to B, back, and to B again
		headers:  []string{"x-event-key", "x-request-uuid", "x-hook-uuid", "x-attempt-number"},
		fallback: mapping{id: "sha256:body", typ: []string{"header:X-Event-Key"}, entity: []string{repo + "?"},
			sender: sender{id: "/actor/uuid", login: "/actor/nickname", automation: &condition{from: "/actor/type", is: []string{"app_user"}}},
			title:  "/pullrequest/title|/issue/title|/commit_status/name"},
		rules: map[string]mapping{
			"pullrequest:created":                 changed,
			"pullrequest:updated":                 changed,
			"pullrequest:fulfilled":               changed,
			"pullrequest:rejected":                changed,
			"pullrequest:approved":                approval,
			"pullrequest:unapproved":              approval,
			"pullrequest:changes_request_created": request,
			"pullrequest:changes_request_removed": request,
			"pullrequest:comment_created":         comment,
			"pullrequest:comment_updated":         comment,
			"pullrequest:comment_deleted":         comment,
			"pullrequest:comment_resolved":        comment,
			"pullrequest:comment_reopened":        comment,
			"issue:created":                       {entity: issue, clocks: at("/issue/updated_on?", "issue", "")},
			"issue:updated":                       {entity: issue, clocks: at("/issue/updated_on?", "issue", "")},
			"issue:comment_created":               {entity: issue, clocks: commented},
			"repo:commit_comment_created":         {entity: []string{repo, "commit:{/commit/hash}"}, clocks: commented},
			"repo:commit_status_created":          status,
			"repo:commit_status_updated":          status,
		},
	}
}
