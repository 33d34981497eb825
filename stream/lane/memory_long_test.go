package lane

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

var errOnPostgres = errors.New("the double of the lane tests does not do this: see commands_test.go and commit_test.go, on Postgres")

func (*memory) Commit(context.Context, ledger.Result, sink.Statement) (string, error) {
	return "", errOnPostgres
}

func (*memory) Committed(context.Context, ledger.Result) (bool, error) { return false, errOnPostgres }

func (*memory) ApplyLaneCommand(context.Context, *ledger.Claim, ledger.Command) (ledger.CommandResult, error) {
	return ledger.CommandResult{}, errOnPostgres
}

func (*memory) EndStale(context.Context, *ledger.Claim, int64) (bool, error) {
	return false, errOnPostgres
}

// Overtaken looks for a newer version behind an action.
func (m *memory) Overtaken(_ context.Context, c *ledger.Claim, a ledger.Action) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for seq, r := range m.rows[c.ID] {
		if seq > a.LaneSeq && r.Entity == a.Entity && newer(r.Version, a.Version) {
			return true, nil
		}
	}
	return false, nil
}

func newer(a, b schemas.Version) bool {
	return b.Kind != schemas.None && a.Clock == b.Clock && a.Comparable(b) && a.Compare(b) > 0
}

func (r *row) silenceLeft() time.Duration { return max(0, time.Until(r.beat.Add(r.Silence))) }

func (m *memory) endReport(ref ledger.AttemptRef, outcome string) {
	m.outcomes[ref] = outcome
	m.reported = slices.DeleteFunc(m.reported, func(o ledger.OpenReport) bool { return o.AttemptRef == ref })
}

func (m *memory) Reports(ctx context.Context, claims []*ledger.Claim) (list []ledger.OpenReport, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if err := errors.Join(ctx.Err(), m.failLong); err != nil {
		return nil, err
	}
	for _, c := range claims {
		for _, r := range m.reported {
			of := m.rows[c.ID][r.LaneSeq]
			if r.Fence != c.ID || of == nil {
				continue
			}
			r.Claim, r.Past = c, r.Late(of.Status, of.Attempts, of.AttemptEpoch)
			if of.Status != ledger.Pending { // it has a row
				r.Entity, r.ID, r.Name, r.Destination, r.Source, r.EventID = of.Entity, of.ID, of.Name, of.Destination, of.Source, of.EventID
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func (m *memory) EndReport(ctx context.Context, r ledger.OpenReport) (late bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaveOpen || ctx.Err() != nil {
		m.leaveOpen = false
		return false, ctx.Err()
	}
	m.endReport(r.AttemptRef, "late")
	return true, nil
}

// SilenceLeft leaves out what is not processing, as the ledger does.
func (m *memory) SilenceLeft(ctx context.Context, c *ledger.Claim, seqs []int64) (map[int64]time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := map[int64]time.Duration{}
	for _, seq := range seqs {
		if r := m.rows[c.ID][seq]; r != nil && r.Status == ledger.Processing {
			left[seq] = r.silenceLeft()
		}
	}
	return left, errors.Join(ctx.Err(), m.failLong)
}

// Cancel notes it under the fence, as the ledger does.
func (m *memory) Cancel(ctx context.Context, c *ledger.Claim, a ledger.AttemptRef, told bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.failLong); err != nil || m.fenced[c] {
		return m.fenced[c], err
	}
	if r := m.rows[c.ID][a.LaneSeq]; r != nil && r.Status == ledger.Processing && r.Attempts == a.Attempt && r.AttemptEpoch == a.Epoch {
		if r.Newer = true; told {
			r.CancelURL = ""
		}
	}
	return false, nil
}

// report is what the destination says later of an attempt of claim 1: of the one that is recorded with this number, else of one that
// the first owner made.
func (m *memory) report(seq int64, attempt int, status ledger.Status) {
	m.reportBy(seq, attempt, m.epochOf(seq, attempt), status)
}

// reportBy is report of an attempt of the owner with this epoch.
func (m *memory) reportBy(seq int64, attempt int, epoch int64, status ledger.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := ledger.AttemptRef{Fence: 1, LaneSeq: seq, Attempt: attempt, Epoch: epoch}
	m.reported = append(m.reported, ledger.OpenReport{Report: ledger.Report{AttemptRef: ref, Status: status, Code: 200, Cost: 250_000}})
}

func (m *memory) epochOf(seq int64, attempt int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[1][seq]; r.Attempts == attempt {
		return r.AttemptEpoch
	}
	return claimOf(1).Epoch
}

// outcome is what came of the reports on an attempt, of whichever owner.
func (m *memory) outcome(seq int64, attempt int) (outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, o := range m.outcomes {
		if ref.LaneSeq == seq && ref.Attempt == attempt {
			outcome += o
		}
	}
	return outcome
}

// heartbeat is a sign of life of an action of claim 1.
func (m *memory) heartbeat(seq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[1][seq].beat = time.Now()
}
