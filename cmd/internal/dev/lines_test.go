package dev

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// logged is what the log's lines become on a terminal, with the time cut off.
func logged(t *testing.T, write func(*slog.Logger)) string {
	t.Helper()
	var short, other bytes.Buffer
	l := newLines(&short, false, slog.NewTextHandler(&other, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l.to.now = func() time.Time { return time.Date(2026, 11, 23, 1, 42, 3, 0, time.UTC) }
	l.lookWith("bin/forebay", " --url http://127.0.0.1:9191")
	write(slog.New(l))
	return strings.ReplaceAll(short.String(), "01:42:03 ", "") + other.String()
}

// What the log says under these names and attributes is what ingest, stream/batch and stream/lane write; TestDevTellsWhatHappens in
// cmd/internal/integration sees theirs.
func TestLines(t *testing.T) {
	t.Parallel()
	event := []any{"subscription", "me.triage", "source", "/me/payments", "entity", "7"}
	for name, tt := range map[string]struct {
		level   slog.Level
		message string
		attrs   []any
		want    string
	}{
		"taken in": {slog.LevelDebug, "delivery", []any{"outcome", "accepted", "team", "me", "source", "payments"}, ""},
		"forged":   {slog.LevelInfo, "delivery", []any{"outcome", "refused", "team", "me", "source", "payments", "reason", "mismatch", "error", "mismatch: X-Sig"}, "refused   me/payments: mismatch: X-Sig (signed with another secret than the file's, or over other bytes)\n"},
		"a stranger": {slog.LevelInfo, "delivery", []any{"outcome", "refused", "team", "x", "source", "\x1b[2Jy", "reason", "unknown_source"},
			"refused   x/�[2Jy: unknown_source (no such team and source in the file)\n"},
		"too large": {slog.LevelInfo, "delivery", []any{"outcome", "too_large", "team", "me", "source", "payments", "reason", "source"},
			"too_large me/payments: source (larger than the source's max_body)\n"},
		"over its rate": {slog.LevelInfo, "delivery", []any{"outcome", "throttled", "team", "me", "source", "payments", "reason", "source"},
			"throttled me/payments: source (over the source's rate)\n"},
		"unusable": {slog.LevelInfo, "delivery", []any{"outcome", "quarantined", "team", "me", "source", "payments", "reason", "not_json", "detail", "body: syntax at byte 0"},
			"kept      me/payments: not_json: body: syntax at byte 0; bin/forebay quarantine list --url http://127.0.0.1:9191\n"},
		"a challenge": {slog.LevelDebug, "delivery", []any{"outcome", "handshake", "team", "me", "source", "chat"}, "handshake me/chat: answered\n"},
		"applied":     {slog.LevelDebug, "decided", append(event, "decision", "applied", "reason", "next"), ""},
		"buffered":    {slog.LevelDebug, "decided", append(event, "decision", "buffered", "reason", "gap"), "waits     me.triage me/payments 7: buffered (gap)\n"},
		"filtered":    {slog.LevelDebug, "decided", append(event, "decision", "filtered", "reason", "type"), "skipped   me.triage me/payments 7: filtered (type)\n"},
		"conflict":    {slog.LevelWarn, "decided", append(event, "decision", "conflict", "reason", "body_differs"), "kept      me.triage me/payments 7: conflict (body_differs)\n"},
		"for an operator": {slog.LevelWarn, "a gap was not filled in time; the entity's events behind it are parked", append(event, "decision", "parked", "reason", "gap_expired"),
			"waits     me.triage me/payments 7: parked (gap_expired); bin/forebay inbox list --decision parked --url http://127.0.0.1:9191\n"},
		"of a wait that ended": {slog.LevelWarn, "a gap was not filled in time", []any{"subscription", "me.triage", "topic", "events.me.payments", "partition", 2, "event_key", "00", "offset", int64(17), "entity", "7", "decision", "parked", "reason", "gap_expired"},
			"waits     me.triage me/payments 7: parked (gap_expired); bin/forebay inbox list --decision parked --url http://127.0.0.1:9191\n"},
		"dead behind a gap": {slog.LevelWarn, "a gap was given up", append(event, "decision", "applied", "reason", "gap_dead"),
			"dead      me.triage me/payments 7: applied (gap_dead); bin/forebay dlq list --url http://127.0.0.1:9191\n"},
		"undecodable": {slog.LevelWarn, "decided", []any{"subscription", "me.triage", "topic", "events.me.payments", "partition", 2, "offset", int64(17), "decision", "quarantined", "reason", "undecodable"},
			"kept      me.triage events.me.payments 2@17: quarantined (undecodable)\n"},
		"done": {slog.LevelInfo, "attempt", append(event, "destination", "me/agent", "attempt", 1, "status", "done", "code", 200, "latency", 12345*time.Microsecond),
			"done      me.triage me/payments 7 -> me/agent 200 in 12.3ms\n"},
		"failed": {slog.LevelWarn, "attempt", append(event, "destination", "me/agent", "attempt", 2, "status", "failed", "code", 503, "latency", time.Millisecond, "error", "server: 503", "next_in", 2345*time.Millisecond),
			"failed    me.triage me/payments 7 -> me/agent 503 in 1ms, attempt 2: server: 503; again in 2.3s\n"},
		"dead": {slog.LevelWarn, "attempt", append(event, "destination", "me/agent", "attempt", 1, "status", "dead_letter", "code", 0, "latency", time.Millisecond, "error", "forbidden: no", "action_id", "act_1"),
			"dead      me.triage me/payments 7 -> me/agent in 1ms: forbidden: no; bin/forebay dlq get act_1 --url http://127.0.0.1:9191\n"},
		"how to mend": {slog.LevelError, "action is dead; fix the URL, then replay", append(event, "destination", "me/agent"), "fix       me/agent: fix the URL, then replay\n"},
		"another":     {slog.LevelInfo, "partition claimed", event, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := logged(t, func(l *slog.Logger) { l.Log(t.Context(), tt.level, tt.message, tt.attrs...) })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			got = logged(t, func(l *slog.Logger) { l.With(tt.attrs[:2]...).Log(t.Context(), tt.level, tt.message, tt.attrs[2:]...) })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("with attributes of the logger: %s", diff)
			}
		})
	}
	if got := logged(t, func(l *slog.Logger) { l.Warn("not what was expected", "a", 1) }); !strings.Contains(got, `level=WARN msg="not what was expected" a=1`) {
		t.Errorf("a warning is not logged: %q", got)
	}
}

func TestLinesInColour(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slog.New(newLines(&b, true, slog.DiscardHandler)).Debug("decided", "subscription", "me.triage", "source", "/me/payments", "entity", "7", "decision", "parked", "reason", "gap_expired")
	if got := b.String(); !strings.Contains(got, "\x1b[33mwaits    \x1b[0m me.triage me/payments 7: parked (gap_expired)\n") {
		t.Errorf("%q", got)
	}
}

// A flood is cut off, counted, and the count told with the next line; what the scene does is told by the scene.
func TestLinesAreNoFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := newLines(&b, false, slog.DiscardHandler)
		l := slog.New(h)
		refuse := func(n int) {
			for range n {
				l.Info("delivery", "outcome", "refused", "team", "me", "source", "payments", "reason", "too_old")
			}
		}
		h.mute(true)
		refuse(10)
		h.mute(false)
		refuse(70)
		if n := strings.Count(b.String(), "refused"); n != most {
			t.Errorf("%d lines in a second", n)
		}
		time.Sleep(time.Second)
		refuse(2)
		if n := strings.Count(b.String(), "refused"); n != most+2 || strings.Count(b.String(), "left out  20 lines: ") != 1 {
			t.Errorf("%d lines after it:\n%s", n, b.String())
		}
	})
}
