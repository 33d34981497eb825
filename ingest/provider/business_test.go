package provider_test

import (
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
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
		{"a contact restated", "intercom", `{"type":"notification_event","topic":"contact.user.updated","id":"notif_1","app_id":"a","created_at":1781524800,"data":{"item":{"type":"contact","id":"c"}}}`,
			nil, "notif_1 | com.intercom.contact.user.updated | a/contact/c | timestamp 2026-06-15T12:00:00.000000000Z | snapshot"},
		{"answers so far have no time", "typeform", `{"event_id":"e","event_type":"form_response_partial","form_response":{"form_id":"f","token":"t","landed_at":"2026-07-08T14:02:11Z"}}`,
			nil, "e | com.typeform.form_response_partial | f/t | none | delta"},
		{"who did not show up is the invitee", "calendly", `{"event":"invitee_no_show.created","created_at":"2026-06-01T15:22:41.000001Z","payload":{"uri":"https://x/no_shows/1","invitee":"https://x/invitees/1"}}`,
			nil, "sha256:dc88c1fc014e6d50cfad5bbaf4d9471da7418f2ea6d879034ccc99899edd225a | com.calendly.invitee_no_show.created | https:%2F%2Fx%2Finvitees%2F1 | timestamp 2026-06-01T15:22:41.000001000Z | delta"},
	} {
		t.Run(tt.preset+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := compile(t, provider.Config{Preset: tt.preset}).Event(request(tt.body, tt.headers...), received)
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(e); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestVolatileParts: what a provider changes from one attempt to the next makes no other event of it.
func TestVolatileParts(t *testing.T) {
	t.Parallel()
	for preset, bodies := range map[string][2]string{
		"paddle": {`{"event_id":"e","event_type":"x","occurred_at":"2024-04-11T15:59:57Z","notification_id":"ntf_1"}`,
			`{"event_id":"e","event_type":"x","occurred_at":"2024-04-11T15:59:57Z","notification_id":"ntf_2"}`},
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
