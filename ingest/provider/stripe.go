package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(stripe())

// stripe: the object is a snapshot and `created` its only clock, with many events in one second. Connect events carry
// the account; some objects (a balance, an upcoming invoice) have no id.
//
// A retry has the same id and other pending_webhooks. The deadline is a guess: "seconds" is all that Stripe says.
// Sources: https://docs.stripe.com/webhooks, stripe/stripe-go webhook/client.go.
func stripe() preset {
	return preset{
		name: "stripe", title: "Stripe",
		verify:  verify.Params{Scheme: verify.SchemeStripe},
		maxBody: 1 << 20, deadline: 10 * time.Second,
		prefix:  "com.stripe.",
		selects: []string{"/object?"},
		fallback: mapping{
			id:       "/id",
			typ:      []string{"/type"},
			entity:   []string{"/account?", "/data/object/object", "/data/object/id?"},
			clocks:   seconds("/created", ""),
			payload:  schemas.Snapshot,
			deleted:  &condition{from: "/type", suffix: ".deleted"},
			volatile: []string{"/pending_webhooks"},
		},
		rules: map[string]mapping{
			// A "thin" event only says that something happened to an object.
			"v2.core.event": {entity: []string{"/context?", "/related_object/type?", "/related_object/id?"},
				clocks: []clock{{from: "/created", kind: schemas.Timestamp, resolution: time.Millisecond}}, payload: schemas.Delta},
		},
	}
}
