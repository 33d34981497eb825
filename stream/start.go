package stream

import (
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// StopReason is the closed list of why a partition stands still until a person looks. It is a metric label.
type StopReason string

const (
	StopBelowStart StopReason = "below_log_start"   // records that were never read are gone
	StopAboveEnd   StopReason = "above_log_end"     // the log is shorter than what was read
	StopTruncated  StopReason = "truncated"         // the log was cut and may have grown again
	StopRecreated  StopReason = "topic_recreated"   // the topic has another id
	StopHistory    StopReason = "ledger_behind"     // the mirror is ahead: the ledger lost history
	StopTooLarge   StopReason = "batch_too_large"   // a record batch decompresses to more than the limit
	StopRefused    StopReason = "refused_by_ledger" // partition count changed, or what else the ledger refuses
)

// StopError says that a partition was stopped, why, and what the way out is. Nothing is ever reset silently.
type StopError struct {
	Partition ledger.Partition
	Reason    StopReason
	Err       error
}

func (e *StopError) Error() string {
	return fmt.Sprintf("%s/%d stopped (%s): %v", e.Partition.Topic, e.Partition.Number, e.Reason, e.Err)
}

func (e *StopError) Unwrap() error { return e.Err }

const wayOut = "; stop the subscription's processes, set the group's offset for this partition with any Kafka tool, start them again"

func stop(p ledger.Partition, r StopReason, format string, args ...any) *StopError {
	return &StopError{Partition: p, Reason: r, Err: fmt.Errorf(format+wayOut, args...)}
}

// commit is what Kafka holds for the group.
type commit struct {
	offset   int64
	metadata string
}

// facts is everything that where decides on.
type facts struct {
	namespace  string
	generation int32
	partition  ledger.Partition
	stored     *ledger.Position // the ledger's next offset; nil on the first claim
	begin      int64            // where the subscription begins in this partition
	commit     *commit          // nil: Kafka has none
	start, end int64            // of the log: its first offset and its high watermark
	epochEnd   *int64           // where stored's leader epoch ends in this log; nil: unknown to us or to the broker
}

// where decides where a claimed partition is read on. It is pure; design section 5 is its specification:
//
//	commit in Kafka                        means                    start
//	none                                   expired, or never made   ledger
//	our marker, its own offset, <= ledger  our mirror               ledger
//	our marker, its own offset, > ledger   ledger lost history      stop
//	our marker, another topic id           topic was recreated      stop
//	anything else, same offset as ledger   nothing moved            ledger
//	anything else                          a seek by an operator    commit
//
// On the first claim the begin stands for the ledger's offset, and there is no seek to record: the commit wins silently,
// as the position that somebody gave the group before it ever ran.
//
// With settle, the commit is not our mirror and must be overwritten with one before the first batch: read again after
// the ledger has moved on, it would be taken for a seek back to it.
func where(f facts) (st ledger.Start, settle bool, err error) {
	base := ledger.Position{Offset: f.begin, LeaderEpoch: -1}
	if f.stored != nil {
		base = *f.stored
	}
	st.Position = base
	if f.commit != nil {
		ours, err := f.mirrored(base)
		if err != nil {
			return st, false, err
		}
		settle = !ours
		if to := f.commit.offset; settle && to != base.Offset {
			st.Position = ledger.Position{Offset: to, LeaderEpoch: -1}
			if f.stored != nil {
				st.Seek = &ledger.Seek{From: base.Offset, To: to}
			}
		}
	}
	return st, settle, f.inLog(st)
}

// mirrored reports whether the commit is one of ours.
func (f facts) mirrored(base ledger.Position) (bool, error) {
	m, ok := parseMarker(f.commit.metadata)
	if !ok || m.namespace != f.namespace || m.generation != f.generation || m.offset != f.commit.offset {
		return false, nil
	}
	if m.topic != f.partition.TopicID {
		return false, stop(f.partition, StopRecreated,
			"the group's position %d was mirrored for topic id %x, the topic now has id %x",
			m.offset, m.topic[:], f.partition.TopicID[:])
	}
	if f.stored == nil {
		return false, stop(f.partition, StopHistory,
			"the group's mirrored position is %d, but the ledger knows nothing of this partition: its history was lost", m.offset)
	}
	if m.offset > base.Offset {
		return false, stop(f.partition, StopHistory,
			"the group's mirrored position %d is ahead of the ledger's %d: %d records were decided and the ledger lost them",
			m.offset, base.Offset, m.offset-base.Offset)
	}
	return true, nil
}

// inLog refuses a position that the log cannot continue. Where the position moved, its epoch is not known.
func (f facts) inLog(st ledger.Start) error {
	at := st.Position.Offset
	switch {
	case at < f.start:
		return stop(f.partition, StopBelowStart,
			"next offset %d is below the log's start %d: %d records were deleted unread", at, f.start, f.start-at)
	case at > f.end:
		return stop(f.partition, StopAboveEnd,
			"next offset %d is above the log's end %d: %d records that were read are not there any more", at, f.end, at-f.end)
	case st.Seek == nil && f.epochEnd != nil && *f.epochEnd < at:
		return stop(f.partition, StopTruncated,
			"records up to %d were read in leader epoch %d, which now ends at %d: the log was truncated by %d records",
			at, st.Position.LeaderEpoch, *f.epochEnd, at-*f.epochEnd)
	}
	return nil
}

// stopped is the StopError in err, where trying again cannot help. What the ledger refuses for good (another partition
// count, another topic id) it says with the kinds conflict and invalid.
func stopped(p ledger.Partition, err error) (*StopError, bool) {
	if e, ok := errors.AsType[*StopError](err); ok {
		return e, true
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok && (e.Kind == schemas.Conflict || e.Kind == schemas.Invalid) {
		return &StopError{Partition: p, Reason: StopRefused, Err: err}, true
	}
	return nil, false
}
