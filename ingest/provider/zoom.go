package provider

import (
	"bytes"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(zoom())

// zoom: an entity is an instance of a meeting, a webinar or a recording of it (uuid: a meeting that recurs has one number and many of these),
// or a user or another object of an account. Every event is a delta: `meeting.updated` has only what changed. A deleted recording ends no
// meeting.
//
// No id is on the wire, so it is made of the body, without the token for downloads that may be made anew for each attempt. Zoom waits 3 s, also
// for the answer to endpoint.url_validation, which it sends when the URL is entered and every 72 h.
// Sources: https://developers.zoom.us/docs/api/webhooks, zoom/webhook-sample index.js.
func zoom() preset {
	return preset{
		name: "zoom", title: "Zoom",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Zm-Signature", Prefix: "v0=",
			TimestampHeader: "X-Zm-Request-Timestamp", Signed: "v0:{timestamp}:{body}"},
		maxBody: 1 << 20, deadline: 3 * time.Second,
		accepted: plainOK,
		retries:  "3: 5, 20 and 60 min later", retryHorizon: 2 * time.Hour,
		prefix: "com.zoom.", challenge: zoomChallenge,
		fallback: mapping{
			id: "sha256:body", typ: []string{"/event"}, entity: []string{"/payload/account_id?", "/payload/object/uuid|/payload/object/id?"},
			clocks:   millis("/event_ts?", ""),
			deleted:  &condition{from: "/event", is: []string{"meeting.deleted", "webinar.deleted", "user.deleted"}},
			sender:   sender{id: "/payload/operator_id|/payload/object/participant/id", login: "/payload/operator|/payload/object/participant/user_name"},
			title:    "/payload/object/topic|/payload/object/display_name|/payload/object/email",
			volatile: []string{"/download_token", "/payload/object/download_token"},
		},
	}
}

var zoomHandshake, _ = scan.Compile("/event", "/payload/plainToken")

// zoomChallenge answers endpoint.url_validation with the token and its signature.
func zoomChallenge(h handshake) (*Answer, bool) {
	if !bytes.Contains(h.Body, []byte("url_validation")) {
		return nil, false
	}
	values, err := zoomHandshake.Scan(h.Body, nil)
	if err != nil || values[0].Text() != "endpoint.url_validation" || values[1].Kind != scan.String {
		return nil, false
	}
	token := values[1].Text()
	return answerJSON(map[string]string{"plainToken": token, "encryptedToken": h.sign(token)})
}
