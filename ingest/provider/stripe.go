package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(stripe())

// stripe: an entity is an object, and `created` its only clock, with many events in one second, of which those of a subscription have an order:
// what is updated comes behind all else, and the end behind that. All events of an object carry the whole
// of it, but only `*.updated` says nothing more: `invoice.paid` is in no later event. Connect events carry the account; some objects (an
// upcoming invoice, a customer's entitlements) have no id, and are told apart by their customer, or are there once (a balance).
//
// A retry has the same id and other pending_webhooks. The deadline is a guess: "seconds" is all that Stripe says.
// Sources: https://docs.stripe.com/webhooks, stripe/stripe-go webhook/client.go.
func stripe() preset {
	return preset{
		name: "stripe", title: "Stripe",
		verify:  verify.Params{Scheme: verify.SchemeStripe},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Stripe says no more than seconds",
		retries: "for 3 days, at growing distances; 3 within hours from a sandbox; by hand later", retryHorizon: 3 * day,
		prefix:  "com.stripe.",
		selects: []string{"/object?"},
		fallback: mapping{
			id:        "/id",
			typ:       []string{"/type"},
			entity:    []string{"/account?", "/data/object/object", "/data/object/id|/data/object/customer?"},
			clocks:    []clock{second("/created", "").ends("/type", "customer.subscription.updated", "customer.subscription.deleted")},
			snapshots: &condition{from: "/type", suffix: ".updated"},
			deleted:   &condition{from: "/type", suffix: ".deleted"},
			volatile:  []string{"/pending_webhooks"},
			title:     "/data/object/number|/data/object/description|/data/object/name|/data/object/email",
		},
		rules: map[string]mapping{
			// A "thin" event only says that something happened to an object, so it makes no snapshot of the object stale.
			"v2.core.event": {entity: []string{"/context?", "/related_object/type?", "/related_object/id?"},
				clocks: []clock{{from: "/created", kind: schemas.Timestamp, name: "thin", resolution: time.Millisecond}}},
		},
	}
}
