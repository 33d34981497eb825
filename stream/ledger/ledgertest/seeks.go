package ledgertest

import (
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// askedSeek is a seek request, and what became of it.
type askedSeek struct {
	ledger.SeekRequest
	topic   ledger.TopicID
	from    int64  // the position that it moved from
	outcome string // empty: not yet
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
	m.tellListeners()
	return id, nil
}

// SeekOutcome returns what became of the last seek request of a fence, and the position before.
func (m *Memory) SeekOutcome(fence int32) (outcome string, from int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.fences[fence-1].seek
	return a.outcome, a.from
}

// seekRequest returns the open seek request of a fence for a claim of a topic. The caller holds mu.
func (f *fence) seekRequest(topic ledger.TopicID) *ledger.SeekRequest {
	if f.seek == nil || f.seek.outcome != "" || f.seek.topic != topic {
		return nil
	}
	return new(f.seek.SeekRequest)
}

// endSeek ends the request that a claim has carried out, if there was one, or one that is of another topic. The caller holds mu.
func (f *fence) endSeek(done *ledger.SeekRequest, topic ledger.TopicID, before int64) {
	switch a := f.seek; {
	case a == nil || a.outcome != "":
	case a.topic != topic:
		a.outcome = "refused"
	case done != nil && done.ID == a.ID:
		a.outcome, a.from = "moved", before
	}
}
