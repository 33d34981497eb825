package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(cycles())

// cycles: an event says what happened to a budget (of a scope and a unit), a reservation, a key or a policy of a tenant; none carries the whole
// of it. Events of the system have the tenant as entity. Their time is their clock. Who did it is a key, which a person may have or a program.
//
// The body has the id that X-Cycles-Event-Id repeats. A subscription whose deliveries failed ten times in a row is disabled, and what is older
// than 24 h is not sent any more.
// Sources: runcycles/cycles-server-events README.md and src/main/java/io/runcycles/events/transport/webhook, runcycles/cycles-server-admin model/event.
func cycles() preset {
	const tenant = "/tenant_id?"
	kind := func(of ...string) mapping {
		return mapping{entity: append([]string{tenant}, of...), clocks: micros("/timestamp", "")}
	}
	ends := func(m mapping, typ string) mapping {
		m.deleted = &condition{from: "/event_type", is: []string{typ}}
		return m
	}
	return preset{
		name: "cycles", title: "Cycles",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Cycles-Signature", Prefix: "sha256="},
		maxBody: 1 << 20, deadline: 30 * time.Second,
		retries: "5: after 1, 2, 4, 8 and 16 s", retryHorizon: day,
		prefix:  "com.cycles.",
		headers: []string{"x-cycles-event-id", "x-cycles-event-type", "x-cycles-trace-id", "x-request-id"},
		selects: []string{"/category?"},
		fallback: mapping{id: "/event_id", typ: []string{"/event_type"}, entity: []string{tenant}, clocks: micros("/timestamp", ""),
			sender: sender{id: "/actor/key_id|/actor/type", login: "/actor/type"}, title: "/data/scope|/scope|/data/key_name|/data/name"},
		rules: map[string]mapping{
			"budget":      ends(kind("=budget", "/data/scope|/scope|/data/ledger_id|/data/budget_id?", "/data/unit?"), "budget.closed"),
			"reservation": kind("=reservation", "/data/reservation_id|/data/scope|/scope?"),
			"api_key":     kind("=api_key", "/data/key_id|/actor/key_id?"),
			"policy":      ends(kind("=policy", "/data/policy_id|/scope?"), "policy.deleted"),
			"tenant":      ends(kind(), "tenant.closed"),
		},
	}
}
