package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// jobs is a source whose statuses follow each other within one second.
func jobs(v provider.VersionConfig) provider.Config {
	cfg := orders()
	cfg.Event.Entity, cfg.Event.Version = []string{"/job"}, &v
	return cfg
}

var states = &provider.RankConfig{From: "/status", Order: []string{"queued", "in_progress", "completed"}}

func TestRankOrdersWhatHappensInOneSecond(t *testing.T) {
	t.Parallel()
	s := compile(t, jobs(provider.VersionConfig{From: "/at", Kind: "timestamp", Rank: states}))
	var last schemas.Version
	for i, status := range states.Order {
		e, err := s.Event(request(`{"type":"t","job":1,"at":1557933618,"status":"`+status+`"}`, "X-Event-Id: i"), received)
		if err != nil {
			t.Fatal(err)
		}
		if e.Version.Sub != int32(i+1) || e.Version.Compare(last) <= 0 {
			t.Errorf("%s: %+v after %+v", status, e.Version, last)
		}
		last = e.Version
	}
	if got := last.Sortable(); got != "2019-05-15T15:20:18.000000000Z+00003" {
		t.Error(got)
	}
	e, err := s.Event(request(`{"type":"t","job":1,"at":1557933619,"status":"queued"}`, "X-Event-Id: i"), received)
	if err != nil || e.Version.Compare(last) <= 0 {
		t.Errorf("a later second is not newer: %+v %v", e, err)
	}
}

func TestRankOfACounterFromAHeader(t *testing.T) {
	t.Parallel()
	s := compile(t, jobs(provider.VersionConfig{From: "/rev", Kind: "sequence",
		Rank: &provider.RankConfig{From: "header:X-Status", Order: []string{"7", "8"}}}))
	e, err := s.Event(request(`{"type":"t","job":1,"rev":4}`, "X-Event-Id: i", "X-Status: 8"), received)
	if err != nil || e.Version.Sortable() != "00000000000000000004+00002" {
		t.Errorf("%+v %v", e, err)
	}
}

// A status without a place is kept for an operator, as every authentic delivery that cannot become an event.
func TestRankRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := compile(t, jobs(provider.VersionConfig{From: "/at", Kind: "timestamp", Rank: states}))
	for body, want := range map[string]string{
		`"status":"cancelled"`: provider.BadVersion,
		`"status":null`:        provider.MissingField,
		`"state":"queued"`:     provider.MissingField,
		`"status":true`:        provider.WrongType,
	} {
		_, err := s.Event(request(`{"type":"t","job":1,"at":1557933618,`+body+`}`, "X-Event-Id: i"), received)
		bad, ok := errors.AsType[*provider.Unusable](err)
		if !ok || bad.Reason != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
		if ok && strings.Contains(bad.Detail, "cancelled") {
			t.Errorf("the detail says the value: %s", bad.Detail)
		}
	}
}

// TestResolutionCutsWhatIsFiner: a provider that writes its field with and without a fraction means one second.
func TestResolutionCutsWhatIsFiner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		resolution time.Duration
		at, want   string // want empty: unusable
	}{
		{0, `"2026-07-14T18:56:00.738123456Z"`, "2026-07-14T18:56:00.738123456Z"},
		{time.Nanosecond, `"2026-07-14T18:56:00.738123456Z"`, "2026-07-14T18:56:00.738123456Z"},
		{time.Microsecond, `"2026-07-14T18:56:00.738123456Z"`, "2026-07-14T18:56:00.738123000Z"},
		{time.Millisecond, `"2026-07-14T18:56:00.738123456Z"`, "2026-07-14T18:56:00.738000000Z"},
		{time.Second, `"2026-07-14T18:56:00.738123456Z"`, "2026-07-14T18:56:00.000000000Z"},
		{time.Second, `"2026-07-14 18:56:00 UTC"`, "2026-07-14T18:56:00.000000000Z"},
		{time.Second, `"1969-12-31T23:59:59.5Z"`, "1969-12-31T23:59:59.000000000Z"}, // down, before 1970 too
		{time.Second, `"1677-09-21T00:12:43.5Z"`, ""},                               // inside the range, its second is not
		{0, `"1677-09-21T00:12:43.5Z"`, "1677-09-21T00:12:43.500000000Z"},
	} {
		s := compile(t, jobs(provider.VersionConfig{From: "/at", Kind: "timestamp", Resolution: c.resolution}))
		e, err := s.Event(request(`{"type":"t","job":1,"at":`+c.at+`}`, "X-Event-Id: i"), received)
		if c.want == "" {
			if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != provider.BadVersion {
				t.Errorf("%s in %s: %+v %v", c.at, c.resolution, e, err)
			}
			continue
		}
		if err != nil || e.Version.Sortable() != c.want {
			t.Errorf("%s in %s: %+v %v, want %s", c.at, c.resolution, e, err, c.want)
		}
	}
	s := compile(t, jobs(provider.VersionConfig{From: "/at", Kind: "timestamp", Resolution: time.Second}))
	e, err := s.Event(request(`{"type":"t","job":1,"at":"2026-07-14T18:56:00.738Z"}`, "X-Event-Id: i"), received)
	if err != nil || e.Time.Nanosecond() != 738e6 {
		t.Errorf("the event's time was cut with its version: %+v %v", e, err)
	}
}

// A body of which nobody says what it is counts as news, which is never dropped.
func TestPayloadOfGenericIsDelta(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event.Payload = ""
	e, err := compile(t, cfg).Event(request(`{"type":"t","order":{"id":1,"rev":1}}`, "X-Event-Id: i"), received)
	if err != nil || e.Payload != schemas.Delta {
		t.Errorf("%+v %v", e, err)
	}
}

// TestPresetRanks: what GitHub says of a check, a run or a job within one second has an order, and a new attempt comes after all of the
// one before. Checks of one commit do not touch each other.
func TestPresetRanks(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "github"})
	version := func(event, object string) schemas.Version {
		t.Helper()
		e, err := s.Event(request(`{"action":"a","repository":{"id":7},"`+event+`":{`+object+`}}`, "X-GitHub-Event: "+event, "X-GitHub-Delivery: 1"), received)
		if err != nil {
			t.Fatal(event, object, err)
		}
		return e.Version
	}
	const (
		at    = `"updated_at":"2019-05-15T15:20:18Z","started_at":"2019-05-15T15:20:18Z"`
		later = `"updated_at":"2019-05-15T15:20:17Z","started_at":"2019-05-15T15:20:17Z"` // of a clock that was set back
	)
	for event, objects := range map[string][]string{
		"check_run": {`"id":1,"head_sha":"ab","status":"queued",` + at, `"id":1,"head_sha":"ab","status":"in_progress",` + at,
			`"id":1,"head_sha":"ab","status":"completed","completed_at":"2019-05-15T15:20:18Z",` + at},
		"workflow_run": {`"id":1,"run_attempt":1,"status":"queued",` + at, `"id":1,"run_attempt":1,"status":"in_progress",` + at,
			`"id":1,"run_attempt":1,"status":"completed",` + at, `"id":1,"run_attempt":2,"status":"queued",` + later},
		"workflow_job": {`"id":1,"run_id":1,"run_attempt":1,"status":"queued",` + at, `"id":1,"run_id":1,"run_attempt":1,"status":"in_progress",` + at,
			`"id":1,"run_id":1,"run_attempt":1,"status":"completed",` + at, `"id":1,"run_id":1,"run_attempt":2,"status":"queued",` + later},
	} {
		before := version(event, objects[0])
		for _, object := range objects[1:] {
			now := version(event, object)
			if now.Clock != before.Clock || now.Compare(before) <= 0 {
				t.Errorf("%s: %+v is not after %+v", event, now, before)
			}
			before = now
		}
	}
	// A job that waits for an approval is queued before it and behind it: neither makes the other stale, and both are before its run.
	job := func(status string) schemas.Version {
		return version("workflow_job", `"id":1,"run_id":1,"run_attempt":1,"status":"`+status+`",`+at)
	}
	for _, status := range []string{"waiting", "requested", "pending"} {
		if job(status).Compare(job("queued")) != 0 || job("in_progress").Compare(job(status)) <= 0 {
			t.Errorf("%s: %+v, queued: %+v, in_progress: %+v", status, job(status), job("queued"), job("in_progress"))
		}
	}
	one, other := version("check_run", `"id":1,"head_sha":"ab","status":"queued",`+at), version("check_run", `"id":2,"head_sha":"ab","status":"queued",`+at)
	if one.Clock == other.Clock {
		t.Errorf("two checks share the clock %s", one.Clock)
	}
	if v := version("workflow_run", `"id":1,"status":"queued",`+at); v.Epoch != 0 || v.Kind != schemas.Timestamp {
		t.Errorf("a run without an attempt: %+v", v)
	}
}

// What ends a comment or a review comes with the time of its last change. It is the newest of its own clock, and no other object's.
func TestEndsAreNewest(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "github"})
	version := func(event, body string) schemas.Version {
		e, err := s.Event(request(body, "X-GitHub-Event: "+event, "X-GitHub-Delivery: 1"), received)
		if err != nil {
			t.Fatal(event, err)
		}
		return e.Version
	}
	comment := func(action string, id int, at string) schemas.Version {
		return version("issue_comment", fmt.Sprintf(`{"action":%q,"issue":{"number":9},"comment":{"id":%d,"updated_at":%q},"repository":{"id":1}}`, action, id, at))
	}
	review := func(action string, id int, at string) schemas.Version {
		return version("pull_request_review", fmt.Sprintf(`{"action":%q,"pull_request":{"number":9},"review":{"id":%d,"submitted_at":%q},"repository":{"id":1}}`, action, id, at))
	}
	const early, late = "2026-11-28T10:00:00Z", "2026-11-28T10:05:00Z"
	for name, order := range map[string][]schemas.Version{
		"comment": {comment("created", 1, early), comment("edited", 1, late), comment("deleted", 1, late)},
		"review":  {review("submitted", 1, early), review("dismissed", 1, early)},
	} {
		for i, v := range order[1:] {
			if v.Clock != order[i].Clock || v.Compare(order[i]) <= 0 {
				t.Errorf("%s: %+v is not newer than %+v", name, v, order[i])
			}
		}
	}
	if comment("created", 2, late).Clock == comment("deleted", 1, early).Clock || review("submitted", 2, late).Clock == review("dismissed", 1, early).Clock {
		t.Error("two objects have one clock")
	}
}

// A version that may be missing: what has none goes as it arrives.
func TestVersionMayBeMissing(t *testing.T) {
	t.Parallel()
	cfg := jobs(provider.VersionConfig{From: "/at", Kind: "timestamp", Missing: "arrival"})
	s := compile(t, cfg)
	for body, want := range map[string]schemas.VersionKind{`"at":"2026-11-28T10:00:00Z"`: schemas.Timestamp, `"at":null`: schemas.None, `"no":1`: schemas.None, `"at":""`: schemas.None} {
		e, err := s.Event(request(`{"type":"t","job":1,`+body+`}`, "X-Event-Id: i"), received)
		if err != nil || e.Version.Kind != want {
			t.Errorf("%s: %+v, %v", body, e, err)
		}
	}
	if _, err := s.Event(request(`{"type":"t","job":1,"at":"soon"}`, "X-Event-Id: i"), received); err == nil {
		t.Error("a version that is none was taken for a missing one")
	}
}
