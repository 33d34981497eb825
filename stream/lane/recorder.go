package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// completion is a result that waits for the ledger.
type completion struct {
	e   *entry
	res ledger.Result
	// behind are the entries after e in the lane that are superseded together with it.
	behind []*entry
	// marked gets true once the mark of an unsafe attempt is committed, false if it will not be; nil for the end of an attempt.
	marked chan bool
	// refused is how often the ledger has refused the result for what is in it, and nothing else: it is recorded alone.
	refused int
}

// completions are the results that are not recorded yet. Callers hold mu.
type completions struct {
	cfg     *Config
	pending []completion
	writing []completion            // in the Record under way
	refused []completion            // refused by the ledger, to be recorded alone after a while
	abort   context.CancelCauseFunc // of the Record under way; nil: there is none
	group   int                     // how many results the next Record takes at most
	blamed  int                     // results that were refused alone for the first time since a Record worked
	last    bool                    // the workers have stopped: the recorder ends when nothing is pending
	changed *sync.Cond              // something is pending, or a Record or the transaction of a command has ended
}

// unrecorded returns how many results are not recorded yet.
func (c *completions) unrecorded() int { return len(c.pending) + len(c.writing) + len(c.refused) }

// fewRefused is how many results in a row the ledger may refuse alone, and each is to blame itself. Where it refuses more and takes
// none between, the ledger is in trouble: a right or a column is missing.
const fewRefused = 3

// inTrouble reports whether the ledger refuses so many results that they are not to blame.
func (c *completions) inTrouble() bool { return c.blamed > fewRefused }

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
	of := func(done completion) bool { return done.e == e }
	c.pending, c.refused = slices.DeleteFunc(c.pending, of), slices.DeleteFunc(c.refused, of)
}

// groupHasRoom reports whether the next Record could take more results than are pending, and more may come.
func (c *completions) groupHasRoom() bool { return !c.last && len(c.pending) < c.group }

// marks returns how many of the pending completions are marks: their attempts are under way, and wait for them.
func (c *completions) marks() (n int) {
	for i := range c.pending {
		if c.pending[i].marked != nil {
			n++
		}
	}
	return n
}

// groupLen returns how many pending completions the next Record takes: at least one, and of those that were refused no more.
func (c *completions) groupLen() (n int) {
	if c.pending[0].refused > 0 {
		return 1
	}
	results := c.group
	for n < len(c.pending) && c.pending[n].refused == 0 && (n == 0 || results > len(c.pending[n].behind)) {
		results -= 1 + len(c.pending[n].behind)
		n++
	}
	return n
}

// takeGroup moves the next group from pending to writing, without those for which drop returns true.
func (c *completions) takeGroup(drop func(*completion) bool) []completion {
	if c.inTrouble() { // if it takes one that it has not refused yet, those that it has refused are to blame
		slices.SortStableFunc(c.pending, func(a, b completion) int { return min(a.refused, 1) - min(b.refused, 1) })
	}
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

// requeue puts a group that was not recorded at the end of pending.
func (c *completions) requeue() {
	c.pending = append(c.pending, c.writing...)
	c.end()
}

// halve puts a group that was refused for what is in it at the front of pending, and makes the next groups smaller: a result that the
// ledger refuses every time ends up alone.
func (c *completions) halve() {
	c.pending = append(slices.Clone(c.writing), c.pending...)
	c.group = max(1, len(c.writing)/2)
	c.end()
}

// blame counts a refusal of the one result of a group.
func (c *completions) blame() {
	done := &c.writing[0]
	if done.refused == 0 {
		c.blamed++
	}
	done.refused++
}

// putOffRefused takes out the one result of a group that was refused, for wait. Others are recorded meanwhile.
func (c *completions) putOffRefused() (wait time.Duration) {
	done := c.writing[0]
	c.refused = append(c.refused, done)
	c.end()
	return min(minRefusedWait<<min(done.refused-1, 10), maxRefusedWait)
}

// requeueRefused puts the one result of a group that was refused, and all that were put off, at the end of pending: the ledger is in
// trouble. One at a time is tried until it takes one.
func (c *completions) requeueRefused() {
	c.group = 1
	c.pending = append(c.pending, c.refused...)
	clear(c.refused)
	c.refused = c.refused[:0]
	c.requeue()
}

// tryAllAgain puts those results of p that were put off at the front of pending.
func (c *completions) tryAllAgain(p *partition) {
	of := func(done completion) bool { return done.e.lane.partition == p }
	var retry []completion
	for _, done := range c.refused {
		if of(done) {
			retry = append(retry, done)
		}
	}
	c.refused = slices.DeleteFunc(c.refused, of)
	c.pending = append(retry, c.pending...)
	c.changed.Broadcast()
}

// tryAgain puts the result of a head that was put off at the end of pending.
func (c *completions) tryAgain(e *entry) {
	at := slices.IndexFunc(c.refused, func(done completion) bool { return done.e == e })
	if at < 0 {
		return // taken back
	}
	c.pending = append(c.pending, c.refused[at])
	c.refused = slices.Delete(c.refused, at, at+1)
	c.changed.Broadcast()
}

// committed ends a Record that worked.
func (c *completions) committed() {
	c.group, c.blamed = min(2*c.group, c.cfg.MaxGroup), 0
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

// For how long a result that the ledger refuses is put off, at first and at most.
const minRefusedWait, maxRefusedWait = time.Second, time.Minute

// recorder writes completions to the ledger in groups: whatever is pending, and what ends within Config.Linger of it.
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
		err := r.write(groupCtx, group)
		if err == nil {
			wait = 0
			continue
		}
		if ctx.Err() != nil {
			return // the next owner finds the actions open
		}
		if errors.Is(context.Cause(groupCtx), errClosed) || errors.Is(err, errRefused) {
			continue // Close cancelled it, or what is refused is put off; the other results are recorded at once
		}
		wait = min(max(2*wait, 50*time.Millisecond), 5*time.Second)
		r.s.log.Warn("results could not be recorded; retrying", "error", err, "results", len(group), "wait", wait)
		sleep(ctx, wait)
	}
}

// awaitResults waits until results are pending, and then for Config.Linger where other attempts are under way, whose results may share the
// transaction. It returns false when no results will come any more. The caller holds mu.
func (r *recorder) awaitResults(ctx context.Context) bool {
	s := r.s
	for lingered := false; ; lingered = true {
		for len(s.q.results.pending) == 0 {
			if s.q.results.last || ctx.Err() != nil {
				return false
			}
			s.q.results.changed.Wait()
		}
		if lingered || s.q.dispatch.underWay() <= s.q.results.marks() || !s.q.results.groupHasRoom() {
			return true
		}
		s.mu.Unlock()
		sleep(ctx, s.q.cfg.Linger)
		s.mu.Lock()
	}
}

// gather waits for results and takes a group of them, without those of partitions whose claim was dropped. groupCtx also ends when a claim is
// dropped while the group is written. ok is false when no more will come.
func (r *recorder) gather(ctx context.Context) (groupCtx context.Context, group []completion, ok bool) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(group) == 0 {
		if !r.awaitResults(ctx) {
			return nil, nil, false
		}
		group = s.q.results.takeGroup(func(c *completion) bool {
			dropped := c.e.lane.partition.dropped
			if dropped {
				s.q.dropCompletion(c)
			}
			return dropped
		})
	}
	groupCtx, s.q.results.abort = context.WithCancelCause(ctx)
	return groupCtx, group, true
}

// write records a group and moves its lanes on.
func (r *recorder) write(groupCtx context.Context, group []completion) error {
	s := r.s
	r.results = r.results[:0]
	for i := range group {
		r.results = append(r.results, group[i].res)
		for _, e := range group[i].behind {
			r.results = append(r.results, supersededResult(e))
		}
	}
	began := time.Now()
	fenced, err := s.q.cfg.Ledger.Record(groupCtx, r.results)
	transaction(s.q.cfg.Tracer, group, began, len(r.results)).EndWith(err)
	clear(r.results) // frees payload copies and answers
	if err != nil {
		lost, err := r.notRecorded(groupCtx, group, err)
		if lost != nil {
			s.q.cfg.OnFenced(lost)
		}
		return err
	}
	s.reported(group, fenced)
	for _, c := range s.committed(group, fenced) {
		s.q.cfg.OnFenced(c)
	}
	return nil
}

// errRefused is the error of a group that the ledger refused for what is in it. It is dealt with.
var errRefused = errors.New("the ledger refuses a result")

// notRecorded puts a group that was not recorded back. Of a group that the ledger refuses for what is in it, it finds the result that
// is at fault, by halves, and sets it aside, so that the others go on. It sets none aside where the ledger refuses many. Where the ledger
// lacks what the claim remembers, the claim is given up, and lost.
func (r *recorder) notRecorded(groupCtx context.Context, group []completion, err error) (lost *ledger.Claim, _ error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	results := &s.q.results
	switch {
	case groupCtx.Err() != nil || schemas.KindOf(err) != schemas.Internal:
		results.requeue()
		return nil, err
	case len(group) > 1:
		results.halve()
		return nil, errRefused
	}
	results.blame()
	p := group[0].e.lane.partition
	switch {
	case group[0].refused > 1 && p.closing:
		r.giveUp(&group[0], err)
		return nil, errRefused
	case group[0].refused > 1 && errors.Is(err, ledger.ErrForgotten) && s.q.givesUpForgotten(p):
		r.giveUp(&group[0], err)
		s.q.dropPartition(p, errFenced)
		return p.claim, errRefused
	case results.inTrouble():
		results.requeueRefused()
		return nil, err
	}
	r.putOff(&group[0], err)
	return nil, errRefused
}

// forgottenAgain is how long after a claim of its partition was given up because the ledger lacked what it remembered the next one may be.
// Where the ledger lacks it still, calls would be made again and again.
const forgottenAgain = 10 * time.Minute

// givesUpForgotten reports whether a claim may be given up because the ledger lacks what it remembers, and notes that it is.
func (q *queues) givesUpForgotten(p *partition) bool {
	at := p.claim.Partition
	if last, ok := q.forgot[at]; ok && time.Since(last) < forgottenAgain {
		return false
	}
	if q.forgot == nil {
		q.forgot = map[ledger.Partition]time.Time{}
	}
	q.forgot[at] = time.Now()
	return true
}

// putOff has a result that the ledger refuses tried again later.
func (r *recorder) putOff(done *completion, err error) {
	s, e := r.s, done.e
	wait := s.q.results.putOffRefused()
	s.log.Error("the ledger refuses a result, which is tried again alone; its entity waits", "event_id", e.EventID, "source", e.Source,
		"entity", string(e.Entity), "action_id", string(e.ID), "lane_seq", e.LaneSeq, "error", err, "wait", wait)
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.q.results.tryAgain(e)
	})
}

// giveUp ends a result that the ledger refuses again while its claim is being given up: Close does not wait for it.
func (r *recorder) giveUp(done *completion, err error) {
	s, e, p := r.s, done.e, done.e.lane.partition
	s.log.Error("the ledger refuses a result, which is given up with its claim; the next owner finds the action open", "event_id", e.EventID,
		"source", e.Source, "entity", string(e.Entity), "action_id", string(e.ID), "lane_seq", e.LaneSeq, "error", err)
	p.givenUp++
	if done.marked != nil {
		done.marked <- false // its worker gives the head up
	}
	s.q.dropCompletion(done)
	s.q.results.end()
}
