package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(lemonSqueezy())

// lemonSqueezy: an entity is an object by its type and id, since each type counts its ids from 1; an invoice belongs to its subscription and has a
// clock of its own. Every event has the whole object, but only `*_updated` says nothing more. One purchase comes as several events
// (order_created, subscription_created, license_key_created), each of another object.
//
// Times have six decimals, which are always 0: they are in seconds. No time is signed. `meta.webhook_id` is documented nowhere, whether it is an
// event's or a hook's: the id is made of the body. X-Event-Name is not signed; the body has the name, too. Lemon Squeezy sends again
// after every other status than 200. Its secrets have 6 to 40 characters.
// Sources: https://docs.lemonsqueezy.com/help/webhooks/webhook-requests, signing-requests and event-types beside it, NdoleStudio/lemonsqueezy-go
// webhook_request.go, lmsqueezy/laravel src/Webhooks/Hooks, lmsqueezy/lemonsqueezy.js pull request 145 (subscription_plan_changed).
func lemonSqueezy() preset {
	const updated = "/data/attributes/updated_at?"
	return preset{
		name: "lemon-squeezy", title: "Lemon Squeezy",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Signature"},
		maxBody: 1 << 20, deadline: 5 * time.Second, deadlineNote: "a guess: Lemon Squeezy says none",
		takes:   "200 alone (https://docs.lemonsqueezy.com/help/webhooks/webhook-requests)",
		retries: "3: after about 5, 25 and 125 s; by hand from the webhook's list, 7 days are assumed", retryHorizon: 7 * day,
		prefix:  "com.lemonsqueezy.",
		selects: []string{"/data/type"},
		headers: []string{"x-event-name"}, accepted: plainOK,
		fallback: mapping{
			id: "sha256:body", typ: []string{"/meta/event_name"}, entity: []string{"/data/type", "/data/id"}, clocks: seconds(updated, ""),
			snapshots: &condition{from: "/meta/event_name", suffix: "_updated"},
			title:     "/data/attributes/product_name|/data/attributes/first_order_item/product_name",
		},
		rules: map[string]mapping{
			"subscription-invoices": {entity: []string{"=subscriptions", "/data/attributes/subscription_id"}, clocks: []clock{second(updated, "invoice").each("/data/id")}},
		},
	}
}
