package ledgertest

import (
	"context"
	"crypto/md5" //nolint:gosec // the fingerprint of a dead letter, as the database makes it
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Copy is [ledger.Namespace.Copy].
func (p *Process) Copy(ctx context.Context, c *ledger.Claim, copies []ledger.Copy) (stored int, fenced bool, err error) {
	op := "store payload copies of " + p.spec.Name
	groups, err := ledger.CopyGroups(op, copies)
	if err != nil {
		return 0, false, err
	}
	for _, group := range groups {
		if err := p.m.checkHadAll(c, group); err != nil {
			return stored, false, &schemas.Error{Kind: schemas.Internal, Op: op, Err: err}
		}
		var one int
		err := p.untilDone(ctx, "copy", shared, []int32{c.ID}, 0, func() error {
			one, fenced = p.m.copy(c, group)
			return nil
		})
		if err != nil {
			return stored, false, unavailable(op, err)
		}
		if stored += one; fenced {
			break
		}
	}
	return stored, fenced, nil
}

// checkHadAll refuses copies for actions that their claim never had. Those before are to get a row.
func (m *Memory) checkHadAll(c *ledger.Claim, group []ledger.Copy) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range group {
		mine := m.claims[c]
		if mine == nil || one.LaneSeq >= mine.laneSeq {
			return errors.New("a copy for an action that the claim never had")
		}
		if !mine.recorded[one.LaneSeq] && !mine.maybeEnded[one.LaneSeq] {
			mine.rowTried[one.LaneSeq] = true
		}
	}
	return nil
}

func (m *Memory) copy(c *ledger.Claim, group []ledger.Copy) (stored int, fenced bool) {
	mine, f := m.claims[c], m.fenceOf(c)
	if f == nil { // the claim takes them for written all the same; it is of no use
		for _, one := range group {
			if !mine.maybeEnded[one.LaneSeq] {
				mine.recorded[one.LaneSeq] = true
			}
		}
		return 0, true
	}
	for _, one := range group {
		a := f.actions[one.LaneSeq]
		if mine.maybeEnded[one.LaneSeq] && !mine.recorded[one.LaneSeq] || !a.open() || a.packed != nil {
			continue
		}
		a.withRow, a.packed = true, slices.Clone(one.Packed)
		mine.recorded[one.LaneSeq] = true
		stored++
	}
	return stored, false
}

// Unexported is [ledger.Namespace.Unexported].
func (p *Process) Unexported(ctx context.Context, claims []*ledger.Claim, limit int) (list []ledger.DeadLetter, err error) {
	err = p.read(ctx, "unexported", func() error {
		list = p.m.unexported(claims, limit)
		return nil
	})
	if err != nil {
		return nil, unavailable("read what is to be exported of "+p.spec.Name, err)
	}
	return list, nil
}

func (m *Memory) unexported(claims []*ledger.Claim, limit int) (list []ledger.DeadLetter) {
	for _, c := range claimsSorted(claims) {
		if c.ID < 1 || int(c.ID) > len(m.fences) {
			continue
		}
		f := m.fences[c.ID-1]
		var lanes []int64
		for lane, a := range f.actions {
			if a.withRow && a.exported < a.died() {
				lanes = append(lanes, lane)
			}
		}
		slices.Sort(lanes)
		for _, lane := range lanes {
			if len(list) < limit {
				list = append(list, m.deadLetter(f, f.actions[lane]))
			}
		}
	}
	return list
}

// died is how often an action has died.
func (a *action) died() int32 {
	if a.status == ledger.Dead {
		return a.deaths + 1
	}
	return a.deaths
}

func (m *Memory) deadLetter(f *fence, a *action) ledger.DeadLetter {
	e := a.event
	d := ledger.DeadLetter{
		ID: schemas.NewActionID(m.name, m.generation, e.Source, e.ID, a.effect.Name), Generation: m.generation, Source: e.Source, EventID: e.ID,
		Type: e.Type, Entity: e.Entity, Version: e.version.Sortable(), Action: a.effect.Name, Destination: a.effect.Destination, OnDead: a.effect.OnDead,
		Status: a.status, Class: a.class, Code: int32(a.code), Error: a.err, Response: slices.Clone(a.response), Attempts: int32(a.attempts),
		Deaths: a.died(), DiedAt: later(a.finished, a.first), LaneSeq: a.laneSeq, Topic: f.partition.Topic, Partition: f.partition.Number, Offset: e.Offset,
	}
	d.Team, d.Subscription, _ = strings.Cut(m.name, ".")
	if d.Status == ledger.Unknown {
		d.Class = "unknown"
	}
	sum := md5.Sum([]byte(d.Class + "\x1f" + strconv.Itoa(int(d.Code)) + "\x1f" + d.Destination + "\x1f" + d.Type))
	d.Fingerprint = hex.EncodeToString(sum[:])[:12]
	if !a.first.IsZero() {
		d.FirstAt = new(a.first)
	}
	if !f.released {
		d.Owner = f.owner
	}
	d.Parks = (a.status == ledger.Dead || a.status == ledger.Unknown) && a.parks()
	d.HasCommand = slices.ContainsFunc(m.commands, func(c *command) bool { return !c.ended && c.Claim == f.id && c.LaneSeq == a.laneSeq })
	return d
}

// rowOf finds the row of a dead letter. Its fence is the newest of its partition: a topic that is created again keeps its fence.
func (m *Memory) rowOf(d *ledger.DeadLetter) (*fence, *action) {
	f := m.newest(d.Topic)[d.Partition]
	if f == nil || f.actions[d.LaneSeq] == nil || !f.actions[d.LaneSeq].withRow {
		return nil, nil
	}
	return f, f.actions[d.LaneSeq]
}

// DeadPayload is [ledger.Namespace.DeadPayload].
func (p *Process) DeadPayload(ctx context.Context, d ledger.DeadLetter) (packed []byte, at ledger.Pointer, err error) {
	err = p.read(ctx, "deadpayload", func() error {
		f, a := p.m.rowOf(&d)
		if a == nil {
			return nil
		}
		packed = slices.Clone(a.packed)
		e, id := a.event, f.partition.TopicID
		if a.laneSeq < f.lanesFrom && f.former != (ledger.TopicID{}) {
			id = f.former
		}
		at = ledger.Pointer{TopicID: id, Topic: d.Topic, Partition: d.Partition, Offset: e.Offset, LeaderEpoch: e.LeaderEpoch, Key: e.Key, Hash: e.Hash}
		return nil
	})
	if err != nil {
		return nil, ledger.Pointer{}, unavailable("read a payload", err)
	}
	return packed, at, nil
}

// Exported is [ledger.Namespace.Exported].
func (p *Process) Exported(ctx context.Context, claims []*ledger.Claim, list []ledger.DeadLetter) error {
	err := p.transaction(ctx, "exported", shared, idsOf(claims), func() error {
		held := map[*fence]bool{}
		for _, c := range claims {
			if f := p.m.fenceOf(c); f != nil {
				held[f] = true
			}
		}
		for i := range list {
			f, a := p.m.rowOf(&list[i])
			if a == nil || !held[f] {
				continue
			}
			if a.exported = list[i].Deaths; !a.open() {
				a.packed = nil
			}
		}
		return nil
	})
	return unavailable("note what was exported of "+p.spec.Name, p.waitIfKilled(ctx, err))
}
