package owner

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// StopReason is the closed list of why a partition stands still until an operator looks. It is a metric label.
type StopReason string

const (
	StopBelowStart StopReason = "below_log_start"   // records that were never read are gone
	StopAboveEnd   StopReason = "above_log_end"     // the log is shorter than what was read
	StopTruncated  StopReason = "truncated"         // the log was cut and may have grown again
	StopRecreated  StopReason = "topic_recreated"   // the topic has another id
	StopHistory    StopReason = "ledger_behind"     // the mirror is ahead: the ledger lost history
	StopForgotten  StopReason = "dedupe_forgotten"  // moved back to before what dedupe remembers
	StopPartitions StopReason = "partition_count"   // the topic has more partitions than it had
	StopRefused    StopReason = "refused_by_ledger" // what else the ledger refuses for good
	StopUnreadable StopReason = "unreadable"        // the brokers give no records, or broken ones
)

// acceptable reports whether an operator can end the stop by accepting it. The other reasons end by themselves when their cause
// is gone, and are not stored in the ledger.
func (r StopReason) acceptable() bool {
	switch r {
	case StopBelowStart, StopAboveEnd, StopTruncated, StopRecreated, StopHistory, StopForgotten:
		return true
	}
	return false
}

// StopError says that a partition was stopped, why, and how an operator ends the stop. Nothing is ever reset silently.
type StopError struct {
	Partition ledger.Partition
	Reason    StopReason
	Stop      *ledger.Stop // never nil
	Err       error        // the cause, if it is an error

	facts facts // from which decideStart decided; some of them, if it was not asked
}

func (e *StopError) Error() string {
	return fmt.Sprintf("%s/%d stopped (%s): %s", e.Partition.Topic, e.Partition.Number, e.Reason, StopText(*e.Stop))
}

func (e *StopError) Unwrap() error { return e.Err }

// seekOut says how an operator ends a stop without accepting it.
const seekOut = "; `forebay subscriptions seek` with this partition and an offset moves it elsewhere"

// StopText returns in words what a stop is and how an operator ends it.
func StopText(s ledger.Stop) string {
	command := StopCommand(s)
	switch kind := StopReason(s.Kind); {
	case kind == StopPartitions:
		return fmt.Sprintf("%s; `%s` says how to copy it to that many, in order per entity", s.Detail, command)
	case kind == StopRecreated: // no offset of the old topic means anything in the new one
		return fmt.Sprintf("%s; `%s` goes on at offset %d", s.Detail, command, s.Resume)
	case kind.acceptable():
		return fmt.Sprintf("%s; `%s` goes on at offset %d", s.Detail, command, s.Resume) + seekOut
	}
	return s.Detail
}

// StopCommand returns the command with which an operator ends a stop; that of another partition count prints the steps. Empty: no command ends it.
func StopCommand(s ledger.Stop) string {
	switch kind := StopReason(s.Kind); {
	case kind == StopPartitions:
		return fmt.Sprintf("forebay topics rekey %s --partitions %d -c FILE", s.Partition.Topic, s.To)
	case kind == StopRecreated: // accepted for the whole topic, not partition by partition
		return fmt.Sprintf("forebay subscriptions accept %s --topic %s --reason TEXT", s.Subscription, s.Partition.Topic)
	case kind.acceptable() && s.ID == 0: // the ledger has not stored it yet
		return fmt.Sprintf("forebay subscriptions accept %s --topic %s --partition %d --reason TEXT", s.Subscription, s.Partition.Topic, s.Partition.Number)
	case kind.acceptable():
		return fmt.Sprintf("forebay subscriptions accept %s --topic %s --partition %d --stop %d --reason TEXT",
			s.Subscription, s.Partition.Topic, s.Partition.Number, s.ID)
	}
	return ""
}

// same reports whether two errors are the same stop, which need not be reported again.
func (e *StopError) same(o *StopError) bool { return o != nil && e.Stop.Same(o.Stop) }

// newStop returns a stop with the error's text that no operator can accept. How many records it concerns is not known.
func newStop(p ledger.Partition, r StopReason, err error) *StopError {
	return &StopError{Partition: p, Reason: r, Err: err, Stop: &ledger.Stop{Partition: p, Kind: string(r), Records: -1, Detail: err.Error()}}
}

// unreadable returns the stop of a partition whose record at an offset could not be read for too long. Nobody knows what is in the
// record, so it is not skipped until an operator does so by moving the group. That is not advised while the leader gives nothing at all:
// then mostly nothing is wrong with the record.
func unreadable(p ledger.Partition, why *batch.UnreadableError) *StopError {
	e := newStop(p, StopUnreadable, why.Err)
	e.Stop.From = why.Offset
	remedy := "bring the log back, or let a replica that is whole lead"
	if errors.Is(why.Err, batch.ErrOpenTransaction) {
		remedy = "its writer's transaction timeout ends it; one that hangs, Kafka's `kafka-transactions.sh find-hanging` finds and `abort` ends"
	}
	e.Stop.Detail = fmt.Sprintf("offset %d cannot be read since %s: %v; it is tried again every few seconds, and goes on by itself once it can be read (%s)",
		why.Offset, clockText(why.Since), why.Err, remedy)
	if !why.AtBroker {
		e.Stop.Detail += "; to give up what cannot be read, move the position behind it: `forebay subscriptions seek` with this partition and that offset"
	}
	return e
}

// addBatchRange adds to the text of an unreadable stop the offsets of the record batch that cannot be read, if its header can be read.
func (b *broker) addBatchRange(ctx context.Context, s *ledger.Stop) {
	raw, err := b.Batch(ctx, s.Partition, s.From)
	const lastDelta = 23 // of a record batch, magic 2
	if err != nil || len(raw) < lastDelta+4 {
		return
	}
	first, delta := int64(binary.BigEndian.Uint64(raw)), int64(int32(binary.BigEndian.Uint32(raw[lastDelta:])))
	if next := first + delta + 1; delta >= 0 && first <= s.From && s.From < next {
		s.Detail += fmt.Sprintf("; the batch that cannot be read is of the offsets %d to %d, so what is behind it begins at %d", first, next-1, next)
	}
}

// asStop returns the stop that an error means: of kind conflict or invalid, with which the ledger refuses for good, or about the topic's
// id or number of partitions. It returns false for other errors: trying again may help.
func asStop(group string, p ledger.Partition, err error) (*StopError, bool) {
	if e, ok := errors.AsType[*StopError](err); ok {
		return e, true
	}
	if e, ok := errors.AsType[*ledger.TopicError](err); ok {
		p.TopicID = e.ID
		if e.Recreated() {
			return recreated(group, p, e), true
		}
		grown := newStop(p, StopPartitions, e)
		grown.Stop.From, grown.Stop.To = int64(e.KnownPartitions), int64(e.Partitions)
		return grown, true
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok && (e.Kind == schemas.Conflict || e.Kind == schemas.Invalid) {
		return newStop(p, StopRefused, err), true
	}
	return nil, false
}

// recreated returns the stop of a partition whose topic was deleted and created again.
func recreated(group string, p ledger.Partition, e *ledger.TopicError) *StopError {
	f := facts{namespace: group, partition: p, standing: ledger.Standing{ProcessedAt: e.ProcessedAt}}
	s := f.stop(StopRecreated, max(e.Next, 0), 0, 0, "%s; records of the old topic from offset %d on that were not read are lost, "+
		"and so is all that was in topics of that name in between; nobody can count them. Once this is accepted, the new topic is read from offset 0, with unknown version lines", e, max(e.Next, 0))
	s.Records = -1
	if e.Open+e.Waiting > 0 {
		s.Detail += fmt.Sprintf("; %d actions that are open and %d events that wait go on then", e.Open, e.Waiting)
		if e.Partitions != e.KnownPartitions {
			s.Detail += fmt.Sprintf("; the topic has %d partitions and had %d, so a newer event of the same entity may run before them", e.Partitions, e.KnownPartitions)
		}
	}
	return &StopError{Partition: p, Reason: StopRecreated, Stop: s, Err: e, facts: f}
}

// dateTimeout bounds what addDates asks of the brokers.
const dateTimeout = 10 * time.Second

// addDates sets between which times the records of a stop were appended, as far as the brokers still know, and adds that to the stop's
// text, with what else they know of these records.
func (b *broker) addDates(ctx context.Context, e *StopError) {
	ctx, cancel := context.WithTimeout(ctx, dateTimeout)
	defer cancel()
	f, s := &e.facts, e.Stop
	at := func(offset int64) time.Time {
		if offset < f.start {
			return time.Time{}
		}
		return b.timeAt(ctx, s.Partition, offset)
	}
	switch e.Reason {
	case StopBelowStart:
		s.FirstAt, s.LastAt = f.standing.ProcessedAt, at(s.To)
	case StopAboveEnd, StopTruncated:
		s.FirstAt, s.LastAt = at(s.From-1), f.standing.ProcessedAt
	case StopHistory:
		s.FirstAt, s.LastAt = at(max(s.From, f.start)), at(s.To-1)
	case StopRecreated:
		s.FirstAt, s.LastAt = f.standing.ProcessedAt, at(0)
	case StopForgotten:
		s.FirstAt, s.LastAt = f.seekAppendedAt, f.standing.Remembers
		if older, err := b.OffsetAfter(ctx, reader.At(s.Partition), f.standing.Remembers); err == nil {
			s.Records = min(max(older, s.Resume), s.To) - s.Resume
			s.Detail += fmt.Sprintf("; of %d records to be read again %d are older", s.To-s.Resume, s.Records)
		}
	case StopPartitions:
		b.addNewRecords(ctx, s)
		if s.Records == 0 {
			return // there are none to date
		}
	case StopUnreadable:
		b.addBatchRange(ctx, s)
		return
	default:
		return
	}
	s.Detail += "; " + datesText(s)
}

// addNewRecords adds to a stop how many records are in the partitions that the topic has gained, and their times: events of known
// entities may be in them. If the brokers do not answer, it adds nothing to the text.
func (b *broker) addNewRecords(ctx context.Context, s *ledger.Stop) {
	var records int64
	for number := s.From; number < s.To; number++ {
		p := s.Partition
		p.Number = int32(number)
		start, err := b.Start(ctx, reader.At(p))
		if err != nil {
			return
		}
		end, err := b.End(ctx, reader.At(p))
		if err != nil {
			return
		}
		records += end - start
		if end == start {
			continue
		}
		if first := b.timeAt(ctx, p, start); s.FirstAt.IsZero() || first.Before(s.FirstAt) {
			s.FirstAt = first
		}
		if last := b.timeAt(ctx, p, end-1); last.After(s.LastAt) {
			s.LastAt = last
		}
	}
	s.Records = records
	s.Detail += fmt.Sprintf("; the new partitions held %d records when this was found", records)
}

// timeAt returns the append time of a record, zero if it is not known.
func (b *broker) timeAt(ctx context.Context, p ledger.Partition, offset int64) time.Time {
	when, err := b.AppendTime(ctx, p, offset)
	if err != nil {
		return time.Time{}
	}
	return when
}

// datesText says between which times the records of a stop were appended, as far as that is known.
func datesText(s *ledger.Stop) string {
	const effort = " (best effort: by the times of the records next to them)"
	switch noFirst, noLast := s.FirstAt.IsZero(), s.LastAt.IsZero(); {
	case noFirst && noLast:
		return "when they were appended is not known"
	case noFirst:
		return "the records concerned were appended before " + clockText(s.LastAt) + effort
	case noLast:
		return "the records concerned were appended after " + clockText(s.FirstAt) + effort
	}
	return "the records concerned were appended between " + clockText(s.FirstAt) + " and " + clockText(s.LastAt) + effort
}

func clockText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
