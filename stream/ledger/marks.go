package ledger

// Actions without rows. An action that ends by its first attempt has no row of its own. Its event's row says that it is wanted, and a
// row of completions, which has up to 1,024 actions, says that it is done. Other actions get a row in actions. So a claim has to
// know which of the two each action has: laneMarks hold that, a few bits per action. A lane_seq is marked where its bit is set.
//
//	                    Postgres CPU    WAL         of an action (forebay-bench lanes, one run each, 22 Nov 2026)
//	with                8.3 µs          488 B
//	without             37.5 µs         1,183 B
//
// The door:
//
//	extend, markRecorded, advance   actions were given, their ends or rows are committed   Claim, results, copies
//	wayOf, unknown, lowDue          where a result is written; a write in doubt            results.go
//	plain                           open actions of which only the event's row says so     Open, WithoutCopy
//	giveRows, giveRowsNow           rows for those that keep lane_low back                 results.go, sweep
//	loadMarks, Claim.low            lane_low and what is above it                          claim.go
//
// In SQL it is completionInsert, actionsInsert with eventOfLane, actionsStand, actionsKnown, laneLowWrite, openPlainRead,
// withoutCopyPlainRead and marksRead. To take it out, a batch inserts every action's row as bufferedActionsInsert does, and a
// result updates it.

import (
	"context"
	"math/bits"
)

// laneMarks holds, by lane_seq, the state of a claim's actions: which have ended, which have a row of their own, and whether
// that is committed. An action that is neither is open: its event says that it is wanted, and nothing else is
// written for it. Guarded by Claim.mu.
type laneMarks struct {
	low      int64 // every action below has ended or has a row, committed
	given    int64 // no action has this lane_seq yet
	buckets  map[int64]*laneBucket
	unsaved  int64 // actions recorded since low was last written
	savedLow int64 // low as it was last written
}

// laneBucket holds the marks of 1<<bucketBits lane_seqs.
type laneBucket struct {
	ended      bitset // a completion says that it is done
	withRow    bitset // it has a row in actions, or is about to
	recorded   bitset // its completion or its row is committed
	maybeEnded bitset // not recorded, and a completion was written whose COMMIT failed or got no answer
}

const (
	bucketBits = 10
	bucketSize = 1 << bucketBits
)

type bitset [bucketSize / 64]uint64

func (b *bitset) has(i int64) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitset) set(i int64)      { b[i/64] |= 1 << (i % 64) }
func (b *bitset) unset(i int64)    { b[i/64] &^= 1 << (i % 64) }

// at returns the bucket of a lane_seq, and its index there.
func (m *laneMarks) at(laneSeq int64) (*laneBucket, int64) {
	b := m.buckets[laneSeq>>bucketBits]
	if b == nil {
		b = &laneBucket{}
		m.buckets[laneSeq>>bucketBits] = b
	}
	return b, laneSeq & (bucketSize - 1)
}

// markRecorded marks an action whose completion, or row, is committed.
func (m *laneMarks) markRecorded(laneSeq int64) {
	if laneSeq < m.low {
		return
	}
	b, i := m.at(laneSeq)
	if !b.recorded.has(i) {
		b.recorded.set(i)
		m.unsaved++
	}
}

// way is where a result of an action is written.
type way uint8

const (
	nowhere    way = iota // the action has ended, and does not change
	belowLow              // into its row, if it has one; otherwise it is done
	intoRow               // into its row, which is there
	completion            // into a row of completions: the action needs no row of its own
	newRow                // into a row that is made
)

// wayOf decides where a result is written, and marks the action accordingly. plain says that a completion says all of the result.
func (m *laneMarks) wayOf(laneSeq int64, plain bool) way {
	if laneSeq < m.low {
		return belowLow
	}
	b, i := m.at(laneSeq)
	switch {
	case b.ended.has(i):
		return nowhere
	case b.withRow.has(i) && b.recorded.has(i):
		return intoRow
	case !b.withRow.has(i) && plain:
		b.ended.set(i)
		return completion
	}
	b.withRow.set(i)
	return newRow
}

// unknown takes back that an action is marked as ended: whether its completion was committed is not known.
func (m *laneMarks) unknown(laneSeq int64) {
	b, i := m.at(laneSeq)
	b.ended.unset(i)
	b.maybeEnded.set(i)
}

// lowDue reports whether low is to be written: after laneLowEvery actions, or when low has moved on and the written one is that of an
// action in a closed window, which it would keep from being dropped.
func (m *laneMarks) lowDue(spans []laneSpan) bool {
	if m.unsaved >= laneLowEvery {
		return true
	}
	n := len(spans)
	return n > 1 && m.savedLow < spans[n-1].from && m.low > m.savedLow
}

// lowSaved is called when low was written.
func (m *laneMarks) lowSaved(low int64) { m.unsaved, m.savedLow = 0, max(m.savedLow, low) }

// advance moves low up to the first action that is not recorded, and drops the marks below.
func (m *laneMarks) advance() {
	for m.low < m.given {
		b := m.buckets[m.low>>bucketBits]
		if b == nil {
			return
		}
		i := m.low & (bucketSize - 1)
		n := int64(bits.TrailingZeros64(^(b.recorded[i/64] >> (i % 64)))) // recorded ones in a row, from i on
		n = min(n, 64-i%64, m.given-m.low)                                // to the end of this word at most
		if n == 0 {
			return
		}
		m.low += n
		if m.low&(bucketSize-1) == 0 {
			delete(m.buckets, m.low>>bucketBits-1)
		}
	}
}

// plain returns the open actions without a row with lane_seq > after, ascending, at most limit.
func (m *laneMarks) plain(after int64, limit int) []int64 {
	var out []int64
	for s := max(after+1, m.low); s < m.given && len(out) < limit; {
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

const (
	// maxSpan is how far lane_low may stay behind the newest action. A lane that stands still for days would keep it back,
	// and this process and the next claim would have to keep the marks of all actions that have ended since.
	maxSpan = 1 << 20
	// maxGivenRows bounds how many rows giveRows makes in one write.
	maxGivenRows = 512
)

// giveRows adds to a write rows, with status pending, for the open actions that keep lane_low too far behind, or in a closed window, which
// could not be dropped then. found is how many.
func (w *resultWrite) giveRows(c *Claim) (found int) {
	m := &c.marks
	bound := m.given - maxSpan
	if n := len(c.spans); n > 1 {
		bound = max(bound, c.spans[n-1].from)
	}
	if m.low >= bound {
		return 0
	}
	mine := make(map[laneRef]bool, len(w.recorded))
	for _, l := range w.recorded {
		mine[l] = true
	}
	for _, s := range m.plain(0, maxGivenRows) {
		if s >= bound {
			break
		}
		b, i := m.at(s)
		if b.ended.has(i) || b.maybeEnded.has(i) || mine[laneRef{c, s}] { // a completion is being written
			continue
		}
		b.withRow.set(i)
		w.window(c.windowOf(s)).insert(&Result{Claim: c, LaneSeq: s, Status: Pending})
		w.recorded = append(w.recorded, laneRef{c, s})
		found++
	}
	return found
}

// giveRowsNow writes the rows of giveRows for claims that may record no results at the moment, until none is found or one of the claims has
// lost its fence.
func (rec recorder) giveRowsNow(ctx context.Context, claims []*Claim) error {
	for {
		w := &resultWrite{claims: claimsSorted(claims), windows: map[int32]*windowResults{}}
		found := 0
		for _, c := range w.claims {
			c.mu.Lock()
			found += w.giveRows(c)
			c.mu.Unlock()
		}
		if found == 0 {
			return nil
		}
		fenced, err := rec.record(ctx, w)
		if err != nil {
			return err
		}
		w.markCommitted()
		if len(fenced) > 0 {
			return nil
		}
	}
}
