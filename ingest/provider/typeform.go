package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(typeform())

// typeform: an entity is a response to a form. It is submitted once; before that, form_response_partial may say several times what has been
// answered so far, without a time of its own: these go as they arrive.
//
// An answer of 404 or 410 ends the webhook at once, and so does a day on which nothing was taken.
// Sources: https://www.typeform.com/developers/webhooks/secure-your-webhooks, https://www.typeform.com/developers/webhooks/example-payload, https://www.typeform.com/developers/webhooks.
func typeform() preset {
	return preset{
		name: "typeform", title: "Typeform",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "Typeform-Signature", Encoding: "base64", Prefix: "sha256="},
		maxBody: 1 << 20, deadline: 30 * time.Second,
		takes: "any 2xx (https://www.typeform.com/developers/webhooks)",
		retries: "for 10 h every 2 or 3 min after 408, 423, 429 and 503 (https://www.typeform.com/developers/webhooks); " +
			"after other errors 3 to 7, within 35 min to 11 h: that page has said 3, 5 and 7", retryHorizon: 11 * time.Hour,
		prefix: "com.typeform.",
		fallback: mapping{id: "/event_id", typ: []string{"/event_type"}, entity: []string{"/form_response/form_id?", "/form_response/token?"},
			clocks: seconds("/form_response/submitted_at?", ""), title: "/form_response/definition/title"},
	}
}
