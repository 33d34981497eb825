package provider

import (
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(azureEventGrid())

// azureEventGrid: a delivery has a list of events in Event Grid's own schema; for its CloudEvents schema there is preset cloudevents. An entity is a
// subject of a topic. Events come in any order; each says what happened.
//
// Nothing is signed: the secret stands in the URL that is entered at Azure, as ?code=SECRET (verify.query). Event Grid asks once with a code that must
// come back. It waits 30 s, and repeats for 24 h.
// Sources: https://learn.microsoft.com/azure/event-grid/event-schema, https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema,
// https://learn.microsoft.com/azure/event-grid/delivery-and-retry.
func azureEventGrid() preset {
	return preset{
		name: "azure-event-grid", title: "Azure Event Grid",
		verify:  verify.Params{Scheme: verify.SchemeToken, Query: "code"},
		maxBody: 2 << 20, deadline: 30 * time.Second,
		takes:   "200, 202 (https://learn.microsoft.com/azure/event-grid/delivery-and-retry)",
		retries: "for 24 h, 30 times at most", retryHorizon: day,
		prefix: "com.azure.", names: []string{"microsoft.", ""},
		each: WholeBody, challenge: eventGridValidation,
		headers: []string{"aeg-event-type", "aeg-delivery-count"},
		fallback: mapping{
			id: "/id", typ: []string{"/eventType"}, entity: []string{"/topic?", "/subject?"},
			clocks: []clock{{from: "/eventTime", kind: schemas.Timestamp, resolution: time.Nanosecond}},
			title:  "/subject",
		},
	}
}

var eventGridForm, _ = scan.Compile("/0/data/validationCode")

// eventGridValidation answers the validation of a new subscription.
func eventGridValidation(h handshake) (*Answer, bool) {
	if h.Method != http.MethodPost || h.Header.Get("Aeg-Event-Type") != "SubscriptionValidation" {
		return nil, false
	}
	values, err := eventGridForm.Scan(h.Body, nil)
	if err != nil || values[0].Kind != scan.String {
		return nil, false
	}
	return answerJSON(map[string]string{"validationResponse": values[0].Text()})
}
