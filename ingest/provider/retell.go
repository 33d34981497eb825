package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(retell())

// retell: an entity is a call, which starts, ends and is analyzed; each event has the whole of it. No field is the time of the event, so that
// what says that it ended has the time of its end, as the analysis, which comes behind that; all before has that of its start (parts of a transcript,
// transfers), and goes as it arrives.
//
// No id is on the wire: it is the body's hash. The time of signing is in milliseconds, behind the body in what is signed.
// Sources: https://docs.retellai.com/features/secure-webhook, https://docs.retellai.com/features/webhook-overview, RetellAI/retell-typescript-sdk.
func retell() preset {
	return preset{
		name: "retell", title: "Retell AI",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Retell-Signature", Field: "d", TimestampField: "v", TimestampUnit: "ms",
			Signed: "{body}{timestamp}"},
		maxBody: 5 << 20, deadline: 10 * time.Second,
		takes:   "any 2xx (https://docs.retellai.com/features/webhook-overview)",
		retries: "3 (https://docs.retellai.com/features/webhook-overview); for how long is not said, an hour is assumed", retryHorizon: time.Hour,
		prefix: "com.retellai.",
		fallback: mapping{id: "sha256:body", typ: []string{"/event"}, entity: []string{"/call/call_id|/chat/chat_id?"},
			clocks: []clock{{from: "/call/end_timestamp|/call/start_timestamp|/chat/end_timestamp|/chat/start_timestamp?", kind: schemas.Timestamp,
				resolution: time.Millisecond, rank: &rank{from: "/event", order: []string{"call_analyzed", "chat_analyzed"}}}},
			sender: sender{id: "/call/from_number"}, title: "/call/call_analysis/call_summary|/call/agent_name"},
	}
}
