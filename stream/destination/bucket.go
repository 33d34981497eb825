package destination

import "time"

// bucket is a token bucket whose rate may differ from look to look. It is not [golang.org/x/time/rate] because it is
// guarded by its destination's mutex and has to say when the next token comes without reserving it.
type bucket struct {
	tokens float64
	at     time.Time // up to when tokens have been poured
}

// refill adds the tokens that have come since the last call, at perSecond, up to burst. The first call fills the bucket.
func (b *bucket) refill(now time.Time, perSecond, burst float64) {
	if b.at.IsZero() {
		b.tokens, b.at = burst, now
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens += passed.Seconds() * perSecond
		b.at = now
	}
	b.tokens = min(b.tokens, burst)
}

// full allows for the rounding of floats: a token that is due is there.
const full = 1 - 1e-9

func (b *bucket) has() bool { return b.tokens >= full }

// next returns when there is a token again.
func (b *bucket) next(perSecond float64) time.Time {
	return b.at.Add(time.Duration((1-b.tokens)/perSecond*float64(time.Second)) + 1)
}

// meter is how many attempts began in a second, lately.
type meter struct {
	from time.Time
	n    int
	last float64
}

func (m *meter) add(now time.Time) {
	if passed := now.Sub(m.from); passed >= time.Second {
		m.last = float64(m.n) / passed.Seconds()
		m.from, m.n = now, 0
	}
	m.n++
}

// perSecond returns the higher of the second before and what there is of this one.
func (m *meter) perSecond(now time.Time) float64 {
	if now.Sub(m.from) > 10*time.Second { // it says nothing of lately
		return float64(m.n) / now.Sub(m.from).Seconds()
	}
	return max(m.last, float64(m.n))
}
