package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// trace is what happened, for whoever has to understand a seed that failed.
type trace struct {
	start time.Time
	level slog.Level

	mu           sync.Mutex
	lines        []string
	faults       []string          // of forebay's own, as it reports them
	decided      map[string]bool   // events
	misplaced    map[string]string // by event, the topic that has it in another partition than its entity's
	lastProgress time.Time         // of the last log line that says that work goes on
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("%9.3fs ", time.Since(t.start).Seconds())+fmt.Sprintf(format, args...))
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// handler takes the log of a process.
func (t *trace) handler(node string) slog.Handler { return &lines{t: t, prefix: node} }

type lines struct {
	t      *trace
	prefix string
}

// Enabled is for decisions too, which are told at debug: one of them counts.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	var decision, reason, event, topic string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "decision":
			decision = a.Value.String()
		case "reason":
			reason = a.Value.String()
		case "topic":
			topic = a.Value.String()
		case "event_id":
			event = a.Value.String()
		}
		return true
	})
	moved := decision == "quarantined" && reason == misplaced                                                 // the judge knows whether the world has moved it
	fault := decision == "quarantined" && !moved || strings.Contains(r.Message, "this is a fault of forebay") // there is nothing here to quarantine
	text := ""
	if r.Level >= l.t.level || fault {
		var b strings.Builder
		r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s", a); return true })
		text = b.String()
		l.t.add("%s: %s %s%s", l.prefix, r.Level, r.Message, text)
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if decision != "" {
		l.t.decided[event] = true
	}
	if moved {
		l.t.misplaced[event] = topic
	}
	if strings.Contains(r.Message, "action is dead") || strings.Contains(r.Message, "claimed") {
		l.t.lastProgress = time.Now()
	}
	if fault {
		l.t.faults = append(l.t.faults, l.prefix+": "+r.Message+text)
	}
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }
