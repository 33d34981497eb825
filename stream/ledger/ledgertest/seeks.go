package ledgertest

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// askedSeek is a seek request, and what became of it.
type askedSeek struct {
	ledger.SeekRequest
	topic   ledger.TopicID
	from    int64  // the position that it moved from
	outcome string // empty: not yet
	detail  string
}

// AskSeek is [ledger.Ledger.AskSeeks], of one partition.
func (m *Memory) AskSeek(fence int32, topic ledger.TopicID, to int64, by, reason string) (int64, error) {
	if err := schemas.CheckRequest("ask to move positions", by, reason); err != nil {
		return 0, err
	}
	m.mu.Lock()
	m.seekIDs++
	id := m.seekIDs
	m.fences[fence-1].seek = &askedSeek{SeekRequest: ledger.SeekRequest{ID: id, To: to, By: by, Reason: reason}, topic: topic}
	var listeners []func()
	for _, notify := range m.listeners {
		listeners = append(listeners, notify)
	}
	m.mu.Unlock()
	for _, notify := range listeners {
		notify()
	}
	return id, nil
}

// SeekOutcome returns what became of the last seek request of a fence: outcome, position before, why it was refused.
func (m *Memory) SeekOutcome(fence int32) (outcome string, from int64, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.fences[fence-1].seek
	return a.outcome, a.from, a.detail
}

// RefuseSeek is [ledger.Namespace.RefuseSeek].
func (p *Process) RefuseSeek(ctx context.Context, id int64, why string) error {
	err := p.untilDone(ctx, "refuse seek", shared, nil, maxTries, func() error {
		for _, f := range p.m.fences {
			if a := f.seek; a != nil && a.ID == id && a.outcome == "" {
				a.outcome, a.detail = "refused", ledger.Clean(why, 1000)
			}
		}
		return nil
	})
	if err != nil {
		return unavailable("refuse a seek of "+p.spec.Name, err)
	}
	return nil
}

// seekRequest returns the open seek request of a fence for a claim of a topic. The caller holds mu.
func (f *fence) seekRequest(topic ledger.TopicID) *ledger.SeekRequest {
	if f.seek == nil || f.seek.outcome != "" || f.seek.topic != topic {
		return nil
	}
	return new(f.seek.SeekRequest)
}

// endSeek ends the request that a claim answers, or that is of another topic. The caller holds mu.
func (f *fence) endSeek(start ledger.Start, topic ledger.TopicID, before int64) {
	switch a := f.seek; {
	case a == nil || a.outcome != "":
	case a.topic != topic:
		a.outcome, a.detail = "refused", "the topic was deleted and created again since: the offset is of the former one"
	case start.SeekRequestID == 0:
	case start.Refused != "":
		a.outcome, a.detail = "refused", start.Refused
	default:
		a.outcome, a.from = "moved", before
	}
}

// checkSeekAnswer refuses an answer of Confirm to a seek request that there is not, or that leads elsewhere.
func checkSeekAnswer(request *ledger.SeekRequest, stored *ledger.Position, start ledger.Start) error {
	switch {
	case start.SeekRequestID == 0:
	case request == nil || request.ID != start.SeekRequestID:
		return schemas.Errorf(schemas.Internal, "claim", "start answers the seek request %d, which is not open", start.SeekRequestID)
	case start.Refused == "" && (stored == nil || start.Position.Offset != request.To):
		return schemas.Errorf(schemas.Internal, "claim", "start at %d, the seek request %d asks for %d", start.Position.Offset, request.ID, request.To)
	}
	return nil
}
