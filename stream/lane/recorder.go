package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// completion is a result that waits for the ledger.
type completion struct {
	e   *entry
	res ledger.Result
	// behind are the entries after e in the lane that are superseded together with it.
	behind []*entry
	// marked is closed once the mark of an unsafe attempt is committed; nil for the end of an attempt.
	marked chan struct{}
}

// completions are the results that are not recorded yet. Callers hold mu.
type completions struct {
	cfg     *Config
	pending []completion
	writing []completion            // in the Record under way
	abort   context.CancelCauseFunc // of the Record under way; nil: there is none
	group   int                     // how many results the next Record takes at most
	last    bool                    // the workers have stopped: the recorder ends when nothing is pending
	changed *sync.Cond              // something is pending, or a Record or the transaction of a command has ended
}

// unrecorded returns how many results are not recorded yet.
func (c *completions) unrecorded() int { return len(c.pending) + len(c.writing) }

// full reports whether so many results wait that no attempt may start.
func (c *completions) full() bool { return c.unrecorded() >= c.cfg.MaxUnrecorded }

// add hands a completion to the recorder. The partition has counted its head as busy; behind a mark comes the attempt.
func (c *completions) add(done *completion) {
	if done.marked == nil {
		done.e.lane.state = recording
	}
	done.res.DoubtEnd = done.e.DoubtEnd
	c.pending = append(c.pending, *done)
	if len(c.pending) == 1 {
		c.changed.Broadcast()
	}
}

// remove takes back the pending completions of an entry.
func (c *completions) remove(e *entry) {
	c.pending = slices.DeleteFunc(c.pending, func(done completion) bool { return done.e == e })
}

// groupHasRoom reports whether the next Record could take more results than are pending, and more may come.
func (c *completions) groupHasRoom() bool { return !c.last && len(c.pending) < c.group }

// groupLen returns how many pending completions the next Record takes: at least one.
func (c *completions) groupLen() (n int) {
	results := c.group
	for n < len(c.pending) && (n == 0 || results > len(c.pending[n].behind)) {
		results -= 1 + len(c.pending[n].behind)
		n++
	}
	return n
}

// takeGroup moves the next group from pending to writing, without those for which drop returns true.
func (c *completions) takeGroup(drop func(*completion) bool) []completion {
	n := c.groupLen()
	group := c.writing[:0]
	for i := range c.pending[:n] {
		if !drop(&c.pending[i]) {
			group = append(group, c.pending[i])
		}
	}
	rest := copy(c.pending, c.pending[n:])
	clear(c.pending[rest:])
	c.pending, c.writing = c.pending[:rest], group
	return group
}

// requeue puts a group that was not recorded at the end of pending, and makes the next groups smaller: a result that the database
// refuses every time ends up alone, and holds up no other.
func (c *completions) requeue() {
	c.pending = append(c.pending, c.writing...)
	c.group = max(1, len(c.writing)/2)
	c.end()
}

// committed ends a Record that worked.
func (c *completions) committed() {
	c.group = min(2*c.group, c.cfg.MaxGroup)
	c.end()
}

// end ends a Record, successful or not.
func (c *completions) end() {
	c.abort(errors.New("record has ended"))
	c.abort = nil
	clear(c.writing)
	c.writing = c.writing[:0]
	c.changed.Broadcast()
}

// waitForWrites waits until nothing of p is being written: neither results, whose Record it cancels, nor p's own transactions.
func (c *completions) waitForWrites(p *partition) {
	for slices.ContainsFunc(c.writing, func(done completion) bool { return done.e.lane.partition == p }) {
		if c.abort != nil {
			c.abort(errClosed)
		}
		c.changed.Wait()
	}
	for p.writing > 0 {
		c.changed.Wait()
	}
}

// After a Record of at least largeGroup results the recorder waits for linger before the next one, unless a full group is
// pending: a transaction costs as much as about fifty results in it.
const (
	largeGroup = 64
	linger     = time.Millisecond
)

// recorder writes completions to the ledger in groups: whatever is pending, at once when the ledger is idle, more under load.
type recorder struct {
	s       *scheduler
	results []ledger.Result // of the Record under way
}

// run records until lastResults was called and nothing is pending, or ctx ends.
func (r *recorder) run(ctx context.Context) {
	wait := time.Duration(0)
	for {
		groupCtx, group, ok := r.gather(ctx)
		if !ok {
			return
		}
		err := r.write(ctx, groupCtx, group)
		if err == nil {
			wait = 0
			continue
		}
		if ctx.Err() != nil {
			return // the next owner finds the actions open
		}
		if errors.Is(context.Cause(groupCtx), errClosed) {
			continue // Close cancelled it; the results of other claims are recorded at once
		}
		wait = min(max(2*wait, 50*time.Millisecond), 5*time.Second)
		r.s.log.Warn("record results, again in a moment", "error", err, "results", len(group), "wait", wait)
		sleep(ctx, wait)
	}
}

// gather waits for completions and takes a group of them, without those of dropped claims. ok is false when no more will come.
func (r *recorder) gather(ctx context.Context) (groupCtx context.Context, group []completion, ok bool) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(group) == 0 {
		for len(s.q.results.pending) == 0 {
			if s.q.results.last || ctx.Err() != nil {
				return nil, nil, false
			}
			s.q.results.changed.Wait()
		}
		group = s.q.results.takeGroup(func(c *completion) bool {
			forgotten := c.e.lane.partition.dropped
			if forgotten {
				s.q.dropCompletion(c)
			}
			return forgotten
		})
	}
	groupCtx, s.q.results.abort = context.WithCancelCause(ctx)
	return groupCtx, group, true
}

// write records a group and moves its lanes on.
func (r *recorder) write(ctx, groupCtx context.Context, group []completion) error {
	s := r.s
	r.results = r.results[:0]
	for i := range group {
		r.results = append(r.results, group[i].res)
		for _, e := range group[i].behind {
			r.results = append(r.results, supersededResult(e))
		}
	}
	fenced, err := s.q.cfg.Ledger.Record(groupCtx, r.results)
	clear(r.results) // frees payload copies and answers
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.q.results.requeue()
		return err
	}
	for _, c := range s.committed(group, fenced) {
		s.q.cfg.OnFenced(c)
	}
	if len(r.results) >= largeGroup && r.groupHasRoom() {
		sleep(ctx, linger)
	}
	return nil
}

func (r *recorder) groupHasRoom() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.q.results.groupHasRoom()
}
