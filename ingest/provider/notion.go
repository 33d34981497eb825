package provider

import (
	"bytes"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(notion())

// notion: an entity is a page, a database or a data source; a comment belongs to its page. Bodies are thin: they say which blocks or
// properties changed, and no later event says it again, so all is a delta. `timestamp` is when it happened. Moving to the trash is told as
// deleted, and taking it back as undeleted.
//
// The key is the verification token that Notion posts when the subscription is made, and again when it is asked to, signed with itself. A
// source that does not have it yet refuses that post: read the token with another receiver first. One that has it answers, and keeps nothing
// of it: it is the secret. `attempt_number` counts attempts.
// Sources: https://developers.notion.com/reference/webhooks, https://developers.notion.com/reference/webhooks-events-delivery, makenotion/notion-sdk-js src/webhooks.ts.
func notion() preset {
	at := func(name, by string) []clock {
		return []clock{{from: "/timestamp", kind: schemas.Timestamp, name: name, by: by, resolution: time.Millisecond}}
	}
	return preset{
		name: "notion", title: "Notion",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Notion-Signature", Prefix: "sha256="},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Notion says none",
		retries: "8, at growing distances, the last about 24 h later", retryHorizon: day,
		prefix:  "com.notion.",
		says:    []string{"comment.*"},
		selects: []string{"/entity/type?"}, challenge: notionToken,
		fallback: mapping{
			id:       "/id",
			typ:      []string{"/type"},
			entity:   []string{"/workspace_id", "/entity/id"},
			clocks:   at("event", ""),
			volatile: []string{"/attempt_number"},
			deleted:  &condition{from: "/type", suffix: ".deleted"},
			sender:   sender{id: "/authors/0/id", automation: &condition{from: "/authors/0/type", is: []string{"bot", "agent"}}},
		},
		rules: map[string]mapping{
			"comment": {entity: []string{"/workspace_id", "/data/page_id|/data/parent/id|/entity/id"}, clocks: at("comment", "/entity/id")},
		},
	}
}

var notionHandshake, _ = scan.Compile("/verification_token", "/id")

// notionToken answers the post of the verification token, which no event has.
func notionToken(h handshake) (*Answer, bool) {
	if !bytes.Contains(h.Body, []byte("verification_token")) {
		return nil, false
	}
	values, err := notionHandshake.Scan(h.Body, nil)
	if err != nil || values[0].Kind != scan.String || values[1].Kind != scan.Absent {
		return nil, false
	}
	return answerJSON(struct{}{})
}
