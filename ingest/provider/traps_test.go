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
