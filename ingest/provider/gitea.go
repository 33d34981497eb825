package provider

import (
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(gitea())

// gitea (and Forgejo): issues and pull requests share one number space, and what is said of GitHub's objects holds. A review comes as
// pull_request_approved, _rejected or _comment. `create` and `delete` name a branch or tag by its short name, `push` by the full one: they are
// one entity.
//
// The signature covers the JSON text, also where the hook sends a form: choose application/json. It covers nothing else, so the event's id
// is made of the body, and the body must have the fields of the event that X-Gitea-Event names. Gitea waits 5 s and repeats nothing by
// itself. Before 1.14 its bodies had the secret in them.
// Sources: https://docs.gitea.com/usage/webhooks, go-gitea/gitea modules/structs/hook.go and services/webhook/deliver.go, go-playground/webhooks gitea and testdata/gitea.
func gitea() preset {
	p := forge("Gitea")
	p.name, p.title, p.prefix, p.deadline = "gitea", "Gitea (and Forgejo)", "com.gitea.", 5*time.Second
	p.takes = "any 2xx (go-gitea/gitea services/webhook/deliver.go)"
	return p
}

// forge is what Gitea has from Gogs, from which it began; brand is in the names of headers.
func forge(brand string) preset {
	const repo = "/repository/id"
	event := "header:X-" + brand + "-Event"
	action := func(is ...string) *condition { return &condition{from: "/action", is: is} }
	deleted, gone := action("deleted"), &condition{from: "=always", is: []string{"always"}}
	review := mapping{entity: []string{repo, "/pull_request/number|/issue/number"}, clocks: []clock{
		second("/comment/updated_at?", "comment").each("/comment/id").ends("/action", "deleted"), second("/pull_request/updated_at?", "review")}}
	branch, tag := []string{repo, "refs/heads/{/ref}"}, []string{repo, "refs/tags/{/ref}"}
	comment := mapping{entity: []string{repo, "/issue/number"}, clocks: []clock{second("/comment/updated_at", "comment").each("/comment/id").ends("/action", "deleted")}}
	reviewed := fields{has: []string{"/pull_request", "/review/type"}}
	return preset{
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-" + brand + "-Signature"},
		maxBody: 25 << 20, deadlineNote: "webhook.DELIVER_TIMEOUT of the instance",
		retries: "none by itself; by hand from the hook's list", retryHorizon: 7 * day,
		selects: []string{event, "/ref_type?"},
		fields: map[string]fields{
			"create":                {has: []string{"/ref", "/ref_type", "/sha"}},
			"delete":                {has: []string{"/ref", "/ref_type", "/pusher_type"}, lacks: []string{"/sha"}},
			"fork":                  {has: []string{"/forkee"}},
			"push":                  {has: []string{"/ref", "/before", "/after", "/commits"}},
			"issues":                {has: []string{"/action", "/issue"}, lacks: []string{"/comment"}},
			"issue_comment":         {has: []string{"/action", "/issue", "/comment"}},
			"pull_request":          {has: []string{"/action", "/pull_request"}, lacks: []string{"/comment", "/review/type"}},
			"pull_request_approved": reviewed,
			"pull_request_rejected": reviewed,
			"pull_request_comment":  {has: []string{"/action"}, lacks: []string{"/release", "/forkee", "/page"}}, // a review, or a comment as of an issue
			"release":               {has: []string{"/action", "/release"}},
			"repository":            {has: []string{"/action", "/repository"}, alone: true},
			"wiki":                  {has: []string{"/action", "/page"}},
			"workflow_run":          {has: []string{"/workflow_run"}},
			"workflow_job":          {has: []string{"/workflow_job"}},
			"package":               {has: []string{"/package"}},
			"status":                {has: []string{"/sha", "/state", "/context"}},
		},
		says:     []string{"issue_comment*", "pull_request_comment*", "pull_request_approved*", "pull_request_rejected*"},
		delivery: "header:X-" + brand + "-Delivery",
		headers:  []string{strings.ToLower("X-" + brand + "-Event"), strings.ToLower("X-" + brand + "-Event-Type"), strings.ToLower("X-" + brand + "-Delivery")},
		repeats:  []Repeat{{"create", ""}, {"delete", ""}, {"fork", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{event, "/action?"}, entity: []string{repo + "|organization:{/organization/id}?"},
			sender: sender{id: "/sender/id", login: "/sender/login", automation: &condition{from: "/sender/id", is: []string{"-2"}}}, // the user of Actions
			title:  "/issue/title|/pull_request/title|/release/name"},
		rules: map[string]mapping{
			"issues": {entity: []string{repo, "/issue/number"}, clocks: []clock{second("/issue/updated_at", "issue").ends("/action", "deleted")}, snapshots: action("edited"), deleted: deleted},
			"pull_request": {entity: []string{repo, "/pull_request/number"}, clocks: seconds("/pull_request/updated_at", "pull_request"),
				snapshots: action("edited", "synchronized")},
			"issue_comment":         comment,
			"pull_request_approved": review,
			"pull_request_rejected": review,
			"pull_request_comment":  review,
			"push":                  {entity: []string{repo, "/ref"}},
			"create/branch":         {entity: branch},
			"create/tag":            {entity: tag},
			"delete/branch":         {entity: branch, deleted: gone},
			"delete/tag":            {entity: tag, deleted: gone},
			"release":               {entity: []string{repo, "release:{/release/id}"}, deleted: deleted},
			"repository":            {entity: []string{repo}, deleted: deleted},
			"wiki":                  {entity: []string{repo, "wiki:{/page}"}, deleted: deleted},
			"status":                {entity: []string{repo, "commit:{/sha}"}, clocks: []clock{second("/updated_at?", "status").each("/context")}},
			"workflow_run":          {entity: []string{repo, "workflow_run:{/workflow_run/id}"}},
			"workflow_job":          {entity: []string{repo, "workflow_run:{/workflow_job/run_id}"}},
		},
	}
}
