package destination

import (
	"context"
	"log/slog"
	"sync"
)

// maxLines is how many lines wait for a log that nobody reads; more are left out.
const maxLines = 1000

// lines is a log for those who hold locks, their own and a caller's: a goroutine that lives while there are lines writes them, in order.
type lines struct {
	slog.Handler
	*waiting
}

// waiting are the lines that are not written yet.
type waiting struct {
	mu      sync.Mutex
	list    []func()
	writing bool
}

func newLines(l *slog.Logger) *slog.Logger { return slog.New(lines{l.Handler(), &waiting{}}) }

// Handle implements [slog.Handler].
func (l lines) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r = r.Clone(); {
	case len(l.list) >= maxLines:
		return nil
	case len(l.list) == maxLines-1:
		r = slog.NewRecord(r.Time, slog.LevelWarn, "the log takes no lines; what comes until it does is left out", 0)
	}
	l.list = append(l.list, func() { _ = l.Handler.Handle(context.WithoutCancel(ctx), r) })
	if !l.writing {
		l.writing = true
		go l.write()
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lines{l.Handler.WithAttrs(attrs), l.waiting}
}

// WithGroup implements [slog.Handler].
func (l lines) WithGroup(name string) slog.Handler {
	return lines{l.Handler.WithGroup(name), l.waiting}
}

// write writes lines until there are none.
func (w *waiting) write() {
	for {
		w.mu.Lock()
		list := w.list
		w.list, w.writing = nil, len(list) > 0
		w.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, line := range list {
			line()
		}
	}
}
