package owner

import (
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// commit is the group's committed offset in Kafka.
type commit struct {
	offset   int64
	metadata string
}

// facts are the input of decideStart.
type facts struct {
	namespace      string
	generation     int32
	partition      ledger.Partition
	stored         *ledger.Position // the ledger's next offset; nil on the first claim
	standing       ledger.Standing
	begin          int64     // where the subscription begins in this partition
	commit         *commit   // nil: Kafka has none
	start, end     int64     // of the log: its first offset and its high watermark
	epochEnd       *int64    // where the leader epoch of stored ends in this log; nil: not known
	seekAppendedAt time.Time // append time of the first record that a seek back would read again; zero if there is none
}

// base returns the ledger's position; on the first claim the subscription's begin.
func (f facts) base() ledger.Position {
	if f.stored != nil {
		return *f.stored
	}
	return ledger.Position{Offset: f.begin, LeaderEpoch: -1}
}

// mirrored returns the marker of the group's commit; nil if that is not our mirror, or there is none.
func (f facts) mirrored() *marker {
	if f.commit == nil {
		return nil
	}
	m, ok := parseMarker(f.commit.metadata)
	if !ok || m.namespace != f.namespace || m.generation != f.generation || m.offset != f.commit.offset {
		return nil
	}
	return &m
}

// sought returns the offset to which an operator has moved the position: what is asked for in the ledger, since Kafka takes no commit of a tool
// while the group has members, or a commit without our marker. ok is false if there is neither.
func (f facts) sought() (to int64, ok bool) {
	switch {
	case f.standing.SeekRequest != nil:
		return f.standing.SeekRequest.To, true
	case f.commit == nil || f.mirrored() != nil:
		return 0, false
	}
	return f.commit.offset, true
}

// rewound returns the offset to which a seek back leads, not below the log's start; false if there was no seek back.
func (f facts) rewound() (to int64, ok bool) {
	to, ok = f.sought()
	return max(to, f.start), ok && f.stored != nil && to < f.stored.Offset
}

// decideStart returns where a claimed partition is read on, or a [StopError] if that needs an operator's word. It is pure:
//
//	commit in Kafka                              means                    start
//	a seek in the ledger, whatever the commit    a seek by an operator    where it leads
//	none                                         expired, or never made   ledger
//	our marker, its own offset                   our mirror               ledger
//	our marker, above all that the ledger knew   ledger lost history      stop; accepted: ledger, so that it runs again.
//	                                                                      A seek in the ledger counts once that is reported
//	our marker, another topic id                 topic was recreated      stop; accepted: ledger
//	anything else, same offset as ledger         nothing moved            ledger
//	anything else                                a seek by an operator    commit
//
// On the first claim the begin takes the place of the ledger's offset, and no seek is recorded: a commit without our marker is the
// position that an operator gave the group before the subscription ever ran.
//
// A start that the log cannot continue, and a seek back to before what dedupe remembers, is a stop too:
//
//	start                                        kind               accepted: goes on at
//	below the log's start                        below_log_start    the log's start; what is left out is recorded as a seek
//	above the log's end                          above_log_end      the end as it was reported
//	in an epoch that ends before it              truncated          the end of that epoch
//	back to before dedupe's memory               dedupe_forgotten   where the seek led
//
// An earlier report still counts (stopThatCounts), since a log that has grown again hides what happened to it.
//
// mirrorFirst means that the commit must be overwritten with the start before the first batch. Otherwise the next claim, when the
// ledger has moved on, would take the old commit for a seek back.
func decideStart(f facts) (st ledger.Start, mirrorFirst bool, err error) {
	st.Position = f.base()
	to, sought := f.sought()
	if sought {
		st = f.startAt(to)
	}
	problem := f.stopThatCounts(f.problem(st), st, sought)
	switch s := f.standing.Stop; {
	case problem == nil:
		// The acceptance of a recreated topic is for all its partitions. This one may have reported its stop only after that.
		if s != nil && s.Kind == string(StopRecreated) && s.Partition == f.partition && s.Accepted != nil {
			st.Accepted = s.ID
		}
		return st, sought, nil
	case s.Same(problem) && s.Accepted != nil:
		st = f.startAt(max(s.Resume, min(f.start, s.To))) // the log's start may have moved on since the report
		st.Accepted = s.ID
		return st, f.commit != nil, nil
	case s.Same(problem):
		problem = s
	}
	return st, false, &StopError{Partition: f.partition, Reason: StopReason(problem.Kind), Stop: problem, facts: f}
}

// startAt returns a start at an offset, with the seek that leads there, if any. The leader epoch is known only if the position does not
// move.
func (f facts) startAt(to int64) ledger.Start {
	base := f.base()
	if to == base.Offset {
		return ledger.Start{Position: base}
	}
	st := ledger.Start{Position: ledger.Position{Offset: to, LeaderEpoch: -1}}
	if f.stored != nil {
		st.Seek = &ledger.Seek{From: base.Offset, To: to}
	}
	return st
}

// problem returns why a start needs an operator's word, by what the brokers say now; nil if it does not.
func (f facts) problem(st ledger.Start) *ledger.Stop {
	reported := f.standing.Stop
	asked := f.standing.SeekRequest != nil && reported != nil && reported.ID != 0
	if s := f.mirrorProblem(); s != nil && !(asked && reported.Same(s)) {
		return s
	}
	if s := f.dedupeProblem(); s != nil {
		return s
	}
	return f.logProblem(st)
}

// stop returns a stop of this partition that is about the records [from, to), and goes on at resume.
func (f facts) stop(kind StopReason, from, to, resume int64, format string, args ...any) *ledger.Stop {
	return &ledger.Stop{Subscription: f.namespace, Partition: f.partition, Kind: string(kind), From: from, To: to, Resume: resume, Records: to - from,
		Detail: fmt.Sprintf(format, args...)}
}

// mirrorProblem returns the stop if our own mirrored commit knows more than the ledger: another topic id, or a later offset.
func (f facts) mirrorProblem() *ledger.Stop {
	m := f.mirrored()
	if m == nil {
		return nil
	}
	base := f.base().Offset
	switch {
	case m.topic != f.partition.TopicID:
		if f.stored != nil || f.standing.TopicAdopted {
			return nil // accepted before: the commit is what the old topic left
		}
		s := f.stop(StopRecreated, m.offset, 0, base, "the group's position %d was mirrored for topic id %x, the topic now has id %x: "+
			"records of the old topic that were not read are lost, and nobody can count them", m.offset, m.topic[:], f.partition.TopicID[:])
		s.Records = -1
		return s
	case f.stored == nil:
		on := min(max(m.offset, f.start), f.end)
		return f.stop(StopHistory, min(base, on), on, on, "the group's mirrored position is %d, but the ledger knows nothing "+
			"of this partition: its history was lost, or the subscription has another ledger than before; what was open in that one does not run here", m.offset)
	case m.offset > max(base, f.standing.High) && f.start <= m.offset && base <= f.end:
		return f.stop(StopHistory, base, m.offset, base, "the group's mirrored position %d is ahead of the ledger's %d: %d records were decided "+
			"and the ledger lost them, or they were decided in another one", m.offset, base, m.offset-base)
	}
	return nil
}

// dedupeProblem returns the stop for a seek back to records that dedupe may have forgotten: their actions would run again. It allows
// for a difference between the clock of the database, which dates the dedupe windows, and those of the brokers.
func (f facts) dedupeProblem() *ledger.Stop {
	to, back := f.rewound()
	if !back || f.standing.Remembers.IsZero() || to >= f.end || !f.seekAppendedAt.Before(f.standing.Remembers.Add(beginSkew)) {
		return nil
	}
	from, _ := f.sought()
	return f.stop(StopForgotten, from, f.stored.Offset, to, "the group was moved back from %d to %d, to before what dedupe remembers "+
		"(decisions since %s): what was decided before that would run again", f.stored.Offset, from, clockText(f.standing.Remembers))
}

// logProblem returns the stop if the log does not have the start's offset, or was cut below it.
func (f facts) logProblem(st ledger.Start) *ledger.Stop {
	at := st.Position.Offset
	cut := f.end
	if st.Seek == nil && f.epochEnd != nil {
		cut = min(cut, *f.epochEnd)
	}
	switch {
	case at < f.start:
		return f.stop(StopBelowStart, at, f.start, f.start,
			"next offset %d is below the log's start %d: %d records were deleted unread", at, f.start, f.start-at)
	case at > f.end:
		return f.stop(StopAboveEnd, cut, at, cut,
			"next offset %d is above the log's end %d: %d records that were read are not there any more", at, cut, at-cut)
	case at > cut:
		return f.stop(StopTruncated, cut, at, cut,
			"records up to %d were read in leader epoch %d, which now ends at %d: the log was truncated by %d records and may have grown again",
			at, st.Position.LeaderEpoch, cut, at-cut)
	}
	return nil
}

// stopThatCounts returns the stop that was reported before if it still counts, otherwise the one that is found now. A log that was cut
// grows on while nobody looks: the first report says where its new records begin. An earlier report of a cut or of lost history counts
// unless what is found now is another kind of stop, or a cut further back, or an operator has moved the group away from there.
func (f facts) stopThatCounts(now *ledger.Stop, st ledger.Start, sought bool) *ledger.Stop {
	before := f.standing.Stop
	if before == nil || before.Partition != f.partition {
		return now
	}
	switch StopReason(before.Kind) {
	case StopAboveEnd, StopTruncated:
		cutsFurther := now != nil && ((now.Kind != string(StopAboveEnd) && now.Kind != string(StopTruncated)) || now.From < before.From)
		if before.To == st.Position.Offset && !cutsFurther {
			return before
		}
	case StopHistory:
		if sought {
			return now
		}
		if now == nil && before.From == st.Position.Offset {
			return before
		}
		// The ledger has no position, and the log ended before the group's: To was its end then, and new records may have come since.
		if now != nil && now.Kind == before.Kind && f.stored == nil && f.start <= before.To && before.To <= now.To {
			return before
		}
	}
	return now
}
