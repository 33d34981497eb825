package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(elevenlabs())

// elevenlabs: an entity is a conversation with an agent, whose transcript, audio or failure comes when it is over.
//
// No id is on the wire: it is the body's hash. The time that is signed may be half an hour old. The audio is in the body, in base64. A webhook
// that failed ten times in a row, and has not had a success for 7 days, is disabled.
// Sources: https://elevenlabs.io/docs/eleven-agents/workflows/post-call-webhooks, https://elevenlabs.io/docs/eleven-api/resources/webhooks,
// elevenlabs/elevenlabs-python src/elevenlabs/webhooks_custom.py.
func elevenlabs() preset {
	return preset{
		name: "elevenlabs", title: "ElevenLabs",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "ElevenLabs-Signature", Field: "v0", TimestampField: "t",
			Signed: "{timestamp}.{body}", Tolerance: 30 * time.Minute},
		maxBody: 25 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: ElevenLabs does not say",
		takes:   "what is not 408, 429 or 5xx is not sent again (https://elevenlabs.io/docs/eleven-api/resources/webhooks)",
		retries: "none, unless the webhook's retries are switched on; then 5 within 41 min", retryHorizon: time.Hour,
		prefix: "com.elevenlabs.",
		fallback: mapping{id: "sha256:body", typ: []string{"/type"}, entity: []string{"/data/conversation_id?"}, clocks: seconds("/event_timestamp?", ""),
			sender: sender{id: "/data/user_id"}, title: "/data/analysis/call_summary_title|/data/analysis/transcript_summary|/data/agent_name"},
	}
}
