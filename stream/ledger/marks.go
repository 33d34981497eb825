package ledger

import "math/bits"

// laneMarks is what a claim knows of its actions by lane_seq: which have ended, which have a row of their own, and whether
// that is committed. An action that is neither is plainly open: its event says that it is wanted, and nothing else is
// written of it. Guarded by Claim.mu.
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
	recorded   bitset // one of the two is committed
	maybeEnded bitset // a completion was written, and its COMMIT got no answer; only for what is not recorded
}

const (
	bucketBits = 10
	bucketSize = 1 << bucketBits
)

type bitset [bucketSize / 64]uint64

func (b *bitset) has(i int64) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitset) set(i int64)      { b[i/64] |= 1 << (i % 64) }
func (b *bitset) unset(i int64)    { b[i/64] &^= 1 << (i % 64) }

// at is the bucket of a lane_seq and its place in it.
func (m *laneMarks) at(laneSeq int64) (*laneBucket, int64) {
	b := m.buckets[laneSeq>>bucketBits]
	if b == nil {
		b = &laneBucket{}
		m.buckets[laneSeq>>bucketBits] = b
	}
	return b, laneSeq & (bucketSize - 1)
}

// markRecorded notes that an action's end, or its row, is committed.
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

// lowDue says whether low is to be written: after laneLowEvery actions, and when the written one lies in a closed window and
// low has moved on.
func (m *laneMarks) lowDue(spans []laneSpan) bool {
	if m.unsaved >= laneLowEvery {
		return true
	}
	n := len(spans)
	return n > 1 && m.savedLow < spans[n-1].from && m.low > m.savedLow
}

// lowSaved notes that low was written.
func (m *laneMarks) lowSaved(low int64) { m.unsaved, m.savedLow = 0, max(m.savedLow, low) }

// advance moves low up to the first action that is not recorded, and drops the marks below.
func (m *laneMarks) advance() {
	for m.low < m.given {
		b := m.buckets[m.low>>bucketBits]
		if b == nil {
			return
		}
		i := m.low & (bucketSize - 1)
		n := int64(bits.TrailingZeros64(^(b.recorded[i/64] >> (i % 64))))
		n = min(n, 64-i%64, m.given-m.low) // the shift brought in zeros
		if n == 0 {
			return
		}
		m.low += n
		if m.low&(bucketSize-1) == 0 {
			delete(m.buckets, m.low>>bucketBits-1)
		}
	}
}

// plain lists the plainly open actions with lane_seq > after, ascending, at most limit.
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
