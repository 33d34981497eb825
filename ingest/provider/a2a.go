package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(a2a())

// a2a: push notifications of A2A 1.0. The body is a StreamResponse: a task, a change of its status, a piece of an artifact, or a message. An entity is a
// task. Its status has a time, which orders whole tasks among themselves, and changes of status among themselves; artifacts and messages have none. Only a
// whole task that is still at work is a snapshot: a later one has all that it has. Changes of status may have a message that no later one repeats, and
// pieces of an artifact are parts: deltas.
//
// Notifications have no id. Only a message has; of what else has the same bytes there is one event: where pieces of an artifact are the same,
// what is whole is in the task (GetTask).
//
// The server sends back the token that it was given with the URL, in A2A-Notification-Token or, as its SDKs do, X-A2A-Notification-Token; or a
// JWT (verify.jwks_url, issuer). It should be sent again after a failure, nobody says for how long.
// Sources: https://a2a-protocol.org/latest/specification/#433-push-notification-payload, a2aproject/A2A docs/topics/streaming-and-async.md,
// a2aproject/a2a-python src/a2a/server/tasks/base_push_notification_sender.py.
func a2a() preset {
	status := func(of, clockName string) []clock {
		return []clock{{from: of + "/status/timestamp?", kind: schemas.Timestamp, name: clockName, resolution: time.Nanosecond}}
	}
	return preset{
		name: "a2a", title: "A2A",
		verify:  verify.Params{Scheme: verify.SchemeA2A},
		maxBody: 10 << 20, deadline: 10 * time.Second, deadlineNote: "of a2a-python; others as they like",
		retries: "as the server does, if it does; a day is assumed", retryHorizon: day,
		chain: true, prefix: "org.a2a-protocol.", names: []string{"task_state_", "", "_", "-"},
		repeats:  []Repeat{{Event: "org.a2a-protocol.artifact", Do: "GetTask has the whole artifact"}},
		selects:  []string{"=task{/task}|=status{/statusUpdate}|=artifact{/artifactUpdate}|=message{/message}?"},
		fallback: mapping{id: "sha256:body", typ: []string{"=notification"}},
		rules: map[string]mapping{
			"task": {typ: []string{"=task", "/task/status/state"}, entity: []string{"/task/id"}, clocks: status("/task", "task"),
				snapshots: &condition{from: "/task/status/state", is: []string{"TASK_STATE_WORKING"}}},
			"status":   {typ: []string{"=status", "/statusUpdate/status/state"}, entity: []string{"/statusUpdate/taskId"}, clocks: status("/statusUpdate", "status")},
			"artifact": {typ: []string{"=artifact"}, entity: []string{"/artifactUpdate/taskId"}},
			"message":  {id: "/message/messageId|sha256:body", typ: []string{"=message"}, entity: []string{"/message/taskId|/message/contextId?"}},
		},
	}
}
