package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(linear())

// linear: an entity is an object of a workspace; comments, attachments and relations belong to their issue, and each has a clock of its
// own, on which its removal is the newest. `update` is a delta: it tells of a label, an assignee or another state, and `updatedFrom` is in no later event. What an agent is
// asked in one session is one entity.
//
// A retry is the same, byte for byte, its webhookTimestamp included, after 1 min, 1 h and 6 h: with a tolerance of a minute, as Linear's own
// SDK has it, each would be refused. What is signed is the body alone, so the id is made of it; Linear-Delivery is kept beside it, and
// webhookId is the hook's. Linear waits 5 s for a 200 and then disables the hook; an agent should post a first activity within 10 s.
// Sources: https://linear.app/developers/webhooks, linear/linear packages/sdk/src/webhooks/client.ts, vercel/eve issue 1570 (retries), background-agents issue 627 (webhookId).
func linear() preset {
	const organization = "/organizationId"
	removed := &condition{from: "/action", is: []string{"remove"}}
	at := func(name, by string) []clock {
		return []clock{clock{from: "/data/updatedAt?", kind: schemas.Timestamp, name: name, by: by, resolution: time.Millisecond}.ends("/action", "remove")}
	}
	told := func(name string) []clock {
		return []clock{{from: "/createdAt?", kind: schemas.Timestamp, name: name, resolution: time.Millisecond}}
	}
	part := func(name string) mapping { // of an issue, or of what else can be commented on
		return mapping{entity: []string{organization, "/data/issueId|/data/issue/id|/data/comment/issueId|/data/projectUpdateId|/data/initiativeUpdateId|" +
			"/data/documentContentId|/data/commentId|/data/projectId|/data/id"}, clocks: at(name, "/data/id")}
	}
	return preset{
		name: "linear", title: "Linear",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "Linear-Signature", TimestampPointer: "/webhookTimestamp",
			TimestampUnit: "ms", Tolerance: 8 * time.Hour},
		maxBody: 1 << 20, deadline: 5 * time.Second,
		takes:    "200 alone (https://linear.app/developers/webhooks)",
		accepted: plainOK,
		retries:  "3: after 1 min, 1 h and 6 h", retryHorizon: 7*time.Hour + time.Minute,
		prefix: "com.linear.", names: []string{},
		selects:  []string{"/type"},
		says:     []string{"comment.*", "agentsessionevent.*"},
		delivery: "header:Linear-Delivery",
		headers:  []string{"linear-event", "linear-delivery"},
		fallback: mapping{
			id:      "sha256:body",
			typ:     []string{"/type", "/action"},
			entity:  []string{organization, "/data/id|/issueData/id?"},
			clocks:  at("object", ""),
			deleted: removed,
			sender: sender{id: "/actor/id|/agentActivity/userId|/agentSession/creatorId|/notification/actorId", login: "/actor/name|/agentSession/creator/name|/notification/actor/name",
				automation: &condition{from: "/actor/type", there: true, unless: &condition{from: "/actor/type", is: []string{"user"}}}},
			title: "/data/title|/data/issue/title|/agentSession/issue/title|/notification/issue/title|/issueData/title|/data/name",
		},
		rules: map[string]mapping{
			"Issue":               {entity: []string{organization, "/data/id"}, clocks: at("issue", ""), deleted: removed},
			"IssueSLA":            {entity: []string{organization, "/issueData/id"}},
			"Comment":             part("comment"),
			"Reaction":            part("reaction"),
			"Attachment":          part("attachment"),
			"IssueRelation":       part("relation"),
			"ProjectUpdate":       {entity: []string{organization, "/data/projectId|/data/project/id|/data/id"}, clocks: at("update", "/data/id")},
			"InitiativeUpdate":    {entity: []string{organization, "/data/initiativeId|/data/initiative/id|/data/id"}, clocks: at("update", "/data/id")},
			"AgentSessionEvent":   {entity: []string{organization, "/agentSession/id"}, clocks: told("agent_session")},
			"AppUserNotification": {entity: []string{organization, "/notification/issueId|/notification/projectId|/notification/id"}, clocks: told("notification")},
			"PermissionChange":    {entity: []string{organization}},
			"OAuthApp":            {entity: []string{organization}},
		},
	}
}
