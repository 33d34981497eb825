package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// The index on time (BRIN) says nothing of a table's newest pages until they are summarized, so a list reads all of them. Autovacuum does that
// once a minute, and where tens of thousands of events come each second it leaves most out: its queue has 256 places. A list of what
// 2.4 million events had left took a second. So who lists summarizes first: the first time all that is new, then what came since.

const (
	summarizeEvery  = 2 * time.Second
	summarizeFailed = time.Minute // after a failure: the role may not be the tables' owner
)

// summaries says when the windows that are written are to be summarized next. Safe for concurrent use.
type summaries struct {
	mu   sync.Mutex
	next map[int32]time.Time // by window; none: now
}

// due returns the windows of the scope whose time has come, and moves that on.
func (s *summaries) due(of scope, now time.Time) (due []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for window, at := range s.next {
		if now.After(at) {
			delete(s.next, window)
		}
	}
	for _, window := range of {
		if _, later := s.next[window]; !later {
			due = append(due, window)
		}
	}
	if s.next == nil {
		s.next = map[int32]time.Time{}
	}
	for _, window := range due {
		s.next[window] = now.Add(summarizeEvery)
	}
	return due
}

// failed puts off when a window is due by summarizeFailed, unless ctx has ended: then nothing is wrong with the window.
func (s *summaries) failed(ctx context.Context, window int32) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[window] = time.Now().Add(summarizeFailed)
}

// summarize has the index on time cover the newest events of the scope. That it fails costs lists time, and is no error: the lock is taken by
// a VACUUM, or the role is not the owner.
func (b *Inbox) summarize(ctx context.Context, of scope) {
	due := b.summaries.due(of, time.Now())
	if len(due) == 0 || b.summarizeWindows(ctx, due) == nil {
		return
	}
	for _, window := range due { // each alone: one that fails does not cost the others their summaries
		if len(due) == 1 || b.summarizeWindows(ctx, []int32{window}) != nil {
			b.summaries.failed(ctx, window)
		}
	}
}

// summarizeWindows summarizes those of the windows that are written and have not been dropped. What it did before it failed or ctx ended is kept.
func (b *Inbox) summarizeWindows(ctx context.Context, windows []int32) error {
	return pgx.BeginFunc(ctx, b.slow, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '50ms'`)
		if err == nil {
			_, err = tx.Exec(ctx, `SELECT brin_summarize_new_values(i) FROM windows, to_regclass('events_w' || id || '_decided') i
				WHERE id = ANY ($1) AND state = 'current' AND i IS NOT NULL`, windows)
		}
		return err
	})
}
