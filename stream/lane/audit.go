package lane

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What is open in the ledger is in memory, or is going to be read; see knows. An action of which neither is true never runs under this owner,
// and nothing else would say so: lanes are empty, the position moves on. So the ledger is read again, a page of each claim a minute. An action
// may end, or be added, between the read and the look into memory: it counts where two looks in a row have found it.

const (
	auditEvery = time.Minute
	auditPage  = 64
)

// audit is what a partition knows of the check. It belongs to the auditor, but for forgotten, which mu guards.
type audit struct {
	readTo    int64              // the next page begins behind it
	suspects  map[int64]struct{} // lane_seqs that the last look did not find in memory, at most auditPage
	forgotten map[int64]struct{} // those of them that two looks did not
}

// auditor looks for actions that are open in the ledger and loaded nowhere. It belongs to one goroutine.
type auditor struct {
	s      *scheduler
	ledger Ledger
	log    *slog.Logger
}

// run looks until ctx ends.
func (a *auditor) run(ctx context.Context) {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, p := range a.partitions() {
			if err := a.look(p); err != nil && p.ctx.Err() == nil {
				a.log.Debug("what is open could not be compared with what is loaded", "error", err)
			}
		}
	}
}

// partitions returns those whose lanes run.
func (a *auditor) partitions() (list []*partition) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, p := range a.s.q.partitions {
		if !p.ending() {
			list = append(list, p)
		}
	}
	return list
}

// look looks again for what the last look did not find in memory, and then at the next page.
func (a *auditor) look(p *partition) error {
	found := map[int64]struct{}{}
	for laneSeq := range p.audit.suspects {
		actions, _, err := a.ledger.Open(p.ctx, p.claim, laneSeq-1, 1)
		if err != nil {
			return err
		}
		if len(actions) == 1 && actions[0].LaneSeq == laneSeq && len(a.missing(p, actions)) == 1 {
			found[laneSeq] = struct{}{}
		}
	}
	a.s.mu.Lock()
	more := len(found) > len(p.audit.forgotten)
	p.audit.forgotten = found
	a.s.mu.Unlock()
	if more {
		at := p.claim.Partition
		a.log.Error("actions are open in the ledger and in no lane, and this is a fault of forebay: please report it, and restart this process, so "+
			"that the next owner runs them", "topic", at.Topic, "partition", at.Number, "actions", len(found), "first_lane_seq", slices.Min(slices.Collect(maps.Keys(found))))
	}
	actions, next, err := a.ledger.Open(p.ctx, p.claim, p.audit.readTo, auditPage)
	if err != nil {
		return err
	}
	p.audit.readTo = 0
	if next && len(actions) > 0 {
		p.audit.readTo = actions[len(actions)-1].LaneSeq
	}
	p.audit.suspects = map[int64]struct{}{}
	for laneSeq := range found {
		p.audit.suspects[laneSeq] = struct{}{}
	}
	for _, laneSeq := range a.missing(p, actions) {
		if len(p.audit.suspects) < auditPage {
			p.audit.suspects[laneSeq] = struct{}{}
		}
	}
	return nil
}

// missing returns which of these actions are in no lane.
func (a *auditor) missing(p *partition, actions []ledger.Action) (list []int64) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for i := range actions {
		if !p.knows(actions[i].Entity, actions[i].LaneSeq) {
			list = append(list, actions[i].LaneSeq)
		}
	}
	return list
}

// knows reports whether an open action is in memory, parked, spilled, or left in the ledger for a read that is still to come. Callers hold mu.
func (p *partition) knows(entity schemas.EntityKey, laneSeq int64) bool {
	if laneSeq > p.loadedTo {
		return p.more
	}
	key := laneKeyOf(entity)
	la := p.lanes[key]
	if la == nil {
		at, ok := p.outside(key)
		return ok && at.head <= laneSeq && laneSeq <= at.last
	}
	for e := la.head; e != nil; e = e.next {
		if e.LaneSeq == laneSeq {
			return true
		}
	}
	return la.accepted != nil && la.accepted.LaneSeq == laneSeq || la.tail < laneSeq && laneSeq <= la.skippedTo || la.rereadFrom > 0 && la.rereadFrom <= laneSeq
}

// Forgotten says by partition how many actions are open in the ledger and in no lane, so that they never run under this owner: a fault of
// forebay. At least so many, of those partitions that have any.
func (l *Lanes) Forgotten() map[ledger.Partition]int {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	all := map[ledger.Partition]int{}
	for c, p := range l.s.q.partitions {
		if n := len(p.audit.forgotten); n > 0 {
			all[c.Partition] += n
		}
	}
	return all
}

// forgotten returns how many actions are open in the ledger and in no lane.
func (q *queues) forgotten() float64 {
	n := 0
	for _, p := range q.partitions {
		n += len(p.audit.forgotten)
	}
	return float64(n)
}
