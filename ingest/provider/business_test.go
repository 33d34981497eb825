package provider_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestTraps: where a provider's bodies are not what one would take them for. What real bodies come to is in vectors/payloads.
func TestTraps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, preset, body string
		headers            []string
		want               string
	}{
		{"a call has no id", "openai", `{"id":"evt_1","created_at":1750861210,"type":"realtime.call.incoming","data":{"call_id":"rtc_1"}}`,
			[]string{"webhook-id: wh_1"}, "wh_1 | com.openai.realtime.call.incoming | rtc_1 | timestamp 2025-06-25T14:20:10.000000000Z | delta"},
		{"an event about nothing", "openai", `{"id":"evt_1","created_at":1750861210,"type":"quota.reached","data":{}}`,
			[]string{"webhook-id: wh_1"}, "wh_1 | com.openai.quota.reached | in | timestamp 2025-06-25T14:20:10.000000000Z | delta"},
		{"the id is the body's", "anthropic", `{"type":"event","id":"whe_1","created_at":"2026-03-15T10:00:00.5Z","data":{"type":"vault.deleted","id":"vlt_1","organization_id":"org_1"}}`,
			[]string{"webhook-id: msg_1"}, "whe_1 | com.anthropic.vault.deleted | org_1/vlt_1 | timestamp 2026-03-15T10:00:00.000000000Z | delta deleted"},
		{"a sender's own type", "svix", `{"type":"invoice.paid","data":{"appId":"x"}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | invoice.paid | in | none | delta"},
		{"under the names of the specification", "svix", `{"type":"invoice.paid"}`,
			[]string{"webhook-id: msg_1"}, "msg_1 | invoice.paid | in | none | delta"},
		{"Svix's own type", "svix", `{"type":"endpoint.deleted","data":{"appId":"app_1","endpointId":"ep_1"}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | endpoint.deleted | app_1/ep_1 | none | delta deleted"},
		{"the object was updated before", "paddle", `{"event_id":"evt_1","event_type":"transaction.updated","occurred_at":"2024-04-11T15:59:57.020285Z","data":{"id":"txn_1","updated_at":"2024-04-11T15:59:56.658719Z"}}`,
			nil, "evt_1 | com.paddle.transaction.updated | txn_1 | timestamp 2024-04-11T15:59:57.020285000Z | snapshot"},
		{"paid is in no later event", "paddle", `{"event_id":"evt_1","event_type":"transaction.paid","occurred_at":"2024-04-11T15:59:57.0202Z","data":{"id":"txn_1"}}`,
			nil, "evt_1 | com.paddle.transaction.paid | txn_1 | timestamp 2024-04-11T15:59:57.020200000Z | delta"},
		{"an order has a counter", "square", `{"merchant_id":"M","type":"order.updated","event_id":"e1","created_at":"2026-07-01T23:14:26.129Z","data":{"type":"order_updated","id":"O","object":{"order_updated":{"order_id":"O","version":3}}}}`,
			nil, "e1 | com.square.order.updated | M/O | order monotonic 00000000000000000003 | snapshot"},
		{"its fulfillment does not make it stale", "square", `{"merchant_id":"M","type":"order.fulfillment.updated","event_id":"e1","created_at":"2026-07-01T23:14:26.129Z","data":{"type":"order_fulfillment_updated","id":"O","object":{"order_fulfillment_updated":{"order_id":"O","version":4}}}}`,
			nil, "e1 | com.square.order.fulfillment.updated | M/O | fulfillment monotonic 00000000000000000004 | delta"},
		{"deleted says the data", "square", `{"merchant_id":"M","type":"card.disabled","event_id":"e1","created_at":"2026-07-01T23:14:26.1Z","data":{"type":"card","id":"C","deleted":true}}`,
			nil, "e1 | com.square.card.disabled | M/C | event timestamp 2026-07-01T23:14:26.100000000Z | delta deleted"},
		{"the catalogue of a merchant has no id", "square", `{"merchant_id":"M","type":"catalog.version.updated","event_id":"e1","created_at":"2026-07-01T23:14:26.1Z","data":{"type":"catalog_version","id":""}}`,
			nil, "e1 | com.square.catalog.version.updated | M | event timestamp 2026-07-01T23:14:26.100000000Z | snapshot"},
		{"a budget is of a scope and a unit", "cycles", `{"event_id":"evt_1","event_type":"budget.closed","category":"budget","timestamp":"2026-04-01T12:00:00.123456789Z","tenant_id":"t","scope":"tenant:t","data":{"ledger_id":"l","scope":"tenant:t/app:a","unit":"TOKENS"}}`,
			[]string{"X-Cycles-Event-Id: evt_2"}, "evt_1 | com.cycles.budget.closed | t/budget/tenant:t%2Fapp:a/TOKENS | timestamp 2026-04-01T12:00:00.123456000Z | delta deleted"},
		{"a denial is not about the policy", "cycles", `{"event_id":"evt_1","event_type":"reservation.denied","category":"reservation","timestamp":"2026-04-01T12:00:00Z","tenant_id":"t","data":{"scope":"tenant:t","policy_id":"p"}}`,
			nil, "evt_1 | com.cycles.reservation.denied | t/reservation/tenant:t | timestamp 2026-04-01T12:00:00.000000000Z | delta"},
		{"a test of the webhook", "cycles", `{"event_id":"evt_1","event_type":"system.webhook_test","category":"system","timestamp":"2026-04-01T12:00:00Z","tenant_id":"t"}`,
			nil, "evt_1 | com.cycles.system.webhook_test | t | timestamp 2026-04-01T12:00:00.000000000Z | delta"},
		{"the time of the event before that of the object", "clerk", `{"type":"user.updated","timestamp":1654012591900,"data":{"id":"user_1","updated_at":1654012591835}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | com.clerk.user.updated | user_1 | event timestamp 2022-05-31T15:56:31.900000000Z | snapshot"},
		{"deleted has an id alone", "clerk", `{"type":"user.deleted","data":{"id":"user_1","object":"user","deleted":true}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | com.clerk.user.deleted | user_1 | none | delta deleted"},
		{"an email's own time stays", "resend", `{"type":"email.opened","created_at":"2026-06-18T09:20:11.933Z","data":{"created_at":"2026-06-18T09:12:02.884Z","email_id":"e"}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | com.resend.email.opened | e | timestamp 2026-06-18T09:20:11.933000000Z | delta"},
		{"a domain has an id", "resend", `{"type":"domain.updated","created_at":"2026-06-18T09:20:11.933Z","data":{"id":"d"}}`,
			[]string{"svix-id: msg_1"}, "msg_1 | com.resend.domain.updated | d | timestamp 2026-06-18T09:20:11.933000000Z | snapshot"},
		{"a ping", "intercom", `{"type":"notification_event","topic":"ping","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"ping","message":"zen"}}}`,
			nil, "notif_1 | com.intercom.ping | a/ping | timestamp 2026-06-15T12:00:00.000000000Z | delta"},
		{"the button's ping has no id", "intercom", `{"type":"notification_event","topic":"ping","id":null,"app_id":"a","created_at":1781524800,"data":{"item":{"type":"ping","message":"zen"}}}`,
			nil, "sha256:... | com.intercom.ping | a/ping | timestamp 2026-06-15T12:00:00.000000000Z | delta"},
		{"a contact restated", "intercom", `{"type":"notification_event","topic":"contact.user.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"contact","id":"c"}}}`,
			nil, "notif_1 | com.intercom.contact.user.updated | a/contact/c | timestamp 2026-06-15T12:00:00.000000000Z | snapshot"},
		{"a company restated", "intercom", `{"topic":"company.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"company","id":"c"}}}`,
			nil, "notif_1 | com.intercom.company.updated | a/company/c | timestamp 2026-06-15T12:00:00.000000000Z | snapshot"},
		{"a lead restated", "intercom", `{"topic":"contact.lead.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"contact","id":"c"}}}`,
			nil, "notif_1 | com.intercom.contact.lead.updated | a/contact/c | timestamp 2026-06-15T12:00:00.000000000Z | snapshot"},
		{"which address it was is in no later event", "intercom", `{"topic":"contact.email.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"contact","id":"c"}}}`,
			nil, "notif_1 | com.intercom.contact.email.updated | a/contact/c | timestamp 2026-06-15T12:00:00.000000000Z | delta"},
		{"nor is a ticket's state", "intercom", `{"topic":"ticket.state.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"ticket","id":"c"}}}`,
			nil, "notif_1 | com.intercom.ticket.state.updated | a/ticket/c | timestamp 2026-06-15T12:00:00.000000000Z | delta"},
		{"answers so far have no time", "typeform", `{"event_id":"e","event_type":"form_response_partial","form_response":{"form_id":"f","token":"t","landed_at":"2026-07-08T14:02:11Z"}}`,
			nil, "e | com.typeform.form_response_partial | f/t | none | delta"},
		{"who did not show up is the invitee", "calendly", `{"event":"invitee_no_show.created","created_at":"2026-06-01T15:22:41.000001Z","payload":{"uri":"https://x/no_shows/1","invitee":"https://x/invitees/1"}}`,
			nil, "sha256:... | com.calendly.invitee_no_show.created | https:%2F%2Fx%2Finvitees%2F1 | event timestamp 2026-06-01T15:22:41.000001000Z | delta"},
		{"a button of a message that was sent inline", "telegram", `{"update_id":7,"callback_query":{"id":"1","from":{"id":9},"chat_instance":"-4"}}`,
			nil, "7 | org.telegram.callback_query | 9 | monotonic 00000000000000000007 | delta"},
		{"a bot's place in a group", "telegram", `{"update_id":8,"my_chat_member":{"chat":{"id":-1001},"from":{"id":9}}}`,
			nil, "8 | org.telegram.my_chat_member | -1001 | monotonic 00000000000000000008 | delta"},
		{"an answer to a poll", "telegram", `{"update_id":9,"poll_answer":{"poll_id":"5","user":{"id":9}}}`,
			nil, "9 | org.telegram.poll_answer | 5 | monotonic 00000000000000000009 | delta"},
		{"a field that is null is not the update's", "telegram", `{"update_id":9,"message":null,"poll":{"id":"5"}}`,
			nil, "9 | org.telegram.poll | 5 | monotonic 00000000000000000009 | delta"},
		{"an update of a new kind", "telegram", `{"update_id":9,"managed_bot":{"id":"5"}}`,
			nil, "9 | org.telegram.update | in | monotonic 00000000000000000009 | delta"},
		{"a delete is of what was updated", "shopify", `{"id":788032119674292922}`, shop("products/delete"),
			"e1 | com.shopify.products.delete | a.myshopify.com/gid:%2F%2Fshopify%2FProduct%2F788032119674292922 | none | delta deleted"},
		{"and an update is of what is deleted", "shopify", `{"id":788032119674292922,"admin_graphql_api_id":"gid://shopify/Product/788032119674292922","updated_at":"2021-12-31T19:00:00-05:00","variants":[]}`, shop("products/update"),
			"e1 | com.shopify.products.update | a.myshopify.com/gid:%2F%2Fshopify%2FProduct%2F788032119674292922 | products timestamp 2022-01-01T00:00:00.000000000Z | snapshot"},
		{"paid says more than updated", "shopify", `{"id":1,"updated_at":"2021-12-31T19:00:00-05:00","order_number":1001}`, shop("orders/paid"),
			"e1 | com.shopify.orders.paid | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | orders timestamp 2022-01-01T00:00:00.000000000Z | delta"},
		{"a refund is the order's", "shopify", `{"id":5,"order_id":1,"refund_line_items":[]}`, shop("refunds/create"),
			"e1 | com.shopify.refunds.create | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | none | delta"},
		{"an edit is the order's", "shopify", `{"order_edit":{"id":5,"order_id":1}}`, shop("orders/edited"),
			"e1 | com.shopify.orders.edited | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | none | delta"},
		{"a level has two numbers", "shopify", `{"inventory_item_id":3,"location_id":4}`, shop("inventory_levels/disconnect"),
			"e1 | com.shopify.inventory_levels.disconnect | a.myshopify.com/InventoryLevel/4/3 | none | delta"},
		{"what the law asks for is the customer's", "shopify", `{"shop_id":1,"customer":{"id":2},"orders_to_redact":[]}`, shop("customers/redact"),
			"e1 | com.shopify.customers.redact | a.myshopify.com/gid:%2F%2Fshopify%2FCustomer%2F2 | none | delta"},
		{"a checkout has a token", "shopify", `{"token":"t1","updated_at":"2021-12-31T19:00:00-05:00","abandoned_checkout_url":"https://a"}`, shop("checkouts/update"),
			"e1 | com.shopify.checkouts.update | a.myshopify.com/gid:%2F%2Fshopify%2FCheckout%2Ft1 | checkouts timestamp 2022-01-01T00:00:00.000000000Z | snapshot"},
		{"before API 2026-04 an id, too", "shopify", `{"id":7,"token":"t1","abandoned_checkout_url":"https://a"}`, shop("checkouts/create"),
			"e1 | com.shopify.checkouts.create | a.myshopify.com/gid:%2F%2Fshopify%2FCheckout%2F7 | none | delta"},
		{"each fulfillment of an order has its clock", "shopify", `{"id":5,"order_id":1,"updated_at":"2021-12-31T19:00:00-05:00","tracking_company":"UPS"}`, shop("fulfillments/update"),
			"e1 | com.shopify.fulfillments.update | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | fulfillment:5 timestamp 2022-01-01T00:00:00.000000000Z | snapshot"},
		{"that it began is in no later one", "shopify", `{"id":5,"order_id":1,"updated_at":"2021-12-31T19:00:00-05:00","tracking_company":"UPS"}`, shop("fulfillments/create"),
			"e1 | com.shopify.fulfillments.create | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | fulfillment:5 timestamp 2022-01-01T00:00:00.000000000Z | delta"},
		{"a subscription to the app", "shopify", `{"app_subscription":{"admin_graphql_api_id":"gid://shopify/AppSubscription/1","status":"ACTIVE","updated_at":"2021-12-31T19:00:00-05:00"}}`, shop("app_subscriptions/update"),
			"e1 | com.shopify.app_subscriptions.update | a.myshopify.com/gid:%2F%2Fshopify%2FAppSubscription%2F1 | app_subscription timestamp 2022-01-01T00:00:00.000000000Z | snapshot"},
		{"what it has cost so far is another thing", "shopify", `{"app_subscription":{"admin_graphql_api_id":"gid://shopify/AppSubscription/1","balance_used":9,"updated_at":"2021-12-31T19:00:00-05:00"}}`, shop("app_subscriptions/approaching_capped_amount"),
			"e1 | com.shopify.app_subscriptions.approaching_capped_amount | a.myshopify.com/gid:%2F%2Fshopify%2FAppSubscription%2F1 | none | delta"},
		{"the whole shop", "shopify", `{"id":1,"myshopify_domain":"a.myshopify.com","updated_at":"2021-12-31T19:00:00-05:00"}`, shop("shop/update"),
			"e1 | com.shopify.shop.update | a.myshopify.com | shop timestamp 2022-01-01T00:00:00.000000000Z | snapshot"},
		{"a part of an order that may go out", "shopify", `{"fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/1","status":"open"}}`, shop("fulfillment_orders/hold_released"),
			"e1 | com.shopify.fulfillment_orders.hold_released | a.myshopify.com/gid:%2F%2Fshopify%2FFulfillmentOrder%2F1 | none | delta"},
		{"one that was asked for", "shopify", `{"original_fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/1"},"submitted_fulfillment_order":{"id":"gid://shopify/FulfillmentOrder/2"}}`, shop("fulfillment_orders/fulfillment_request_submitted"),
			"e1 | com.shopify.fulfillment_orders.fulfillment_request_submitted | a.myshopify.com/gid:%2F%2Fshopify%2FFulfillmentOrder%2F1 | none | delta"},
		{"a count is of an item at a location", "square", `{"merchant_id":"M","type":"inventory.count.updated","event_id":"e1","created_at":"2026-07-01T23:14:26.1Z","data":{"type":"inventory","id":"b6a8","object":{"inventory_counts":[{"calculated_at":"2026-07-01T23:14:25.9Z","catalog_object_id":"I","location_id":"L","quantity":"53","state":"IN_STOCK"}]}}}`,
			nil, "e1 | com.square.inventory.count.updated | M/inventory/I/L | inventory timestamp 2026-07-01T23:14:25.900000000Z | delta"},
		{"its next one is, too", "square", `{"merchant_id":"M","type":"inventory.count.updated","event_id":"e2","created_at":"2026-07-01T23:14:27.1Z","data":{"type":"inventory","id":"77c1","object":{"inventory_counts":[{"calculated_at":"2026-07-01T23:14:27Z","catalog_object_id":"I","location_id":"L","quantity":"52","state":"IN_STOCK"}]}}}`,
			nil, "e2 | com.square.inventory.count.updated | M/inventory/I/L | inventory timestamp 2026-07-01T23:14:27.000000000Z | delta"},
		{"a booking's id in data has its version", "square", `{"merchant_id":"M","type":"booking.updated","event_id":"e1","created_at":"2026-07-01T23:14:26.1Z","data":{"type":"booking","id":"B:1","object":{"booking":{"id":"B","version":1}}}}`,
			nil, "e1 | com.square.booking.updated | M/B | booking monotonic 00000000000000000001 | snapshot"},
		{"a message of who hides their number", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"contacts":[{"profile":{"username":"@u"},"user_id":"US.9"}],"messages":[{"from_user_id":"US.9","id":"wamid.2","timestamp":"1751430074","type":"text"}]}}`,
			nil, "sha256:... | com.whatsapp.messages.text | 1/US.9 | messages timestamp 2025-07-02T04:21:14.000000000Z | delta"},
		{"the number of who shows it", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"contacts":[{"wa_id":"2","user_id":"US.9"}],"messages":[{"from":"2","id":"wamid.3","timestamp":"1751430074","type":"text"}]}}`,
			nil, "sha256:... | com.whatsapp.messages.text | 1/2 | messages timestamp 2025-07-02T04:21:14.000000000Z | delta"},
		{"a message of the system names nobody else", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"messages":[{"from":"2","id":"wamid.5","timestamp":"1751430074","type":"system"}]}}`,
			nil, "sha256:... | com.whatsapp.messages.system | 1/2 | messages timestamp 2025-07-02T04:21:14.000000000Z | delta"},
		{"what became of an answer to them", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"contacts":[{"wa_id":"2","user_id":"US.9"}],"statuses":[{"id":"wamid.4","status":"sent","timestamp":"1751430074","recipient_id":"2","recipient_user_id":"US.9"}]}}`,
			nil, "sha256:... | com.whatsapp.statuses.sent | 1/2 | status:wamid.4 timestamp 2025-07-02T04:21:14.000000000Z+00001 | delta"},
		{"and to who hides theirs", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"statuses":[{"id":"wamid.4","status":"sent","timestamp":"1751430074","recipient_user_id":"US.9"}]}}`,
			nil, "sha256:... | com.whatsapp.statuses.sent | 1/US.9 | status:wamid.4 timestamp 2025-07-02T04:21:14.000000000Z+00001 | delta"},
		{"who signs in", "workos", `{"id":"event_1","event":"authentication.password_succeeded","created_at":"2026-07-13T09:25:03.777Z","data":{"type":"password","status":"succeeded","user_id":"user_1","email":"a@b.c"}}`,
			nil, "event_1 | com.workos.authentication.password_succeeded | user_1 | timestamp 2026-07-13T09:25:03.777000000Z | delta"},
		{"whom nobody knows", "workos", `{"id":"event_1","event":"authentication.password_failed","created_at":"2026-07-13T09:25:03.777Z","data":{"type":"password","status":"failed","user_id":null,"email":"a@b.c"}}`,
			nil, "event_1 | com.workos.authentication.password_failed | a@b.c | timestamp 2026-07-13T09:25:03.777000000Z | delta"},
		{"a topic without a row", "shopify", `{"admin_graphql_api_id":"gid://shopify/Publication/1"}`, shop("publications/create"),
			"e1 | com.shopify.publications.create | a.myshopify.com/gid:%2F%2Fshopify%2FPublication%2F1 | none | delta"},
		{"a topic with a dot", "shopify", `{"customerId":"gid://shopify/Customer/2","tags":["vip"],"occurredAt":"2026-01-01T00:00:00Z"}`, shop("customer.tags_added"),
			"e1 | com.shopify.customer.tags_added | a.myshopify.com/gid:%2F%2Fshopify%2FCustomer%2F2 | none | delta"},
		{"under another name", "shopify", `{"customer_id":"gid://shopify/Customer/2","segment_id":"gid://shopify/Segment/3"}`, shop("customer.left_segment"),
			"e1 | com.shopify.customer.left_segment | a.myshopify.com/gid:%2F%2Fshopify%2FCustomer%2F2 | none | delta"},
		{"newer names of headers", "shopify", `{"id":1}`, []string{"Shopify-Topic: orders/delete", "Shopify-Shop-Domain: a.myshopify.com", "Shopify-Event-Id: e1"},
			"e1 | com.shopify.orders.delete | a.myshopify.com/gid:%2F%2Fshopify%2FOrder%2F1 | none | delta deleted"},
		{"analyzed comes behind its end", "retell", `{"event":"call_analyzed","call":{"call_id":"c","start_timestamp":1752562800000,"end_timestamp":1752562875000}}`,
			nil, "sha256:... | com.retellai.call_analyzed | c | timestamp 2025-07-15T07:01:15.000000000Z+00001 | delta"},
		{"who joins is told of the group", "workos", `{"id":"event_1","event":"dsync.group.user_added","created_at":"2026-07-13T09:25:03.777Z","data":{"directory_id":"d","user":{"id":"u"},"group":{"id":"g"}}}`,
			nil, "event_1 | com.workos.dsync.group.user_added | g | timestamp 2026-07-13T09:25:03.777000000Z | delta"},
		{"a part of a transcript has no time", "vapi", `{"message":{"type":"transcript","call":{"id":"c","orgId":"o"}}}`,
			nil, "sha256:... | ai.vapi.transcript | o/c | none | delta"},
		{"a meeting was not made when its booking was", "cal-com", `{"triggerEvent":"MEETING_STARTED","uid":"b","createdAt":"2026-07-01T14:05:00.000Z"}`,
			nil, "sha256:... | com.cal.meeting_started | b | none | delta"},
		{"an agent that goes on", "cursor", `{"event":"statusChange","timestamp":"2024-01-01T12:00:00.001Z","id":"bc_1","status":"FINISHED"}`,
			[]string{"X-Webhook-ID: w1"}, "w1 | com.cursor.statusChange | bc_1 | timestamp 2024-01-01T12:00:00.001000000Z | delta"},
		{"an instance of a meeting that recurs", "zoom", `{"event":"meeting.deleted","event_ts":1752566460000,"payload":{"account_id":"A","object":{"id":"843","uuid":"4nR0i/L9=="}}}`,
			nil, "sha256:... | com.zoom.meeting.deleted | A/4nR0i%2FL9%3D%3D | timestamp 2025-07-15T08:01:00.000000000Z | delta deleted"},
		{"a recording is not its meeting", "zoom", `{"event":"recording.deleted","event_ts":1752566460000,"payload":{"account_id":"A","object":{"uuid":"4nR0"}}}`,
			nil, "sha256:... | com.zoom.recording.deleted | A/4nR0 | timestamp 2025-07-15T08:01:00.000000000Z | delta"},
		{"an app is taken out of an account", "zoom", `{"event":"app_deauthorized","event_ts":1752566460000,"payload":{"account_id":"A","user_id":"U"}}`,
			nil, "sha256:... | com.zoom.app_deauthorized | A | timestamp 2025-07-15T08:01:00.000000000Z | delta"},
		{"no target", "okta", `{"uuid":"u","published":"2026-07-02T12:00:00.123Z","eventType":"user.session.start","actor":{"id":"00u"},"target":null}`,
			nil, "u | com.okta.user.session.start | 00u | timestamp 2026-07-02T12:00:00.123000000Z | delta"},
		{"who is put into a group is told of", "okta", `{"uuid":"u","published":"2026-07-02T12:00:00.1Z","eventType":"group.user_membership.add","actor":{"id":"00a"},"target":[{"id":"00u"},{"id":"00g"}]}`,
			nil, "u | com.okta.group.user_membership.add | 00u | timestamp 2026-07-02T12:00:00.100000000Z | delta"},
		{"the end of a user", "okta", `{"uuid":"u","published":"2026-07-02T12:00:00.1Z","eventType":"user.lifecycle.delete.completed","actor":{"id":"00a"},"target":[{"id":"00u"}]}`,
			nil, "u | com.okta.user.lifecycle.delete.completed | 00u | timestamp 2026-07-02T12:00:00.100000000Z | delta deleted"},
		{"read in the second in which it came", "whatsapp", `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"statuses":[{"id":"wamid.1","status":"read","timestamp":"1751430074","recipient_id":"2"}]}}`,
			nil, "sha256:... | com.whatsapp.statuses.read | 1/2 | status:wamid.1 timestamp 2025-07-02T04:21:14.000000000Z+00003 | delta"},
		{"another field of the account", "whatsapp", `{"field":"message_template_status_update","value":{"event":"APPROVED"}}`,
			[]string{"Forebay-Around: 10:1739321024"}, "10:1739321024/sha256:8d1bd514f34c94010b4f6d3182c2a6264e8fd4060fc5d88d6495b331032dd1f5 | com.whatsapp.message_template_status_update | in | none | delta"},
	} {
		t.Run(tt.preset+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := compile(t, provider.Config{Preset: tt.preset}).Event(request(tt.body, tt.headers...), received)
			if err != nil {
				t.Fatal(err)
			}
			got := brief(e)
			if hash, rest, _ := strings.Cut(got, " | "); strings.HasPrefix(hash, "sha256:") {
				got = "sha256:... | " + rest
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestOktaLists: each element of a delivery is an event, and one that is delivered again with others is the same one.
func TestOktaLists(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "okta"})
	const one = `{"uuid":"u1","published":"2026-07-02T12:00:00Z","eventType":"a","actor":{"id":"x"}}`
	ids := func(body string) (ids []string) {
		elements, err := s.Split(request(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range elements {
			e, err := s.Event(&r, received)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.ID)
		}
		return ids
	}
	if got := ids(`{"eventId":"d1","data":{"events":[` + one + `,` + strings.Replace(one, "u1", "u2", 1) + `]}}`); !slices.Equal(got, []string{"u1", "u2"}) {
		t.Errorf("two events came as %q", got)
	}
	if got := ids(`{"eventId":"d2","data":{"events":[` + one + `]}}`); !slices.Equal(got, []string{"u1"}) {
		t.Errorf("one of them again came as %q", got)
	}
}

// TestListsInLists: a delivery of which one list cannot be read is kept whole.
func TestListsInLists(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "whatsapp"})
	for body, want := range map[string]int{`{"entry":[{"changes":[{},{}]},{"changes":[]},{"changes":{}}]}`: 3, `{"entry":[]}`: 0,
		`{"entry":[{"changes":[{}]},{"messaging":[{}]}]}`: -1, `{"entry":[{"changes":[{}]},7]}`: -1} {
		elements, err := s.Split(request(body))
		if want < 0 && err == nil || want >= 0 && (err != nil || len(elements) != want) {
			t.Errorf("%s: %d elements, %v", body, len(elements), err)
		}
	}
}

// TestWhatsAppChanges: what changes of an account from one thing to another and back is told twice with the same words, in entries of two times. A
// retry is the same, and so is a message, whatever stands around it. A header makes no other event of what is signed.
func TestWhatsAppChanges(t *testing.T) {
	t.Parallel()
	ids := func(s *provider.Source, body string, headers ...string) (ids []string) {
		t.Helper()
		elements, err := s.Split(request(body, headers...))
		if err != nil {
			t.Fatal(body, err)
		}
		for i := range elements {
			e, err := s.Event(&elements[i], received)
			if err != nil {
				t.Fatal(body, err)
			}
			ids = append(ids, e.ID)
		}
		return ids
	}
	entry := func(id, time, change string) string {
		return `{"id":"` + id + `","time":` + time + `,"changes":[` + change + `]}`
	}
	const flagged = `{"field":"phone_number_quality_update","value":{"display_phone_number":"1","event":"FLAGGED"}}`
	const message = `{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"messages":[{"from":"2","id":"wamid.1","timestamp":"1751430074","type":"text"}]}}`
	const status = `{"field":"messages","value":{"statuses":[{"id":"wamid.1","status":"read","timestamp":"1751430074","recipient_id":"2"}]}}`
	s := compile(t, provider.Config{Preset: "whatsapp"})
	first := `{"entry":[` + entry("10", "1739321024", flagged) + `,` + entry("10", "1739321099", flagged) + `,` + entry("11", "1739321024", flagged) + `]}`
	three := ids(s, first)
	if len(three) != 3 || three[0] == three[1] || three[0] == three[2] || three[1] == three[2] {
		t.Errorf("three changes have the ids %q", three)
	}
	for _, headers := range [][]string{nil, {"Forebay-Around: 10:1"}} {
		if again := ids(s, first, headers...); !slices.Equal(again, three) {
			t.Errorf("sent again, with %q, they are %q, and were %q", headers, again, three)
		}
	}
	for _, change := range []string{message, status} {
		if two := ids(s, `{"entry":[`+entry("10", "1", change)+`,`+entry("10", "2", change)+`,{"changes":[`+change+`]}]}`); two[0] != two[1] || two[1] != two[2] {
			t.Errorf("%s has the ids %q", change, two)
		}
	}
	const failed = `{"field":"messages","value":{"errors":[{"code":131000}]}}`
	if two := ids(s, `{"entry":[`+entry("10", "1", failed)+`,`+entry("10", "2", failed)+`]}`); two[0] == two[1] {
		t.Errorf("two errors of the account, which are no message, have the ids %q", two)
	}
	if one := ids(s, `{"entry":[{"id":{},"changes":[`+flagged+`]}]}`); len(one) != 1 {
		t.Errorf("an entry without id and time: %q", one)
	}
	own := compile(t, provider.Config{Preset: "whatsapp", Each: "/changes"})
	if a, b := ids(own, `{"changes":[`+flagged+`]}`, "Forebay-Around: a"), ids(own, `{"changes":[`+flagged+`]}`); !slices.Equal(a, b) {
		t.Errorf("a header makes %q of %q", a, b)
	}
	if _, err := s.Split(request(`{"entry":[{"id":"1","id":"2","changes":[]}]}`)); err == nil {
		t.Error("an entry with two ids was taken")
	}
}

// TestHandshakesOfBusiness: what is no handshake is not answered as one.
func TestHandshakesOfBusiness(t *testing.T) {
	t.Parallel()
	zoom, okta := compile(t, provider.Config{Preset: "zoom"}), compile(t, provider.Config{Preset: "okta"})
	for _, body := range []string{`{"event":"meeting.started","payload":{"object":{"topic":"endpoint.url_validation"}}}`, `{"event":"endpoint.url_validation"}`,
		`{"event":"endpoint.url_validation","payload":{"plainToken":7}}`, `url_validation`} {
		if _, ok := zoom.Challenge(request(body)); ok {
			t.Errorf("%s is answered", body)
		}
	}
	whatsapp := compile(t, provider.Config{Preset: "whatsapp", Secrets: []schemas.Secret{schemas.NewSecret("meta-app-secret")}})
	// printf hub.verify_token | openssl dgst -sha256 -hmac meta-app-secret
	const token = "f39c05077413135f839e26b62597c4eadb1cb847583b77a71ad65e2ccdb0660e"
	for query, want := range map[string]string{"hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=" + token: "1158201444",
		"hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=x": "", "hub.mode=subscribe&hub.challenge=1158201444": "",
		"hub.mode=subscribe&hub.challenge=%3Cscript%3E&hub.verify_token=" + token: "", "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=" + token: ""} {
		answer, ok := whatsapp.Challenge(&verify.Request{Method: "GET", Query: query})
		if ok != (want != "") || ok && string(answer.Body) != want {
			t.Errorf("%s: %v %+v", query, ok, answer)
		}
	}
	if verified, asks := okta.Asks("GET"); !verified || !asks {
		t.Error("Okta's question is answered without its token")
	}
	if _, ok := okta.Challenge(request(`{}`, "X-Okta-Verification-Challenge: c")); ok {
		t.Error("a delivery is answered as the question")
	}
}

// TestTolerances: those that are not the usual 5 minutes. The vectors bring their own.
func TestTolerances(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{"elevenlabs": 30 * time.Minute, "paddle": 5 * time.Second, "calendly": 5 * time.Minute,
		"shopify": 0, "telegram": 0} {
		if info, _ := provider.Lookup(name); info.Tolerance.Std() != want {
			t.Errorf("%s takes what was signed %s ago, want %s", name, info.Tolerance.Std(), want)
		}
	}
}

// TestPeopleOfBusiness: who made it happen, where the provider says so.
func TestPeopleOfBusiness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		preset, body string
		want         schemas.Sender
		title        string
	}{
		{"telegram", `{"update_id":1,"message":{"from":{"id":9,"username":"priya","is_bot":false},"chat":{"id":-1,"title":"Ops"}}}`, schemas.Sender{ID: "9", Login: "priya", Kind: schemas.Human}, "Ops"},
		{"telegram", `{"update_id":1,"edited_message":{"from":{"id":8,"first_name":"Deploys","is_bot":true},"chat":{"id":8,"first_name":"Deploys"}}}`, schemas.Sender{ID: "8", Login: "Deploys", Kind: schemas.Automation}, "Deploys"},
		{"telegram", `{"update_id":1,"message_reaction":{"user":{"id":9},"chat":{"id":-1}}}`, schemas.Sender{ID: "9", Kind: schemas.Human}, ""},
		{"telegram", `{"update_id":1,"channel_post":{"chat":{"id":-1,"title":"News"}}}`, schemas.Sender{}, "News"},
		{"intercom", `{"id":"n","topic":"conversation.admin.replied","created_at":1,"data":{"item":{"source":{"author":{"id":"u","type":"user"}},"conversation_parts":{"conversation_parts":[{"author":{"id":"814","type":"bot","name":"Fin"}}]}}}}`,
			schemas.Sender{ID: "814", Login: "Fin", Kind: schemas.Automation}, ""},
		{"intercom", `{"id":"n","topic":"conversation.user.created","created_at":1,"data":{"item":{"source":{"subject":"Help","author":{"id":"u","type":"user"}}}}}`, schemas.Sender{ID: "u", Kind: schemas.Human}, "Help"},
		// Who closed it is not who began it.
		{"intercom", `{"id":"n","topic":"conversation.admin.closed","created_at":1,"data":{"item":{"source":{"author":{"id":"u","type":"user"}}}}}`, schemas.Sender{}, ""},
		{"cycles", `{"event_id":"e","event_type":"budget.funded","category":"budget","timestamp":"2026-04-01T12:00:00Z","actor":{"type":"api_key","key_id":"k"},"data":{"scope":"tenant:t"}}`, schemas.Sender{ID: "k", Login: "api_key"}, "tenant:t"},
		{"zoom", `{"event":"meeting.participant_joined","event_ts":1752566460000,"payload":{"object":{"uuid":"u","topic":"Sync","participant":{"id":"p","user_name":"Priya"}}}}`, schemas.Sender{ID: "p", Login: "Priya"}, "Sync"},
		{"okta", `{"uuid":"u","published":"2026-07-02T12:00:00Z","eventType":"x","actor":{"id":"00a","type":"User","alternateId":"ann@example.com"},"target":[{"id":"00u","displayName":"Jane"}]}`,
			schemas.Sender{ID: "00a", Login: "ann@example.com", Kind: schemas.Human}, "Jane"},
		{"okta", `{"uuid":"u","published":"2026-07-02T12:00:00Z","eventType":"x","actor":{"id":"0oa","type":"PublicClientApp"}}`, schemas.Sender{ID: "0oa", Kind: schemas.Automation}, ""},
		{"resend", `{"type":"email.opened","created_at":"2026-06-18T09:20:11Z","data":{"email_id":"e","subject":"Welcome"}}`, schemas.Sender{}, "Welcome"},
	} {
		r := request(tt.body, "svix-id: msg_1")
		e, err := compile(t, provider.Config{Preset: tt.preset}).Event(r, received)
		if err != nil || e.Sender != tt.want || e.Title != tt.title {
			t.Errorf("%s %s: %+v %v, want %+v %q", tt.preset, tt.body, e, err, tt.want, tt.title)
		}
	}
}

func shop(topic string) []string {
	return []string{"X-Shopify-Topic: " + topic, "X-Shopify-Shop-Domain: a.myshopify.com", "X-Shopify-Event-Id: e1", "X-Shopify-Webhook-Id: w1"}
}

// TestShopifyIdentity: an order that is paid as it is made comes under two topics with one body, and one event id. These are two events; the same
// delivery under other ids is none, and a body under the topic of another resource is refused.
func TestShopifyIdentity(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "shopify"})
	const order = `{"id":1,"updated_at":"2021-12-31T19:00:00-05:00","order_number":1001,"line_items":[]}`
	read := func(topic, event string) string {
		r := request(order, shop(topic)...)
		r.Header.Set("X-Shopify-Event-Id", event)
		r.Header.Set("X-Shopify-Webhook-Id", event)
		e, err := s.Event(r, received)
		if err != nil {
			return err.Error()
		}
		return e.ID
	}
	created := read("orders/create", "e1")
	if created != read("orders/create", "e2") {
		t.Error("another id in a header, which nobody signs, makes another event")
	}
	if created == read("orders/paid", "e1") {
		t.Error("orders/create and orders/paid of one body are one event")
	}
	for _, topic := range []string{"orders/delete", "products/update", "products/delete", "checkouts/create", "refunds/create", "orders/delete/x", "Orders/create", "orders.create", "customer.tags_added", "customer/tags_added"} {
		if got := read(topic, "e1"); !strings.HasPrefix(got, provider.TypeMismatch) {
			t.Errorf("an order as %s: %s", topic, got)
		}
	}
}

// TestShopifyRepeats: bodies without a time that tells two events apart are listed, each with what to do.
func TestShopifyRepeats(t *testing.T) {
	t.Parallel()
	info, _ := provider.Lookup("shopify")
	for _, event := range []string{"fulfillment_orders.hold_released", "fulfillment_orders.order_routing_complete", "fulfillment_orders.scheduled_fulfillment_order_ready",
		"collection_listings.remove", "inventory_levels.update"} {
		if i := slices.IndexFunc(info.Repeats, func(r provider.Repeat) bool { return r.Event == event }); i < 0 || info.Repeats[i].Do == "" {
			t.Errorf("%s is not listed, or without advice: %+v", event, info.Repeats)
		}
	}
}

// TestOrderOfBusiness: what says the same time, or another than that of what it tells, has an order by something else.
func TestOrderOfBusiness(t *testing.T) {
	t.Parallel()
	booking := func(version, at string) string {
		return `{"merchant_id":"M","type":"booking.updated","event_id":"e","created_at":"` + at + `","data":{"type":"booking","id":"B:` + version + `","object":{"booking":{"id":"B","version":` + version + `}}}}`
	}
	order(t, "square", false, booking("1", "2026-07-01T23:14:27Z"), booking("2", "2026-07-01T23:14:26Z"), booking("10", "2026-07-01T23:14:26Z"))
	subscription := func(what string) string {
		return `{"id":"` + what + `","object":"event","type":"customer.subscription.` + what + `","created":1677834420,"data":{"object":{"object":"subscription","id":"sub_1"}}}`
	}
	order(t, "stripe", false, subscription("created"), subscription("updated"), subscription("deleted"))
	const start, end = `"start_timestamp":1752562800000`, `"start_timestamp":1752562800000,"end_timestamp":1752562875000`
	call := func(event, times string) string {
		return `{"event":"` + event + `","call":{"call_id":"c",` + times + `}}`
	}
	order(t, "retell", false, call("call_started", start), call("call_ended", end), call("call_analyzed", end))
	order(t, "retell", true, call("call_started", start), call("transfer_started", start), call("transcript_updated", start))
	order(t, "retell", true, call("call_ended", end), call("transfer_ended", end), call("transcript_updated", end))
	order(t, "retell", false, `{"event":"chat_ended","chat":{"chat_id":"c",`+end+`}}`, `{"event":"chat_analyzed","chat":{"chat_id":"c",`+end+`}}`)
}

// TestVolatileParts: what a provider changes from one attempt to the next makes no other event of it.
func TestVolatileParts(t *testing.T) {
	t.Parallel()
	for preset, bodies := range map[string][2]string{
		"paddle": {`{"event_id":"e","event_type":"x","occurred_at":"2024-04-11T15:59:57Z","notification_id":"ntf_1"}`,
			`{"event_id":"e","event_type":"x","occurred_at":"2024-04-11T15:59:57Z","notification_id":"ntf_2"}`},
		"zoom": {`{"event":"recording.completed","payload":{"object":{"uuid":"u","download_token":"a"}},"download_token":"b"}`,
			`{"event":"recording.completed","payload":{"object":{"uuid":"u","download_token":"c"}},"download_token":"d"}`},
		"intercom": {`{"id":"n","topic":"x","created_at":1781524800,"delivery_attempts":1}`, `{"id":"n","topic":"x","created_at":1781524800,"delivery_attempts":2}`},
	} {
		s := compile(t, provider.Config{Preset: preset})
		first, err := s.Event(request(bodies[0]), received)
		if err != nil {
			t.Fatal(preset, err)
		}
		again, err := s.Event(request(bodies[1]), received)
		if err != nil {
			t.Fatal(preset, err)
		}
		if first.ID != again.ID || first.Hash != again.Hash {
			t.Errorf("%s: %s with %x, and again %s with %x", preset, first.ID, first.Hash, again.ID, again.Hash)
		}
	}
}
