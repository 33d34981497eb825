package sink

import (
	"cmp"
	"math"
	"sort"
	"time"
)

// RetryPolicy says how often and when an action is tried again. A zero field takes its default.
type RetryPolicy struct {
	Attempts int           // in all, the first included; default 7
	Within   time.Duration // no attempt starts later than this after the first; default 24 h
	Min      time.Duration // the first step (see Delay); default 1 s
	Max      time.Duration // the last step, and cap of every delay; of a Retry-After only where it cannot hold the destination; default LongestDelay
}

// WithDefaults returns p with the default of each field that is zero.
func (p RetryPolicy) WithDefaults() RetryPolicy {
	p.Attempts = cmp.Or(p.Attempts, 7)
	p.Within = cmp.Or(p.Within, 24*time.Hour)
	p.Min = cmp.Or(p.Min, time.Second)
	if p.Max == 0 {
		p.Max = p.LongestDelay() // 20 h: with 1 s, 9 s, 88 s, 14 min and 2 h before, that is a little less than a day
	}
	return p
}

// Delay returns how long to wait after the n-th failed attempt (1 for the first): between half of the n-th step and all of it, by a u
// that is uniform in [0, 1). Half is left to chance so that what failed together is not tried again together; half is not, so that
// the attempts do not end long before Within. Where less than the step is left of Within, the delay ends with that, but is never less
// than half of the step. It is at least atLeast, but never above Max.
func Delay(p RetryPolicy, n int, atLeast, left time.Duration, u float64) time.Duration {
	longest := p.step(n)
	shortest := longest / 2
	delay := shortest + time.Duration(u*float64(max(0, min(longest, left)-shortest)))
	return min(max(delay, atLeast, 0), p.Max)
}

// minGrowth is the least factor by which steps grow, so that many attempts do not crowd at the start.
const minGrowth = 2

// step returns the longest delay after the n-th failed attempt. The first is Min. The next ones grow by an even factor to Max, which is the
// last, or reach it earlier.
func (p RetryPolicy) step(n int) time.Duration {
	growth := float64(minGrowth)
	if delays := p.Attempts - 1; delays > 1 {
		growth = max(minGrowth, math.Pow(float64(p.Max)/float64(p.Min), 1/float64(delays-1)))
	}
	step := float64(p.Min) * math.Pow(growth, float64(n-1))
	if step >= float64(p.Max)*(1-1e-9) { // rounding must not leave the last step just below Max
		return p.Max
	}
	return time.Duration(step)
}

// LongestDelay returns what Max should be where nobody has said: five sixths of Within, so that few attempts still span it, or less
// where all of them would not fit into it. It is never less than Min.
func (p RetryPolicy) LongestDelay() time.Duration {
	room := p.Within / 20 * 19 // the rest is for the attempts themselves
	unit := time.Millisecond
	if p.Within >= 10*time.Minute {
		unit = time.Second
	}
	tooLong := sort.Search(int(p.Within/6*5/unit)+1, func(n int) bool {
		p.Max = max(p.Min, time.Duration(n)*unit)
		return p.afterAll() > room
	})
	return max(p.Min, time.Duration(tooLong-1)*unit)
}

// afterAll returns how long all delays take together at the most.
func (p RetryPolicy) afterAll() (sum time.Duration) {
	for n := 1; n < p.Attempts; n++ {
		sum += p.step(n)
	}
	return sum
}

// Times says how long after the first attempt a later one begins if the ones before fail at once and the destination does not ask for
// longer waits.
type Times struct{ Earliest, Average, Latest time.Duration }

// Times returns the times of the second attempt and of all after it, also of those that begin later than Within allows.
func (p RetryPolicy) Times() []Times {
	var all []Times
	for latest, n := time.Duration(0), 1; n < p.Attempts; n++ {
		latest += p.step(n)
		all = append(all, Times{Earliest: latest / 2, Average: latest / 4 * 3, Latest: latest})
	}
	return all
}
