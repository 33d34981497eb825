package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(bitbucketDataCenter())

// bitbucketDataCenter: a pull request has a counter, which approvals and comments repeat, and of which not every value becomes an event:
// what has the same value is neither older nor newer. Comments count for themselves; what is deleted has the value of its last change, and is newer than it.
// `pr:modified` and `pr:from_ref_updated` restate the pull request, all else says what happened. A push (`repo:refs_changed`) may change
// several refs, so its entity is the repository; a fork and its origin are two.
//
// The type is in the body and signed, but for `diagnostics:ping`, the test of a connection, whose body is {"test": true}. Bitbucket waits
// 20 s, and does not repeat by itself. Its `date` is `2019-03-01T10:31:15+0100`.
// Sources: https://confluence.atlassian.com/bitbucketserver/event-payload-938025882.html, go-playground/webhooks bitbucket-server and testdata/bitbucket-server.
func bitbucketDataCenter() preset {
	const repo = "/pullRequest/toRef/repository/id"
	counter := func(from, name, by string) []clock {
		return []clock{clock{from: from, kind: schemas.Monotonic, name: name, by: by}.ends("/eventKey", "pr:deleted", "pr:comment:deleted", "repo:comment:deleted")}
	}
	pull := mapping{entity: []string{repo, "/pullRequest/id"}, clocks: counter("/pullRequest/version", "pullrequest", ""),
		snapshots: &condition{from: "/eventKey", is: []string{"pr:modified", "pr:from_ref_updated"}},
		deleted:   &condition{from: "/eventKey", is: []string{"pr:deleted"}}}
	comment := mapping{entity: pull.entity, clocks: counter("/comment/version", "comment", "/comment/id")}
	onCommit := mapping{entity: []string{"/repository/id", "commit:{/commit}"}, clocks: comment.clocks}
	return preset{
		name: "bitbucket-data-center", title: "Bitbucket Data Center",
		verify:  verify.Params{Scheme: verify.SchemeWebSub},
		maxBody: 1 << 20, deadline: 20 * time.Second,
		retries: "none by itself", retryHorizon: day,
		prefix: "com.bitbucket.", names: []string{":", "."},
		selects:  []string{"/eventKey|header:X-Event-Key"},
		fields:   map[string]fields{"diagnostics:ping": {has: []string{"/test"}}},
		says:     []string{"pr.comment.*", "repo.comment.*", "pr.reviewer.approved", "pr.reviewer.needs_work"},
		delivery: "header:X-Request-Id",
		headers:  []string{"x-event-key", "x-request-id"},
		repeats:  []Repeat{{"diagnostics:ping", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{"/eventKey|header:X-Event-Key"}, entity: []string{repo + "|/repository/id|/new/id?", "/pullRequest/id?"},
			sender: sender{id: "/actor/id", login: "/actor/name", automation: &condition{from: "/actor/type", is: []string{"SERVICE"}}},
			title:  "/pullRequest/title"},
		rules: map[string]mapping{
			"pr:opened":                pull,
			"pr:modified":              pull,
			"pr:from_ref_updated":      pull,
			"pr:merged":                pull,
			"pr:declined":              pull,
			"pr:deleted":               pull,
			"pr:reviewer:updated":      pull,
			"pr:reviewer:approved":     pull,
			"pr:reviewer:unapproved":   pull,
			"pr:reviewer:needs_work":   pull,
			"pr:comment:added":         comment,
			"pr:comment:edited":        comment,
			"pr:comment:deleted":       comment,
			"repo:comment:added":       onCommit,
			"repo:comment:edited":      onCommit,
			"repo:comment:deleted":     onCommit,
			"repo:refs_changed":        {entity: []string{"/repository/id"}},
			"mirror:repo_synchronized": {entity: []string{"/repository/id"}},
		},
	}
}
