package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(workos())

// workos: an entity is an object (a user, a group, a connection, a membership). All events carry the whole of it, but only `*.updated` says
// nothing more. Who joins a group is told of the group. Who signs in is an entity beside the user (by the email, where nobody has it), of whom
// `authentication.*` says no more than the id. The event's time is their clock.
//
// The time of signing is in milliseconds.
// Sources: https://workos.com/docs/webhooks, https://workos.com/docs/events/data-syncing/webhooks, https://workos.com/docs/events, workos/workos-node src/common/crypto.
func workos() preset {
	return preset{
		name: "workos", title: "WorkOS",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "WorkOS-Signature", Field: "v1", TimestampField: "t", TimestampUnit: "ms",
			Signed: "{timestamp}.{body}"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: WorkOS does not say",
		takes:   "any 2xx (https://workos.com/docs/webhooks)",
		retries: "for 3 days in production, at growing distances; elsewhere for minutes, and by hand", retryHorizon: 3 * day,
		prefix: "com.workos.",
		fallback: mapping{id: "/id", typ: []string{"/event"}, entity: []string{"/data/object?", "/data/id|/data/group/id|/data/user/id|/data/user_id|/data/email?"},
			clocks:    millis("/created_at", ""),
			snapshots: &condition{from: "/event", suffix: ".updated"},
			deleted:   &condition{from: "/event", suffix: ".deleted"},
			sender:    sender{id: "/context/actor/id", login: "/context/actor/name"},
			title:     "/data/name|/data/email|/data/group/name"},
	}
}
