package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(jira())

// jira: an entity is an issue; comments, worklogs and links belong to theirs. `issue_updated` is a delta: its changelog, such as that
// somebody was assigned, is in no later event. An issue's clock is `updated`; what is deleted moves it no more, so the event's own
// timestamp is taken there, which is later. All other objects (sprints, versions, boards, projects) have that timestamp only.
// Jira Server tells of a comment without its issue: it is an entity of its own then.
//
// The signature covers the body, and names its method: only sha256 is taken. Jira waits 20 s, and its Secondary flow may be minutes behind
// the Primary one. Times are `2026-11-28T10:40:01.123+0000`. Hooks of Connect and Forge apps carry a JWT instead, and are not taken.
// Sources: https://developer.atlassian.com/cloud/jira/platform/webhooks, https://developer.atlassian.com/server/jira/platform/webhooks.
func jira() preset {
	clocks := func(name, by string, from ...string) (all []clock) {
		for _, f := range append(from, "/timestamp") {
			all = append(all, clock{from: f + "?", kind: schemas.Timestamp, name: name, by: by, resolution: time.Millisecond})
		}
		return all
	}
	issue := []string{"/issue/id"}
	commented := []string{"/issue/id|comment:{/comment/id}"}
	comment := mapping{entity: commented, clocks: clocks("comment", "/comment/id", "/comment/updated")}
	worklog := mapping{entity: []string{"/worklog/issueId"}, clocks: clocks("worklog", "/worklog/id", "/worklog/updated")}
	link := mapping{entity: []string{"/issueLink/sourceIssueId"}, clocks: clocks("link", "/issueLink/id")}
	changed := mapping{entity: issue, clocks: clocks("issue", "", "/issue/fields/updated")}
	return preset{
		name: "jira", title: "Jira",
		verify:  verify.Params{Scheme: verify.SchemeWebSub},
		maxBody: 25 << 20, deadline: 20 * time.Second, deadlineNote: "and 5s to connect",
		retries: "up to 5, 5 to 15 min apart", retryHorizon: 75 * time.Minute,
		prefix: "com.atlassian.jira.", names: []string{"jira:", "", ":", "."},
		selects:  []string{"/webhookEvent"},
		says:     []string{"comment_*"},
		delivery: "header:X-Atlassian-Webhook-Identifier",
		headers:  []string{"x-atlassian-webhook-identifier", "x-atlassian-webhook-retry", "x-atlassian-webhook-flow"},
		fallback: mapping{
			id:  "sha256:body",
			typ: []string{"/webhookEvent"},
			entity: []string{"/issue/id|sprint:{/sprint/id}|board:{/board/id}|version:{/version/id}|attachment:{/attachment/id}|project:{/project/id}|" +
				"user:{/user/accountId}|user:{/user/key}?"},
			clocks: clocks("event", ""),
			sender: sender{id: "/user/accountId|/user/key|/comment/updateAuthor/accountId|/worklog/updateAuthor/accountId",
				login:      "/user/displayName|/comment/updateAuthor/displayName|/worklog/updateAuthor/displayName",
				automation: &condition{from: "/user/accountType|/comment/updateAuthor/accountType|/worklog/updateAuthor/accountType", is: []string{"app"}}},
			title:   "/issue/fields/summary|/sprint/name|/version/name|/board/name|/project/name",
			deleted: &condition{from: "/webhookEvent", is: []string{"sprint_deleted", "board_deleted", "jira:version_deleted", "attachment_deleted", "project_deleted", "user_deleted"}},
		},
		rules: map[string]mapping{
			"jira:issue_created": changed,
			"jira:issue_updated": changed,
			"jira:issue_deleted": {entity: issue, clocks: clocks("issue", ""), deleted: &condition{from: "=always", is: []string{"always"}}},
			"comment_created":    comment,
			"comment_updated":    comment,
			"comment_deleted":    {entity: commented, clocks: clocks("comment", "/comment/id")},
			"worklog_created":    worklog,
			"worklog_updated":    worklog,
			"worklog_deleted":    {entity: worklog.entity, clocks: clocks("worklog", "/worklog/id")},
			"issuelink_created":  link,
			"issuelink_deleted":  link,
		},
	}
}
