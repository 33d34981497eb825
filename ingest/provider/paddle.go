package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(paddle())

// paddle (Paddle Billing): an entity is an object, and the time at which something happened to it is its only clock. All events of an object
// carry the whole of it, but only `*.updated` says nothing more.
//
// Every destination has a notification_id of its own, also when a notification is sent again by hand: the event's id is what stays. The
// time that is signed may be 5 s old: a later attempt is believed to be signed anew. If many are refused as too old, set verify.tolerance.
// Sources: https://developer.paddle.com/webhooks/signature-verification, https://developer.paddle.com/webhooks/respond-to-webhooks, PaddleHQ/paddle-node-sdk, PaddleHQ/paddle-go-sdk webhook_verifier.go.
func paddle() preset {
	return preset{
		name: "paddle", title: "Paddle",
		verify:  verify.Params{Scheme: verify.SchemePaddle},
		maxBody: 1 << 20, deadline: 5 * time.Second,
		accepted: plainOK,
		retries:  "60 within 3 days, 20 of them in the first hour; 3 within 15 min from a sandbox; by hand later", retryHorizon: 3 * day,
		prefix: "com.paddle.",
		fallback: mapping{
			id: "/event_id", typ: []string{"/event_type"}, entity: []string{"/data/id?"}, clocks: micros("/occurred_at", ""),
			snapshots: &condition{from: "/event_type", suffix: ".updated"},
			deleted:   &condition{from: "/event_type", suffix: ".deleted"},
			volatile:  []string{"/notification_id"},
			title:     "/data/invoice_number|/data/name|/data/description|/data/email",
		},
	}
}
