package batch

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// What waits for an operator is a line of its own at WARN, without debug: a conflict, and once for an entity a gap that ended in park or in
// dead letters, whether it was waited for or not.
func TestWhatWaitsForAnOperatorIsLogged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wait time.Duration
		then gate.Then
		want []string
	}{
		"parked, not waited for": {0, gate.ThenPark, []string{"decision=parked", "reason=gap_expired", "inbox list --decision parked"}},
		"parked, waited for":     {time.Nanosecond, gate.ThenPark, []string{"decision=parked", "reason=gap_expired", "inbox list --decision parked"}},
		"dead, not waited for":   {0, gate.ThenDeadLetter, []string{"decision=applied", "reason=gap_dead", "dlq list"}},
		"dead, waited for":       {time.Nanosecond, gate.ThenDeadLetter, []string{"decision=applied", "reason=gap_dead", "dlq list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, p, w := feeder(t, prometheus.NewRegistry(), func(p *gate.Policy) {
				p.Order, p.GapWait, p.Then = gate.OrderVersion, tt.wait, tt.then
			})
			var log bytes.Buffer
			l.log = slog.New(slog.NewTextHandler(&log, nil)).With("subscription", "acme.triage")
			read := stretch(p, 0, 7)
			for i, value := range []int64{1, 3, 4, 5, 1, 1, 2} { // of one entity: 2 is missing; then of two others
				r := &read.Records[i].Record
				r.Entity, r.Version = "order-1", schemas.Version{Kind: schemas.Sequence, Value: value}
				if i > 3 {
					r.Entity = "order-2"
				}
			}
			again := &read.Records[5] // the id of the one before, with another body
			again.ID, again.Key, again.Hash = read.Records[4].ID, read.Records[4].Key, schemas.BodyHash{1}
			l.fillAndApply(reader.Unit{Parts: []reader.Part{read}})
			if tt.wait > 0 {
				a, err := w.Expire(t.Context(), p.Claim)
				if err != nil {
					t.Fatal(err)
				}
				l.afterTransaction(&part{of: p}, "end of waits", a, err)
			}
			var conflicts, gaps []string
			for line := range strings.Lines(log.String()) {
				switch {
				case strings.Contains(line, "decision=conflict"):
					conflicts = append(conflicts, line)
				case strings.Contains(line, tt.want[0]):
					gaps = append(gaps, line)
				default:
					t.Errorf("another line: %s", line)
				}
			}
			if len(conflicts) != 1 || !contains(conflicts[0], "level=WARN", "subscription=acme.triage", "entity=order-2", "event_id="+again.ID, "reason=body_differs") {
				t.Errorf("conflicts: %q", conflicts)
			}
			if len(gaps) != 1 || !contains(gaps[0], append(tt.want, "level=WARN", "subscription=acme.triage", "entity=order-1", "offset=1")...) {
				t.Errorf("gaps: %q", gaps)
			}
		})
	}
}

// A held event and a record that is none are each said, also where several are of one entity; events that died behind a gap once for each.
func TestWarningsByDecision(t *testing.T) {
	t.Parallel()
	l, p, _ := feeder(t, prometheus.NewRegistry())
	for name, tt := range map[string]struct {
		outcome gate.Outcome
		lines   int // of two of entity a and one of b
		want    string
	}{
		"held":                {gate.Outcome{Decision: gate.Parked, Reason: gate.ReasonEqualHeld, Held: true}, 3, "an event is held"},
		"quarantined":         {gate.Outcome{Decision: gate.Quarantined, Reason: gate.ReasonUndecodable}, 3, "inbox list --decision quarantined"},
		"dead behind a gap":   {gate.Outcome{Decision: gate.Applied, Reason: gate.ReasonGapDead, Dead: true}, 2, "none was tried: forebay dlq list"},
		"late, dead":          {gate.Outcome{Decision: gate.Late, Reason: gate.ReasonGapDead, Dead: true}, 2, "none was tried: forebay dlq list"},
		"a full gap":          {gate.Outcome{Decision: gate.Parked, Reason: gate.ReasonOverflow}, 2, "too many events wait for a gap"},
		"behind a parked one": {gate.Outcome{Decision: gate.Parked, Reason: gate.ReasonBehindPark}, 0, ""},
		"skipped":             {gate.Outcome{Decision: gate.Applied, Reason: gate.ReasonGapSkipped}, 0, ""},
	} {
		var log bytes.Buffer
		l.log = slog.New(slog.NewTextHandler(&log, nil))
		var a ledger.Applied
		for _, entity := range []schemas.EntityKey{"a", "a", "b"} {
			o := tt.outcome
			o.Record, o.Released = -1, &gate.Waiting{Record: gate.Record{Entity: entity}}
			a.Outcomes = append(a.Outcomes, o)
		}
		l.logDecisions(&part{of: p}, a)
		lines := slices.Collect(strings.Lines(log.String()))
		if len(lines) != tt.lines {
			t.Errorf("%s: %d lines, want %d:\n%s", name, len(lines), tt.lines, log.String())
		}
		for _, line := range lines {
			if !contains(line, "level=WARN", tt.want, "reason="+string(tt.outcome.Reason)) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// A sender that causes a conflict with every event does not fill the log.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	l, p, _ := feeder(t, prometheus.NewRegistry())
	var log bytes.Buffer
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	l.logDecisions(&part{of: p}, ledger.Applied{Outcomes: make([]gate.Outcome, 1000)})
	if log.Len() > 0 {
		t.Errorf("what does not wait: %.200s", &log)
	}
	outcomes := make([]gate.Outcome, 1000)
	for i := range outcomes {
		outcomes[i] = gate.Outcome{Record: -1, Decision: gate.Conflict}
	}
	l.logDecisions(&part{of: p}, ledger.Applied{Outcomes: outcomes})
	if n := strings.Count(log.String(), "level=WARN"); n < warningsBurst || n > warningsBurst+50 {
		t.Errorf("%d lines of 1000 conflicts", n)
	}
}

func contains(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
