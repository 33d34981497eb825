package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(shopify())

// shopify: an entity is a resource of a shop, by its global id. A delete has only the number, of which that id is made again here. `update` has the whole
// resource and says nothing more: all topics of a resource carry it, but that an order was paid is in no later one. What a fulfillment, a
// refund or a transaction does is an order's, and each fulfillment has a clock of its own there. A delete has no time and goes as it arrives, as does what
// Shopify asks by law (customers/redact).
//
// The key is the app's client secret, and the signature covers the body only. Shopify's id of an event is in a header, and one event
// may come under several topics, with one body (orders/create and orders/paid), so an event's id is made of the topic and the body, and a body
// must not have what sets another resource apart. A subscription may ask for a few fields only (include_fields), so none is required: id should be one of
// them (of a checkout the token, since it has no id from API 2026-04 on; of a fulfillment order_id, too; of an inventory level both of its ids), or all it tells
// of is the shop's, and updated_at.
//
// Newer event subscriptions have other names of headers: say `verify: {signature_header: Shopify-Hmac-Sha256}`; the others are found
// by both. A retry brings the same body again. Shopify waits 5 s.
// Sources: https://shopify.dev/docs/apps/build/webhooks, https://shopify.dev/docs/api/webhooks,
// https://shopify.dev/changelog/removed-checkout-id-from-checkouts-and-orders-webhooks, Shopify/shopify-app-js packages/apps/shopify-api/lib/webhooks, hookdeck/webhook-samples.
func shopify() preset {
	const (
		topic = "header:X-Shopify-Topic|header:Shopify-Topic"
		shop  = "header:X-Shopify-Shop-Domain|header:Shopify-Shop-Domain?"
		again = "a source of its own for them, with event.id: header:X-Shopify-Webhook-Id"
	)
	gid := func(kind, number string) string { return "gid://shopify/" + kind + "/{" + number + "}" }
	restates := func(topics ...string) *condition { return &condition{from: topic, is: topics} }
	resource := func(name, kind, more string) mapping {
		return mapping{entity: []string{shop, "/admin_graphql_api_id|" + gid(kind, "/id") + more + "?"}, clocks: millis("/updated_at?", name),
			snapshots: restates(name+"/update", name+"/updated"), deleted: &condition{from: topic, suffix: "/delete"}}
	}
	level := resource("inventory_levels", "", "") // its global id is made of two numbers; inventory_levels/disconnect has these alone
	level.entity = []string{shop, "=InventoryLevel", "/location_id?", "/inventory_item_id?"}
	ofOrder := mapping{entity: []string{shop, gid("Order", "/order_id") + "?"}}
	fulfillment := ofOrder // an order may have several
	fulfillment.clocks = []clock{millis("/updated_at?", "fulfillment")[0].each("/id")}
	fulfillment.snapshots = restates("fulfillments/update")
	ofCustomer := mapping{entity: []string{shop, "/customerId|/customer_id|/admin_graphql_api_id|/id?"}}
	ofSubscription := mapping{entity: []string{shop, "/app_subscription/admin_graphql_api_id?"}}
	p := preset{
		name: "shopify", title: "Shopify",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Shopify-Hmac-Sha256", Encoding: "base64"},
		maxBody: 5 << 20, deadline: 5 * time.Second,
		retries: "8 within 4 h; then the subscription may be removed", retryHorizon: 4 * time.Hour,
		prefix: "com.shopify.", names: []string{"/", "."},
		selects:  []string{topic},
		fields:   shopifyFields(),
		delivery: "header:X-Shopify-Event-Id|header:Shopify-Event-Id|header:X-Shopify-Webhook-Id|header:Shopify-Webhook-Id",
		repeats: []Repeat{{"app.uninstalled", ""}, {"customers.data_request", ""}, // their bodies have no time
			{"inventory_levels.disconnect", again}, {"customer.joined_segment", again}, {"customer.left_segment", again}, {"collection_listings.remove", again},
			{"fulfillment_orders.hold_released", again}, {"fulfillment_orders.order_routing_complete", again},
			{"fulfillment_orders.scheduled_fulfillment_order_ready", again},
			{"inventory_levels.update", again}}, // whole seconds, in which a count may come back to what it was
		headers: []string{"x-shopify-topic", "x-shopify-shop-domain", "x-shopify-api-version", "x-shopify-event-id", "x-shopify-webhook-id",
			"x-shopify-triggered-at", "x-shopify-test", "shopify-topic", "shopify-shop-domain", "shopify-api-version", "shopify-event-id",
			"shopify-webhook-id", "shopify-triggered-at"},
		fallback: mapping{scope: topic, id: "sha256:body", typ: []string{topic}, entity: []string{shop, "/admin_graphql_api_id|/id?"}, title: "/title|/name|/email"},
		rules: map[string]mapping{
			"orders":             resource("orders", "Order", "|"+gid("Order", "/order_edit/order_id")+"|"+gid("Order", "/order_id")),
			"fulfillments":       fulfillment,
			"fulfillment_orders": {entity: []string{shop, "/fulfillment_order/id|/original_fulfillment_order/id|/submitted_fulfillment_order/id?"}},
			"refunds":            ofOrder,
			"order_transactions": ofOrder,
			"fulfillment_events": ofOrder,
			"disputes":           ofOrder,
			"draft_orders":       resource("draft_orders", "DraftOrder", ""),
			"products":           resource("products", "Product", ""),
			"collections":        resource("collections", "Collection", ""),
			"customers":          resource("customers", "Customer", "|"+gid("Customer", "/customer/id")),
			"companies":          resource("companies", "Company", ""),
			"inventory_items":    resource("inventory_items", "InventoryItem", ""),
			"inventory_levels":   level,
			"locations":          resource("locations", "Location", ""),
			"themes":             resource("themes", "OnlineStoreTheme", ""),
			"carts":              resource("carts", "Cart", ""),
			"checkouts":          resource("checkouts", "Checkout", "|"+gid("Checkout", "/token")),
			"shop":               {entity: []string{shop}, clocks: millis("/updated_at?", "shop"), snapshots: restates("shop/update")},
			"app":                {entity: []string{shop}},
			"app_subscriptions":  ofSubscription,
			"app_subscriptions/update": {entity: ofSubscription.entity, clocks: millis("/app_subscription/updated_at?", "app_subscription"),
				snapshots: restates("app_subscriptions/update")},
		},
	}
	for _, name := range shopifyDotted {
		p.rules[name] = ofCustomer
	}
	return p
}

// shopifyDotted are the topics that Shopify writes with a dot.
var shopifyDotted = []string{"customer.tags_added", "customer.tags_removed", "customer.joined_segment", "customer.left_segment"}

// shopifyFields: the bodies of each kind of topics lack what sets those of the others apart. A subscription may leave out any field, so that
// none has to be there.
func shopifyFields() map[string]fields {
	marks := map[string]string{"orders": "/order_number", "draft_orders": "/invoice_url", "products": "/variants", "customers": "/verified_email",
		"collections": "/sort_order", "fulfillments": "/tracking_company", "refunds": "/refund_line_items", "order_transactions": "/kind",
		"checkouts": "/abandoned_checkout_url", "inventory_items": "/tracked", "inventory_levels": "/inventory_item_id", "locations": "/legacy",
		"themes": "/previewable", "shop": "/myshopify_domain"}
	all := map[string]fields{}
	for _, name := range sortedKeys(marks) {
		var others []string
		for _, other := range sortedKeys(marks) {
			if other != name {
				others = append(others, marks[other])
			}
		}
		all[name] = fields{lacks: others}
		all[name+"/delete"] = fields{lacks: append([]string{marks[name]}, others...)}
	}
	all["app"] = all["shop"]                                              // app/uninstalled has the shop
	for _, name := range append([]string{"customer"}, shopifyDotted...) { // customer/tags_added would come to the same type
		all[name] = all["orders/delete"] // which lacks every mark
	}
	return all
}
