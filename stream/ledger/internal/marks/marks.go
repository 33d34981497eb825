// Package marks remembers, in a few bits an action, how the actions of one claim stand: in memory, with nothing of a database.
//
// # Actions without rows
//
// An action that ends by its first attempt has no row of its own. Its event's row says that it is wanted, and a row of completions, which
// has up to 1,024 actions, says that it is done. Other actions get a row in actions. So a claim has to know which of the two each action
// has: that is what [Marks] say. An action with neither is open: nothing else is written for it.
//
//	                    Postgres CPU    WAL         of an action (forebay-bench lanes, one run each, 22 Nov 2026)
//	with                8.3 µs          488 B
//	without             37.5 µs         1,183 B
//
// The door, by who calls it in stream/ledger:
//
//	New, Load                         what a claim finds in the tables                                claim.go
//	Bucket                            which row of completions an action is in                        resultrows.go, commit.go
//	Given, GiveRow                    a batch gave actions; some have a row from the start            claimstate.go
//	WayOf, Unknown                    where a result is written; a write in doubt                     results.go
//	WayOfCopy                         where a payload copy is written                                 copies.go
//	MarkRecorded, Advance             ends or rows are committed                                      results.go, copies.go
//	Plain                             open actions of which only the event's row says so              open.go, giverows.go
//	MayGiveRow, Low, SavedLow         rows for those that keep Low back, and when Low is written      giverows.go
//
// In SQL it is completionInsert, actionsInsert with eventOfLane, actionsStand, actionsKnown, laneLowWrite, openPlainRead,
// withoutCopyPlainRead and marksRead. To take it out, a batch inserts every action's row as bufferedActionsInsert does, and a
// result updates it.
package marks

import "math/bits"

// Marks says, by lane_seq, of a claim's actions: which have ended, which have a row of their own, and whether that is committed. Not safe
// for concurrent use.
type Marks struct {
	Low      int64 // every action below has ended or has a row, committed
	Given    int64 // the lane_seq that the next action gets
	Unsaved  int64 // actions recorded since Low was last written
	SavedLow int64 // Low as it was last written
	buckets  map[int64]*bucket
}

// New returns the marks of actions of which nothing is known from low on.
func New(low, given int64) Marks {
	return Marks{Low: low, Given: given, SavedLow: low, buckets: map[int64]*bucket{}}
}

// bucket holds the marks of bucketSize lane_seqs. A lane_seq is marked where its bit is set.
type bucket struct {
	ended      bitset // a completion says that it is done
	withRow    bitset // it has a row in actions, or is about to
	recorded   bitset // its completion or its row is committed
	maybeEnded bitset // not recorded, and a completion was written whose COMMIT failed or got no answer
}

const (
	bucketBits = 10
	bucketSize = 1 << bucketBits
)

// Bucket returns the bucket of an action, whose lane_seqs have all but their last ten bits in common, and its place in it. A row of
// completions is of one bucket.
func Bucket(laneSeq int64) (bucket int64, place int16) {
	return laneSeq >> bucketBits, int16(laneSeq & (bucketSize - 1))
}

// LaneSeq returns the action at a place in a bucket.
func LaneSeq(bucket int64, place int16) int64 { return bucket<<bucketBits | int64(place) }

type bitset [bucketSize / 64]uint64

func (b *bitset) has(i int64) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitset) set(i int64)      { b[i/64] |= 1 << (i % 64) }
func (b *bitset) unset(i int64)    { b[i/64] &^= 1 << (i % 64) }

// at returns the bucket of a lane_seq, and its index there.
func (m *Marks) at(laneSeq int64) (*bucket, int64) {
	b := m.buckets[laneSeq>>bucketBits]
	if b == nil {
		b = &bucket{}
		m.buckets[laneSeq>>bucketBits] = b
	}
	return b, laneSeq & (bucketSize - 1)
}

// Load marks an action as it was read from the database: ended if it has a completion, else open with a row in actions. It reports whether the
// action has both.
func (m *Marks) Load(laneSeq int64, ended bool) (both bool) {
	if laneSeq < m.Low {
		return false
	}
	b, i := m.at(laneSeq)
	if ended {
		b.ended.set(i)
	} else {
		b.withRow.set(i)
	}
	m.MarkRecorded(laneSeq)
	return b.ended.has(i) && b.withRow.has(i)
}

// Ended reports whether a completion of the action is recorded, or about to be; of an action below Low it does not know.
func (m *Marks) Ended(laneSeq int64) bool {
	b := m.buckets[laneSeq>>bucketBits]
	return b != nil && b.ended.has(laneSeq&(bucketSize-1))
}

// MarkRecorded marks an action whose completion, or row, is committed.
func (m *Marks) MarkRecorded(laneSeq int64) {
	if laneSeq < m.Low {
		return
	}
	b, i := m.at(laneSeq)
	if !b.recorded.has(i) {
		b.recorded.set(i)
		m.Unsaved++
	}
}

// Way is where something of an action is written.
type Way uint8

// The ways.
const (
	Nowhere    Way = iota // the action has ended, and does not change
	BelowLow              // into its row, if it has one; otherwise it is done
	IntoRow               // into its row, which is there
	Completion            // into a row of completions: the action needs no row of its own
	NewRow                // into a row that is made
)

// WayOf decides where a result is written, and marks the action accordingly. plain says that a completion says all of the result.
func (m *Marks) WayOf(laneSeq int64, plain bool) Way {
	if laneSeq < m.Low {
		return BelowLow
	}
	b, i := m.at(laneSeq)
	switch {
	case b.ended.has(i):
		return Nowhere
	case b.withRow.has(i) && b.recorded.has(i):
		return IntoRow
	case !b.withRow.has(i) && plain:
		b.ended.set(i)
		return Completion
	}
	b.withRow.set(i)
	return NewRow
}

// WayOfCopy decides where a payload copy is written, and marks the action if that is a new row. What may have ended gets no copy.
func (m *Marks) WayOfCopy(laneSeq int64) Way {
	if laneSeq < m.Low {
		return BelowLow
	}
	b, i := m.at(laneSeq)
	switch {
	case b.ended.has(i), b.maybeEnded.has(i) && !b.recorded.has(i):
		return Nowhere
	case b.withRow.has(i) && b.recorded.has(i):
		return IntoRow
	}
	b.withRow.set(i)
	return NewRow
}

// Unknown takes back that an action is marked as ended: whether its completion was committed is not known.
func (m *Marks) Unknown(laneSeq int64) {
	b, i := m.at(laneSeq)
	b.ended.unset(i)
	b.maybeEnded.set(i)
}

// MayGiveRow reports whether a row that says pending would be true of an action: no completion of it is there, being written, or in doubt.
func (m *Marks) MayGiveRow(laneSeq int64) bool {
	b, i := m.at(laneSeq)
	return !b.ended.has(i) && !b.maybeEnded.has(i)
}

// GiveRow marks an action that has a row, or is about to.
func (m *Marks) GiveRow(laneSeq int64) {
	b, i := m.at(laneSeq)
	b.withRow.set(i)
}

// Advance moves Low up to the first action that is not recorded (see bucket), at most to Given, and forgets the buckets that lie wholly below.
func (m *Marks) Advance() {
	for m.Low < m.Given {
		b := m.buckets[m.Low>>bucketBits]
		if b == nil {
			return
		}
		i := m.Low & (bucketSize - 1)
		n := int64(bits.TrailingZeros64(^(b.recorded[i/64] >> (i % 64)))) // how many actions in a row are recorded, from i on
		n = min(n, 64-i%64, m.Given-m.Low)                                // in this word, and up to Given
		if n == 0 {
			return
		}
		m.Low += n
		if m.Low&(bucketSize-1) == 0 {
			delete(m.buckets, (m.Low>>bucketBits)-1)
		}
	}
}

// LowSaved is called when a Low was written.
func (m *Marks) LowSaved(low int64) { m.Unsaved, m.SavedLow = 0, max(m.SavedLow, low) }

// Plain returns the open actions without a row with lane_seq > after, ascending, at most limit. They are those from Low up to Given, which is given
// next, that are not recorded: what has ended is recorded, and so is what has a row. A bucket that is not there has nothing recorded.
func (m *Marks) Plain(after int64, limit int) []int64 {
	var out []int64
	for s := max(after+1, m.Low); s < m.Given && len(out) < limit; {
		b := m.buckets[s>>bucketBits]
		i := s & (bucketSize - 1)
		if b == nil {
			out = append(out, s)
			s++
			continue
		}
		// Skip the recorded ones of this 64-bit word at once.
		if n := int64(bits.TrailingZeros64(^(b.recorded[i/64] >> (i % 64)))); n > 0 {
			s += min(n, 64-i%64)
			continue
		}
		out = append(out, s)
		s++
	}
	return out
}
