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
	s.move(due, now.Add(summarizeEvery))
	return due
}

// move sets when windows are due next. s.mu is held, or nobody else has s.
func (s *summaries) move(windows []int32, at time.Time) {
	if s.next == nil {
		s.next = map[int32]time.Time{}
	}
	for _, window := range windows {
		s.next[window] = at
	}
}

// summarize has the index on time cover the newest events of the scope. That it fails costs lists time, and is no error: the lock is taken by
// a VACUUM, or the role is not the owner.
func (b *Inbox) summarize(ctx context.Context, of scope) {
	due := b.summaries.due(of, time.Now())
	if len(due) == 0 {
		return
	}
	err := pgx.BeginFunc(ctx, b.slow, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '50ms'`)
		if err == nil {
			_, err = tx.Exec(ctx, `SELECT brin_summarize_new_values(('events_w' || id || '_decided')::regclass) FROM windows WHERE id = ANY ($1) AND state = 'current'`, due)
		}
		return err
	})
	if err != nil && ctx.Err() == nil { // what was summarized until ctx ended is kept
		b.summaries.mu.Lock()
		defer b.summaries.mu.Unlock()
		b.summaries.move(due, time.Now().Add(summarizeFailed))
	}
}
