package provider

import (
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(okta())

// okta: a delivery of an event hook has a list of events, and each is one of ours. What it is about is its first target (a user who is put
// into a group, and not the group), else who did it. Events come in any order; the time at which one was published is its clock. All say what happened.
//
// Nothing is signed: enter X-Okta-Token as the hook's authentication field, and the secret. Another field, such as Authorization, is the source's
// verify.header. Okta asks once for the URL with GET, and the same token. It waits 3 s, and tries once more, not after a 4xx.
// Sources: https://developer.okta.com/docs/concepts/event-hooks, https://developer.okta.com/docs/reference/api/system-log, okta/okta-developer-docs, webhookx-io/webhookx test/plugins.
func okta() preset {
	return preset{
		name: "okta", title: "Okta",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "X-Okta-Token"},
		maxBody: 1 << 20, deadline: 3 * time.Second,
		takes:    "200, 204 (https://developer.okta.com/docs/concepts/event-hooks)",
		accepted: plainOK,
		retries:  "1, not after a 4xx (https://developer.okta.com/docs/concepts/event-hooks)", retryHorizon: time.Hour,
		prefix: "com.okta.",
		each:   "/data/events",
		asks:   map[string]bool{http.MethodGet: true}, challenge: oktaChallenge,
		fallback: mapping{
			id: "/uuid", typ: []string{"/eventType"}, entity: []string{"/target/0/id|/actor/id?"}, clocks: millis("/published", ""),
			deleted: &condition{from: "/eventType", is: []string{"user.lifecycle.delete.completed", "group.lifecycle.delete", "application.lifecycle.delete",
				"policy.lifecycle.delete", "zone.delete"}},
			sender: sender{id: "/actor/id", login: "/actor/alternateId",
				automation: &condition{from: "/actor/type", there: true, unless: &condition{from: "/actor/type", is: []string{"User"}}}},
			title: "/target/0/displayName|/target/0/alternateId",
		},
	}
}

// oktaChallenge answers the one-time verification.
func oktaChallenge(h handshake) (*Answer, bool) {
	challenge := h.Header.Get("X-Okta-Verification-Challenge")
	if h.Method != http.MethodGet || challenge == "" {
		return nil, false
	}
	return answerJSON(map[string]string{"verification": challenge})
}
