package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(buildkite())

// buildkite: an entity is a build, whose jobs belong to it, each with a clock of its own; an agent is one, too. All is a delta: what has ended is
// told once, and a body may already have a later state than its event, because it is written when it is sent. A tie of times goes by the
// state. The body's `sender` is who made the hook, and nobody who did anything.
//
// There is no id, so it is the body's hash; the time that is signed is that of sending, and is in the header. For a hook with a token instead
// of signatures say `verify: {scheme: token, header: X-Buildkite-Token}`. The test of a hook, `ping`, has the same body each time.
// Sources: https://buildkite.com/docs/apis/webhooks/pipelines, buildkite/docs pages/apis/webhooks.
func buildkite() preset {
	stages := func(object, name, by string, states ...string) (all []clock) {
		for _, stage := range []string{"finished_at", "started_at", "runnable_at", "scheduled_at", "created_at"} {
			all = append(all, clock{from: object + "/" + stage + "?", kind: schemas.Timestamp, name: name, by: by, resolution: time.Millisecond,
				rank: &rank{from: object + "/state", order: states}})
		}
		return all
	}
	build := mapping{entity: []string{"/build/id"}, clocks: stages("/build", "build", "", "creating", "scheduled", "running", "failing", "canceling", "blocked", "passed", "failed", "canceled")}
	job := mapping{entity: []string{"/build/id"}, clocks: stages("/job", "job", "/job/id", "pending", "scheduled", "assigned", "accepted", "running", "passed", "failed", "canceled")}
	return preset{
		name: "buildkite", title: "Buildkite",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Buildkite-Signature", Field: "signature", TimestampField: "timestamp",
			Signed: "{timestamp}.{body}"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Buildkite says none",
		retries: "at growing distances, for up to a day", retryHorizon: day,
		prefix:  "com.buildkite.",
		selects: []string{"/event"},
		headers: []string{"x-buildkite-event", "x-buildkite-request"},
		repeats: []Repeat{{"ping", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{"/event"},
			entity: []string{"/build/id|agent:{/agent/id}|pipeline:{/pipeline/id}|organization:{/organization/id}?"},
			sender: sender{id: "/build/creator/id", login: "/build/creator/name"}, title: "/build/message|/pipeline/name"},
		rules: map[string]mapping{
			"build.scheduled": build,
			"build.running":   build,
			"build.failing":   build,
			"build.finished":  build,
			"build.skipped":   build,
			"job.scheduled":   job,
			"job.started":     job,
			"job.finished":    job,
			"job.activated":   job,
		},
	}
}
