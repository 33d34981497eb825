package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(square())

// square: an entity is an object of a merchant. Its events carry the whole of it, and their time is its clock; only `*.updated` says nothing
// more. data.id is the object's, but of a booking it has the version, too, which is its clock, and of counts of inventory it is of the event: there
// an entity is an item at a location. One event may have several counts, and is told of the first; the others may be in no later one. An order's
// events carry its version instead, a counter with holes, and not the order: the newest `order.updated` is all there is to ask for. What happened to its fulfillments is a delta.
//
// Square signs the notification URL, as it is entered there, and the body: the source needs public_url.
// Sources: https://developer.squareup.com/docs/webhooks/overview, https://developer.squareup.com/docs/webhooks/step3validate, square/square-nodejs-sdk.
func square() preset {
	object := []string{"/merchant_id?", "/data/id?"}
	updated := func() *condition { return &condition{from: "/type", suffix: ".updated"} }
	booking := mapping{entity: []string{"/merchant_id?", "/data/object/booking/id|/data/id?"}, snapshots: updated(),
		clocks: []clock{{from: "/data/object/booking/version", kind: schemas.Monotonic, name: "booking"}}}
	const count = "/data/object/inventory_counts/0"
	return preset{
		name: "square", title: "Square",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Square-Hmacsha256-Signature", Encoding: "base64", Signed: "{url}{body}"},
		maxBody: 1 << 20, deadline: 10 * time.Second,
		retries: "11 at growing distances, for 24 h or 72 h: Square says both", retryHorizon: 3 * day,
		prefix:  "com.square.",
		headers: []string{"square-environment", "square-initial-delivery-timestamp", "square-retry-number", "square-retry-reason"},
		selects: []string{"/type"},
		fallback: mapping{
			id: "/event_id", typ: []string{"/type"}, entity: object, clocks: millis("/created_at", "event"),
			snapshots: updated(), deleted: &condition{from: "/data/deleted|/type", is: []string{"true"}, suffix: ".deleted"},
			title: "/data/object/invoice/title|/data/object/invoice/invoice_number|/data/object/payment/receipt_number|/data/object/customer/email_address",
		},
		rules: map[string]mapping{
			"booking.created": booking,
			"booking.updated": booking,
			"inventory.count.updated": {entity: []string{"/merchant_id?", "=inventory", count + "/catalog_object_id|/data/id?", count + "/location_id?"},
				clocks: millis(count+"/calculated_at|/created_at", "inventory")},
			"order.created": {entity: object, clocks: []clock{{from: "/data/object/order_created/version", kind: schemas.Monotonic, name: "order_created"}}},
			"order.updated": {entity: object, clocks: []clock{{from: "/data/object/order_updated/version", kind: schemas.Monotonic, name: "order"}},
				snapshots: updated()},
			"order.fulfillment.updated": {entity: object,
				clocks: []clock{{from: "/data/object/order_fulfillment_updated/version", kind: schemas.Monotonic, name: "fulfillment"}}},
		},
	}
}
