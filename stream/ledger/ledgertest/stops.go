package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

var zero time.Time

// stop is a reported stop, and its outcome.
type stop struct {
	ledger.Stop
	outcome string // empty: it stands
}

func (s *stop) open() bool { return s.outcome == "" }

// stopKinds is the closed list of the column.
var stopKinds = []string{"below_log_start", "above_log_end", "truncated", recreated, "ledger_behind", "dedupe_forgotten"}

// cutKinds are the stops of a log that was cut: it grows on with other records in old places.
var cutKinds = []string{"above_log_end", "truncated"}

// standing is the stop of a partition that stands, whatever incarnation of the topic it is of. The caller holds mu.
func (m *Memory) standing(at ledger.Partition) *stop {
	for _, s := range m.stops {
		if s.open() && s.Partition.Topic == at.Topic && s.Partition.Number == at.Number {
			return s
		}
	}
	return nil
}

// topicAdopted says that the topic was created again and accepted.
func (m *Memory) topicAdopted(at ledger.Partition) bool {
	return slices.ContainsFunc(m.stops, func(s *stop) bool {
		return s.Partition.TopicID == at.TopicID && s.Kind == recreated && s.Accepted != nil
	})
}

// endStop ends the partition's stop with the claim that goes on.
func (m *Memory) endStop(k *claiming, f *fence) {
	s := k.stop
	if slices.Contains(cutKinds, s.Kind) && s.Partition == k.req.Partition {
		f.moveOutOfLog(m, s.From)
	}
	s.outcome = "moved"
	if s.ID == k.start.Accepted {
		s.outcome = "accepted"
	}
}

// Report is [ledger.Namespace.Report].
func (p *Process) Report(ctx context.Context, s ledger.Stop, epoch int64) (ledger.Stop, error) {
	op := fmt.Sprintf("report the stop of %s/%d for %s", s.Partition.Topic, s.Partition.Number, p.spec.Name)
	var stored ledger.Stop
	err := p.untilDone(ctx, "report", shared, p.m.claimed(s.Partition), maxTries, func() (err error) {
		stored, err = p.report(s, epoch, op)
		return err
	})
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return s, e
	}
	if err != nil {
		return s, unavailable(op, err)
	}
	return stored, nil
}

// claimed is the fence of a partition, where it has one: a claim under way is waited for.
func (m *Memory) claimed(at ledger.Partition) []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.fences {
		if f.partition.TopicID == at.TopicID && f.partition.Number == at.Number {
			return []int32{f.id}
		}
	}
	return nil
}

func (p *Process) report(s ledger.Stop, epoch int64, op string) (ledger.Stop, error) {
	m := p.m
	var now int64
	for _, f := range m.fences {
		if f.partition.TopicID == s.Partition.TopicID && f.partition.Number == s.Partition.Number {
			now = f.epoch
		}
	}
	if now != epoch {
		return s, refusal{schemas.Errorf(schemas.Conflict, op, "the partition was claimed since")}
	}
	old := m.standing(s.Partition)
	if old != nil && old.Same(&s) {
		return old.Stop, nil
	}
	if err := checkStop(s); err != nil {
		return s, badData{err}
	}
	if old != nil {
		old.outcome = "replaced"
	}
	s.ID, s.Subscription, s.Generation = int64(len(m.stops)+1), p.spec.Name, p.spec.Generation
	s.FoundAt, s.FoundBy, s.Detail, s.Accepted = m.now(), ledger.Clean(p.spec.Owner, 200), ledger.Clean(s.Detail, 2000), nil
	m.stops = append(m.stops, &stop{Stop: s})
	return s, nil
}

// checkStop returns why the database refuses a stop.
func checkStop(s ledger.Stop) error {
	switch {
	case !slices.Contains(stopKinds, s.Kind):
		return schemas.Errorf(schemas.Unavailable, "report a stop", "kind %q is none of %q", s.Kind, stopKinds)
	case s.From > s.To && s.Kind != recreated, s.Resume < 0, s.Records < -1, s.Partition.Number < 0:
		return schemas.Errorf(schemas.Unavailable, "report a stop", "from %d to %d, going on at %d, of %d records", s.From, s.To, s.Resume, s.Records)
	}
	return nil
}

// Stops is [ledger.Ledger.Stops].
func (m *Memory) Stops(f ledger.StopFilter) []ledger.Stop {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ledger.Stop
	for _, s := range m.under(f) {
		out = append(out, s.Stop)
	}
	return out
}

func (m *Memory) under(f ledger.StopFilter) []*stop {
	var found []*stop
	for _, s := range m.stops {
		if s.open() && (f.Subscription == "" || s.Subscription == f.Subscription) && (f.Topic == "" || s.Partition.Topic == f.Topic) &&
			(f.Partition == nil || s.Partition.Number == *f.Partition) && (f.ID == 0 || s.ID == f.ID) {
			found = append(found, s)
		}
	}
	return found
}

// Accept is [ledger.Ledger.Accept].
func (m *Memory) Accept(_ context.Context, f ledger.StopFilter, a ledger.Acceptance, dryRun bool) ([]ledger.Stop, error) {
	const op = "accept what is stopped"
	if f.Subscription == "" {
		return nil, schemas.Errorf(schemas.Invalid, op, "it does not say of which subscription")
	}
	if !dryRun {
		if err := schemas.CheckRequest(op, a.By, a.Reason); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.under(f)
	if len(found) == 0 {
		return nil, schemas.Errorf(schemas.NotFound, op, "nothing is stopped under %+v", f)
	}
	for _, s := range found {
		if s.Kind == recreated && (f.Partition != nil || f.ID != 0) {
			return nil, schemas.Errorf(schemas.Invalid, op, "topic %s was created again and is accepted as a whole", s.Partition.Topic)
		}
	}
	var out []ledger.Stop
	for _, s := range found {
		if s.Accepted == nil && !dryRun {
			s.Accepted = &ledger.Acceptance{At: m.now(), By: ledger.Clean(a.By, 200), Reason: ledger.Clean(a.Reason, 2000)}
		}
		out = append(out, s.Stop)
	}
	return out, nil
}
