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

	mu     sync.Mutex
	lines  []string
	faults []string  // of forebay's own, as it reports them
	sign   time.Time // of the last line that says that work goes on
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

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.t.level }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s", a); return true })
	l.t.add("%s: %s %s%s", l.prefix, r.Level, r.Message, b.String())
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if strings.Contains(r.Message, "action is dead") || strings.Contains(r.Message, "claimed") {
		l.t.sign = time.Now()
	}
	if strings.Contains(r.Message, "this is a fault of forebay") {
		l.t.faults = append(l.t.faults, l.prefix+": "+r.Message+b.String())
	}
	return nil
}

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lines) WithGroup(string) slog.Handler      { return l }
