package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(vapi())

// vapi: an entity is a call. What Vapi asks during one (tool-calls, assistant-request, transfer-destination-request) it wants answered at
// once, with what is said next: send it to a server of its own, and here status-update, end-of-call-report and the like.
//
// No id is on the wire: it is the body's hash. A part of a transcript has no time: said twice in a call, it is one event.
// Sources: https://docs.vapi.ai/server-url/events, https://docs.vapi.ai/server-url/server-authentication.
func vapi() preset {
	return preset{
		name: "vapi", title: "Vapi",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Vapi-Signature"},
		maxBody: 5 << 20, deadline: 20 * time.Second, deadlineNote: "or the timeoutSeconds of its server: VapiAI/server-sdk-typescript src/api/types/Server.ts",
		retries: "none, unless the server's backoffPlan says so; an hour is assumed", retryHorizon: time.Hour,
		prefix:  "ai.vapi.",
		repeats: []Repeat{{"transcript", ""}, {"speech-update", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{"/message/type"}, entity: []string{"/message/call/orgId?", "/message/call/id?"}, clocks: millis("/message/timestamp?", ""),
			sender: sender{id: "/message/customer/number|/message/call/customer/number"}, title: "/message/analysis/summary|/message/assistant/name"},
	}
}
