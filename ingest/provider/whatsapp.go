package provider

import (
	"crypto/hmac"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(whatsapp())

// whatsapp (Meta's Cloud API): a delivery has the changes of one account or several, and each is an event: messages that came, what became of
// messages that were sent, or another field of the account. An entity is a conversation of one of your numbers with one user, by their number;
// where that is hidden, as who has a username may, by the id that Meta gives them for your business. The id does not come first: what failed, what is of
// a group, and messages of the system have none.
// What came has its time as clock; each message that was sent has a clock of its own, on which read comes behind delivered, and delivered behind
// sent. Both have ids in them, so that what is said again is one event by its hash. What is neither may be the same again (FLAGGED, UNFLAGGED, FLAGGED):
// there the id has the account and the time, too, which stand around the change.
//
// The key is the app's secret. Meta asks for the URL by GET before it sends anything, with a token that you choose: enter the HMAC-SHA256 of
// hub.verify_token with the app's secret, in hex (printf hub.verify_token | openssl dgst -sha256 -hmac "$APP_SECRET"), since an
// answer to any other would tell strangers which sources exist.
// Sources: https://developers.facebook.com/docs/graph-api/webhooks/getting-started, https://developers.facebook.com/documentation/business-messaging/whatsapp/business-scoped-user-ids,
// https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks.
func whatsapp() preset {
	const message, status, number = "/value/messages/0", "/value/statuses/0", "/value/metadata/phone_number_id?"
	const sent = message + "/from|/value/contacts/0/wa_id|" + message + "/from_user_id|/value/contacts/0/user_id"
	return preset{
		name: "whatsapp", title: "WhatsApp (Meta)",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Hub-Signature-256", Prefix: "sha256="},
		maxBody: 3 << 20, deadline: 5 * time.Second, deadlineNote: "a guess: Meta says no more than a few seconds",
		accepted: plainOK,
		takes:    "200 alone (https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/overview)",
		retries:  "for 7 days, at growing distances (https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/overview)", retryHorizon: 7 * day,
		prefix: "com.whatsapp.",
		each:   "/entry/*/changes", around: []string{"/id", "/time"},
		asks: map[string]bool{http.MethodGet: false}, challenge: whatsappChallenge,
		says:    []string{"messages*"},
		selects: []string{"=messages{/value/messages}|=statuses{/value/statuses}|field:{/field}"}, // what has neither may be called messages, too
		fallback: mapping{scope: "header:" + aroundHeader + "?", id: "sha256:body", typ: []string{"/field"}, entity: []string{number},
			title: "/value/contacts/0/profile/name|/value/message_template_name"},
		rules: map[string]mapping{
			"messages": {id: "sha256:body", typ: []string{"=messages", message + "/type?"}, entity: []string{number, sent + "?"},
				clocks: seconds(message+"/timestamp?", "messages"),
				sender: sender{id: sent, login: "/value/contacts/0/profile/name"}},
			"statuses": {id: "sha256:body", typ: []string{"=statuses", status + "/status?"},
				entity: []string{number, status + "/recipient_id|" + status + "/recipient_user_id|/value/contacts/0/user_id?"},
				clocks: []clock{{from: status + "/timestamp?", kind: schemas.Timestamp, name: "status", by: status + "/id", resolution: time.Second,
					rank: &rank{from: status + "/status", order: []string{"sent", "delivered", "read", "played"}}}}},
		},
	}
}

// whatsappChallenge answers the question for the URL, if its token is the one that only who has the app's secret can know.
func whatsappChallenge(h handshake) (*Answer, bool) {
	challenge := h.query("hub.challenge")
	if h.Method != http.MethodGet || h.query("hub.mode") != "subscribe" || !digits(challenge) || len(challenge) > 40 ||
		!hmac.Equal([]byte(h.query("hub.verify_token")), []byte(h.sign("hub.verify_token"))) {
		return nil, false
	}
	return &Answer{Status: http.StatusOK, ContentType: "text/plain", Body: []byte(challenge)}, true
}
