package provider

import (
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(intercom())

// intercom: an entity is a conversation, a contact, a company or a ticket of a workspace. A topic says what happened to it; three of contacts and
// companies say no more than that something did, while `contact.email.updated` and its like say what. The notification's time is their clock.
// Who wrote is the author of the part that was added; a conversation that begins has the author of its first message.
//
// The second attempt has another number of attempts, and nothing else. The signature is HMAC-SHA1 by the app's client secret. A topic named ping
// comes from the developer hub's test button, without an id. An answer of 410 ends the subscription. A URL can be saved once it has answered HEAD.
// Sources: https://developers.intercom.com/docs/webhooks/setting-up-webhooks, https://developers.intercom.com/docs/references/webhooks/webhook-models,
// https://developers.intercom.com/docs/webhooks/webhook-notifications.
func intercom() preset {
	author := func(at string) sender {
		return sender{id: at + "/id", login: at + "/name", automation: &condition{from: at + "/type", is: []string{"bot"}}}
	}
	item := []string{"/app_id?", "/data/item/type?", "/data/item/id?"}
	begun := mapping{entity: item, clocks: seconds("/created_at", "conversation"), sender: author("/data/item/source/author")}
	return preset{
		name: "intercom", title: "Intercom",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Hub-Signature", Algorithm: "sha1", Prefix: "sha1="},
		maxBody: 1 << 20, deadline: 5 * time.Second,
		retries: "1, after 1 min (not confirmed); what is answered 429 is held back for 1 min to 2 h", retryHorizon: 2 * time.Hour,
		prefix: "com.intercom.",
		asks:   map[string]bool{http.MethodHead: false}, challenge: intercomChecks,
		says:    []string{"conversation.*"},
		selects: []string{"/topic"},
		fallback: mapping{
			id: "/id|sha256:body", typ: []string{"/topic"}, entity: item, clocks: seconds("/created_at", ""),
			snapshots: &condition{from: "/topic", is: []string{"contact.user.updated", "contact.lead.updated", "company.updated"}},
			deleted:   &condition{from: "/topic", suffix: ".deleted"},
			volatile:  []string{"/delivery_attempts"},
			sender:    author("/data/item/conversation_parts/conversation_parts/0/author"),
			title:     "/data/item/source/subject|/data/item/title|/data/item/name|/data/item/email",
		},
		rules: map[string]mapping{
			"conversation.user.created":         begun,
			"conversation.admin.single.created": begun,
		},
	}
}

// intercomChecks answers the question whether there is something at the URL.
func intercomChecks(h handshake) (*Answer, bool) {
	if h.Method != http.MethodHead {
		return nil, false
	}
	return &Answer{Status: http.StatusOK}, true
}
