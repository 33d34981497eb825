package gate

import (
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Decision is what the gate answers for one record.
type Decision string

const (
	Applied     Decision = "applied"     // its actions run
	Duplicate   Decision = "duplicate"   // the same event was decided before
	Stale       Decision = "stale"       // older than its version line, and not wanted: mostly a snapshot
	Late        Decision = "late"        // older than its version line, and still news: runs, marked
	Conflict    Decision = "conflict"    // same id, other body: kept, alerted, not run
	Buffered    Decision = "buffered"    // waits for the events before it
	Parked      Decision = "parked"      // waits until its filler or an operator comes (Outcome.Held: an operator)
	Filtered    Decision = "filtered"    // the subscription does not want it
	Quarantined Decision = "quarantined" // cannot be decided: not decodable, or not where it belongs
)

// Runs reports whether actions follow from d.
func (d Decision) Runs() bool { return d == Applied || d == Late }

// Rejects reports whether a record with d is kept without being remembered as seen.
func (d Decision) Rejects() bool { return d == Conflict || d == Filtered || d == Quarantined }

// Reason is the closed list of why. It is a metric label and a column.
type Reason string

const (
	ReasonFirst         Reason = "first"          // begins its version line
	ReasonNewEpoch      Reason = "new_epoch"      // begins its version line again, in a higher epoch
	ReasonNext          Reason = "next"           // newer than its version line, without a gap
	ReasonEqual         Reason = "equal"          // the version line's own version, other id
	ReasonArrival       Reason = "arrival"        // no version, or order: arrival
	ReasonBackfilled    Reason = "backfilled"     // a synthetic snapshot: it contains what is missing below it
	ReasonReleased      Reason = "released"       // waited or was parked, and its version line reached it
	ReasonGapSkipped    Reason = "gap_skipped"    // behind a gap that was skipped
	ReasonGapDead       Reason = "gap_dead"       // as gap_skipped, and given up with it
	ReasonSeen          Reason = "seen"           // same id, same body
	ReasonBodyDiffers   Reason = "body_differs"   // same id, other body
	ReasonOlder         Reason = "older"          // a snapshot below its version line
	ReasonOlderDelta    Reason = "older_delta"    // below its version line, and not a snapshot
	ReasonOlderHeld     Reason = "older_held"     // below its version line, stale: hold
	ReasonFiller        Reason = "filler"         // fills a place that was skipped
	ReasonEqualFirst    Reason = "equal_first"    // equal: first, and one of this version came before
	ReasonEqualLast     Reason = "equal_last"     // equal: last, and a later one of this version waited too
	ReasonEqualHeld     Reason = "equal_held"     // the version line's own version, and an operator decides
	ReasonGap           Reason = "gap"            // waits for a filler
	ReasonStartGap      Reason = "start_gap"      // waits for the first value of a version line that has not begun
	ReasonStartBackfill Reason = "start_backfill" // start: backfill, and the answer has not come yet
	ReasonOverflow      Reason = "overflow"       // over a cap of the gap buffer
	ReasonGapExpired    Reason = "gap_expired"    // the wait ended, then: park
	ReasonBehindPark    Reason = "behind_park"    // behind a gap on a version line that is parked
	ReasonType          Reason = "type"           // filtered by type
	ReasonMatch         Reason = "match"          // filtered: match is false
	ReasonExpression    Reason = "expression"     // match has failed on it
	ReasonUndecodable   Reason = "undecodable"    // not a CloudEvent of ours
	ReasonDataRejected  Reason = "data_rejected"  // the database refused the row's data
	ReasonMisplaced     Reason = "misplaced"      // in another partition than its key's
	ReasonTooLarge      Reason = "too_large"      // larger than what is read
	ReasonRedriven      Reason = "redriven"       // was held; an operator lets it run
	ReasonDiscarded     Reason = "discarded"      // was held; an operator discards it
	ReasonReprocess     Reason = "again"          // ran before; a replay runs it again
	ReasonKey           Reason = "key"            // another event has said the same, by the subscription's second key
)

// Record is what the gate needs to know of one record of a partition.
type Record struct {
	Offset     int64
	AppendTime time.Time // the broker's; future timestamps are clamped against it
	Key        schemas.EventKey
	Hash       schemas.BodyHash
	Entity     schemas.EntityKey
	Version    schemas.Version
	First      *int64 // the first value of its version line that the provider promises; nil: none
	Payload    schemas.PayloadKind
	Size       int64 // bytes of payload that are kept while it waits
	Deleted    bool
	Backfill   bool   // synthetic: made of what a backfill fetched
	Filtered   bool   // the subscription's filter said no
	Also       Also   // its second key; zero: none
	Repeats    bool   // another event with its second key came first. The gate sets it, and it is kept while the event waits
	Unmatched  bool   // of a filtered event: match said it, not types
	Broken     Reason // not empty: quarantined for it. The gate reads nothing else, unless it [Reason.KnowsEvent]
}

// KnowsEvent reports whether a record that is quarantined for r is an event whose attributes hold: only its filter could not be asked.
func (r Reason) KnowsEvent() bool { return r == ReasonExpression }

// NoEvent reports whether nothing but its offset counts of the record.
func (r *Record) NoEvent() bool { return r.Broken != "" && !r.Broken.KnowsEvent() }

// FilteredBy is the reason for which a filtered event is filtered.
func (r *Record) FilteredBy() Reason {
	if r.Unmatched {
		return ReasonMatch
	}
	return ReasonType
}

// Also is the hash of a second key of events: of two that say one thing under two ids, it is the same.
type Also [16]byte

// Said is the event that came first with a second key.
type Said struct {
	Key    schemas.EventKey
	At     time.Time // its append time
	Recent bool      // it was decided less than Policy.Also ago
}

// Seen says how an event was decided before. Filtered events are not remembered: an entry that says Filtered counts as
// none. A conflict never replaces the event that came first.
type Seen struct {
	Hash     schemas.BodyHash
	Decision Decision
}

// Outcome is one decision. Outcomes come in the order in which their actions run: a filler before what it releases.
//
// An outcome with Record >= 0 and Buffered or Parked means that the event enters the gap buffer. Record -1 with Parked means that it stays
// there, parked from now on; with any other decision, that it leaves. Held events are an exception, see there. One key may leave and enter
// in one call, even with the same offset: a filtered event that waited is `filtered`, and its redelivery is decided again. So a caller
// has to carry out what leaves before what enters.
type Outcome struct {
	// Record is the index into the call's records, or -1 for one that came out of the gap buffer.
	Record int
	// Released is set when Record is -1: the event as it waited.
	Released *Waiting
	Decision Decision
	Reason   Reason
	// Held is set on a Parked event that is kept alone for an operator. It is not in the buffer (one with Record -1 has
	// left it), its version line goes on, and a redelivery is a duplicate. Its payload is kept until the operator decides.
	Held bool
	// Dead is set on an event behind a gap that ends in dead letters. Its actions are dead letters at once, which an
	// operator may replay; they hold up nothing in their lane.
	Dead bool
	// Version is the event's version as the version line took it (epoch given, future clamped).
	Version schemas.Version
}
