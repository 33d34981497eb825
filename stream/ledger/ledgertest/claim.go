package ledgertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// confirmError marks what Confirm returned.
type confirmError struct{ error }

// Claim is [ledger.Namespace.Claim].
func (p *Process) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	op := fmt.Sprintf("claim %s/%d for %s", req.Partition.Topic, req.Partition.Number, p.spec.Name)
	if err := req.Validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	c := &ledger.Claim{Partition: req.Partition}
	err := p.waitIfKilled(ctx, p.claimOnce(ctx, c, &req, op))
	if err == nil || isLostAnswer(err) && p.holds(ctx, c) {
		return c, nil
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return nil, err
	}
	if confirm, ok := errors.AsType[confirmError](err); ok {
		return nil, confirm.error
	}
	return nil, unavailable(op, err)
}

// holds finds out after a COMMIT without an answer whether the claim was written.
func (p *Process) holds(ctx context.Context, c *ledger.Claim) (mine bool) {
	err := p.untilDone(ctx, "resolve", exclusive, []int32{c.ID}, maxTries, func() error {
		mine = p.m.fences[c.ID-1].token == c.Token
		return nil
	})
	return err == nil && mine
}

// claiming is one try of a claim.
type claiming struct {
	req         *ledger.ClaimRequest
	c           *ledger.Claim
	op          string
	fence       *fence
	topic       topic // as it is recorded with the claim
	formerTopic bool  // the fence is that of the topic as it was before
	start       ledger.Start
	stop        *stop               // that stands
	seek        *ledger.SeekRequest // that is carried out; nil: none
}

// claimOnce is the transaction. The first claims of a topic go one after the other, as the row of the topic makes them.
func (p *Process) claimOnce(ctx context.Context, c *ledger.Claim, req *ledger.ClaimRequest, op string) error {
	if err := p.at(ctx, "claim", Before, nil); err != nil {
		return err
	}
	k := &claiming{req: req, c: c, op: op}
	if id, isNew := p.m.topicLock(req.Partition.Topic); isNew {
		if err := p.lockOne(ctx, exclusive, id); err != nil {
			return err
		}
		defer p.unlock(exclusive, []int32{id})
	}
	if err := p.lockFence(ctx, k); err != nil {
		return err
	}
	held := []int32{k.fence.id}
	err := func() (err error) {
		defer p.unlock(exclusive, held)
		defer func() {
			if err != nil {
				p.m.dropNew(k.fence)
			}
		}()
		if err := p.awake(ctx); err != nil {
			return err
		}
		if err := p.confirm(ctx, k); err != nil {
			return err
		}
		if err := p.at(ctx, "claim", Within, held); err != nil {
			return err
		}
		return p.write(func() error { return p.take(k) })
	}()
	if err != nil {
		return err
	}
	if err := p.at(ctx, "claim", After, held); err != nil {
		return lostAnswer{err}
	}
	return nil
}

// topicLock is the lock of a topic that no claim has recorded yet. Numbers below zero are no fence's.
func (m *Memory) topicLock(name string) (id int32, isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.topics[name]; known {
		return 0, false
	}
	if m.topicLocks == nil {
		m.topicLocks = map[string]int32{}
	}
	if m.topicLocks[name] == 0 {
		m.topicLocks[name] = -int32(len(m.topicLocks) + 1)
	}
	return m.topicLocks[name], true
}

// lockFence finds and locks the fence of a partition, and checks the topic. Who was before may have taken the fence over to a
// topic that was created again, so that it is looked for once more behind the lock.
func (p *Process) lockFence(ctx context.Context, k *claiming) error {
	for {
		p.m.mu.Lock()
		err := p.m.checkTopic(k)
		if err == nil {
			k.fence, k.formerTopic = p.m.fenceFor(k.req.Partition)
		}
		p.m.mu.Unlock()
		if err != nil {
			return err
		}
		if err := p.lockOne(ctx, exclusive, k.fence.id); err != nil {
			return err
		}
		p.m.mu.Lock()
		now, formerTopic := p.m.fenceFor(k.req.Partition)
		p.m.mu.Unlock()
		if now == k.fence && formerTopic == k.formerTopic {
			return nil
		}
		p.unlock(exclusive, []int32{k.fence.id})
	}
}

// fenceFor is the fence of a partition, the one that goes on from the topic as it was before where it has none of its own, or
// a new one.
func (m *Memory) fenceFor(at ledger.Partition) (f *fence, formerTopic bool) {
	for _, f := range slices.Backward(m.fences) {
		if f.partition == at {
			return f, false
		}
	}
	for _, f := range slices.Backward(m.fences) {
		if f.partition.Topic == at.Topic && f.partition.Number == at.Number && f.epoch > 0 {
			return f, true
		}
	}
	f = &fence{
		id: int32(len(m.fences) + 1), partition: at, released: true, laneSeq: 1, lanesFrom: 1,
		lines: map[gate.VersionLineKey]*gate.VersionLine{}, waits: map[int64]*wait{}, rejected: map[int64]rejectedRecord{}, actions: map[int64]*action{},
	}
	m.fences = append(m.fences, f)
	return f, false
}

// dropNew drops a fence whose first claim was rolled back. The next claim makes another, with the next number, as a sequence gives it: a
// batch is written in the order of these numbers.
func (m *Memory) dropNew(f *fence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.epoch == 0 {
		f.partition = ledger.Partition{}
	}
}

// confirm tells the caller what is stored, and takes its decision.
func (p *Process) confirm(ctx context.Context, k *claiming) error {
	p.m.mu.Lock()
	f := k.fence
	st := ledger.Standing{Epoch: f.epoch, High: f.high, ProcessedAt: f.processed, TopicAdopted: p.m.topicAdopted(k.req.Partition)}
	var stored *ledger.Position
	if f.stored {
		stored = new(f.next)
	}
	if k.formerTopic {
		st.Epoch, st.High, st.ProcessedAt, stored = 0, 0, time.Time{}, nil
	}
	if k.stop = p.m.standing(k.req.Partition); k.stop != nil {
		st.Stop = new(k.stop.Stop)
	}
	k.seek = f.seekRequest(k.req.Partition.TopicID)
	st.SeekRequest = k.seek
	p.m.mu.Unlock()
	if k.req.Standing != nil {
		k.req.Standing(st)
	}
	var err error
	if k.start, err = k.req.Confirm(ctx, stored); err != nil {
		return confirmError{err}
	}
	return k.start.Check(stored)
}

// take writes the claim: the fence has a new owner, epoch and position, a seek that it carries out and a stop that it ends are over, and the
// caller's claim is filled in. What was in doubt stays so until the lanes are past it. The caller holds mu.
func (p *Process) take(k *claiming) error {
	m, f, c := p.m, k.fence, k.c
	if accepted := k.start.Accepted; k.stop != nil && k.stop.ID == accepted && k.stop.Accepted == nil {
		return badData{errors.New("the stop that the claim rests on is not accepted")}
	}
	m.topics[k.req.Partition.Topic] = k.topic
	unclean := f.epoch > 0 && !f.released
	f.epoch++
	if k.formerTopic {
		f.inherit(m, k.req.Partition.TopicID)
	}
	m.tokens++
	binary.BigEndian.PutUint64(f.token[:], m.tokens)
	f.owner, f.released = p.spec.Owner, false
	if unclean {
		f.doubtTo, f.doubtAt = f.laneSeq, m.now()
	}
	f.endSeek(k.seek, k.req.Partition.TopicID, f.next.Offset)
	f.next, f.stored, f.high = k.start.Position, true, max(f.high, k.start.Position.Offset)
	f.revision++
	if seek := k.start.Seek; seek != nil {
		f.seeks = append(f.seeks, *seek)
		if seek.To < seek.From {
			f.processed = time.Time{}
		}
	}
	c.ID, c.Epoch, c.Token, c.Next, c.Seek, c.Unclean, c.DoubtTo = f.id, f.epoch, f.token, f.next, k.start.Seek, unclean, f.doubtTo
	if !f.doubtAt.IsZero() {
		c.DoubtAt = m.ago(f.doubtAt)
	}
	if k.stop != nil {
		m.endStop(k, f)
	}
	m.claims[c] = f.load(p.spec.Share(int(k.req.Partitions)))
	return nil
}

// ago is when something was by this process's clock, of which the database says how long ago it was by its own.
func (m *Memory) ago(at time.Time) time.Time { return time.Now().Add(at.Sub(m.now())) }

// load reads the state of a claim's actions.
func (f *fence) load(policy gate.Policy) *claim {
	c := &claim{policy: policy, laneSeq: f.laneSeq, revision: f.revision, former: f.former, lanesFrom: f.lanesFrom,
		recorded: map[int64]bool{}, ended: map[int64]bool{}, maybeEnded: map[int64]bool{}, rowTried: map[int64]bool{}}
	for lane, a := range f.actions {
		if a.withRow || a.completed {
			c.recorded[lane] = true
		}
		if a.completed {
			c.ended[lane] = true
		}
	}
	return c
}

// Release is [ledger.Namespace.Release].
func (p *Process) Release(ctx context.Context, c *ledger.Claim) error {
	err := p.untilDone(ctx, "release", shared, []int32{c.ID}, maxTries, func() error {
		if f := p.m.fenceOf(c); f != nil {
			f.released, f.doubtTo = true, c.DoubtTo
		}
		return nil
	})
	return unavailable("release the fence of "+c.Partition.Topic, err)
}

// Begin is [ledger.Namespace.Begin].
func (p *Process) Begin(ctx context.Context, offsets map[ledger.Partition]int64) (stored map[ledger.Partition]int64, err error) {
	m := p.m
	err = p.untilDone(ctx, "begin", shared, nil, maxTries, func() error {
		known := map[ledger.TopicID]bool{}
		for at := range m.begins {
			known[at.TopicID] = true
		}
		for at, offset := range offsets {
			if !known[at.TopicID] && (offset < 0 || at.Number < 0) {
				return badData{fmt.Errorf("%s/%d begins at %d", at.Topic, at.Number, offset)}
			}
		}
		if m.began.IsZero() {
			m.began = m.now()
		}
		for at, offset := range offsets {
			if !known[at.TopicID] {
				m.begins[at] = offset
			}
		}
		stored = maps.Clone(m.begins)
		return nil
	})
	if err != nil {
		return nil, unavailable("store the beginning of "+p.spec.Name, err)
	}
	return stored, nil
}

// Began is [ledger.Namespace.Began].
func (p *Process) Began(ctx context.Context) (began time.Time, err error) {
	err = p.read(ctx, "began", func() error { began = p.m.began; return nil })
	return began, unavailable("read the beginning of "+p.spec.Name, err)
}

// CaughtUp is [ledger.Namespace.CaughtUp].
func (p *Process) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	err := p.untilDone(ctx, "caughtup", shared, idsOf(claims), maxTries, func() error {
		for _, c := range claims {
			if f := p.m.fenceOf(c); f != nil {
				f.processed = later(f.processed, p.m.past(at))
			}
		}
		return nil
	})
	return unavailable("note that "+p.spec.Name+" has caught up", err)
}

// Now is [ledger.Namespace.Now].
func (p *Process) Now(ctx context.Context) (now time.Time, err error) {
	err = p.read(ctx, "now", func() error { now = p.m.now(); return nil })
	return now, unavailable("ask the database for the time", err)
}

// Tidy is [ledger.Namespace.Tidy] while no window has turned: there is nothing to forget.
func (p *Process) Tidy(ctx context.Context, c *ledger.Claim) (old bool, err error) {
	err = p.untilDone(ctx, "tidy", shared, []int32{c.ID}, maxTries, func() error { return nil })
	return false, unavailable("forget version lines of "+p.spec.Name, err)
}

// OldLines is [ledger.Namespace.OldLines], which finds none.
func (p *Process) OldLines(ctx context.Context, _ *ledger.Claim) (old ledger.OldLines, err error) {
	err = p.read(ctx, "oldlines", func() error { return nil })
	return old, unavailable("find version lines to forget of "+p.spec.Name, err)
}

// ForgetLines is [ledger.Namespace.ForgetLines], which has none to forget.
func (p *Process) ForgetLines(ctx context.Context, c *ledger.Claim, _ ledger.OldLines) error {
	err := p.untilDone(ctx, "forget", shared, []int32{c.ID}, maxTries, func() error { return nil })
	return unavailable("forget version lines of "+p.spec.Name, err)
}

// Leave is [ledger.Namespace.Leave]: what it notes is for dedupe windows, which never turn here.
func (p *Process) Leave(ctx context.Context, _ []string) error {
	err := p.untilDone(ctx, "leave", shared, nil, maxTries, func() error { return nil })
	return unavailable("leave topics of "+p.spec.Name, err)
}
