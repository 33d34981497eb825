package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

const longestDelay = Duration(7 * 24 * time.Hour)

// mostAttempts is the largest number that is not taken for a typing error.
const mostAttempts = 1000

// policy returns what lanes and fetchers make of r.
func (r Retry) policy() sink.RetryPolicy {
	return sink.RetryPolicy{Attempts: min(r.Attempts, mostAttempts), Within: r.Within.Std(), Min: r.Min.Std(), Max: r.Max.Std()}
}

// fillMax sets the max of the retry at path, if the file does not say it.
func (c *Config) fillMax(path string, r *Retry) {
	if _, written := c.places[path+".max"]; !written {
		r.Max = max(r.Min, min(Duration(r.policy().LongestDelay()), longestDelay))
	}
}

// attempt is how long one attempt or request may take: timeout, and then, of a destination that finishes later, deadline.
type attempt struct{ timeout, deadline Duration }

func (a attempt) longest() time.Duration { return a.timeout.Std() + a.deadline.Std() }

// says names the keys that an attempt's time is of.
func (a attempt) says() string {
	if a.deadline == 0 {
		return "timeout " + a.timeout.String()
	}
	return "timeout " + a.timeout.String() + " and long.deadline " + a.deadline.String()
}

// retry checks the limits of repeated attempts or requests, each of which may take that long.
func (ck *checker) retry(path string, r Retry, one attempt) {
	if !ck.unresolved(path+".attempts") && r.Attempts > mostAttempts {
		ck.problem(path+".attempts", "%d is more than %d", r.Attempts, mostAttempts)
	}
	before := len(ck.problems)
	ck.between(path+".within", r.Within, Duration(time.Second), Duration(30*24*time.Hour))
	ck.between(path+".min", r.Min, Duration(time.Millisecond), Duration(24*time.Hour))
	ck.between(path+".max", r.Max, Duration(time.Millisecond), longestDelay)
	if !ck.unresolved(path+".min") && !ck.unresolved(path+".max") && r.Min > r.Max {
		ck.problem(path+".min", "%s is more than max %s", r.Min, r.Max)
	}
	if len(ck.problems) == before && (ck.written(path) || one.deadline > 0) && ck.c.hasTimes(path, r) {
		ck.spans(path, r, one)
	}
}

// spans notes where the schedule, the time that attempts take, and within do not go together.
func (ck *checker) spans(path string, r Retry, one attempt) {
	times, longest := r.policy().Times(), one.longest()
	if len(times) == 0 {
		if ck.written(path + ".within") {
			ck.note(path+".within", "%s is never used: there is one attempt; write attempts: 2 or more, or leave within out", r.Within)
		}
		return
	}
	begin := 1 // how many attempts begin within it, if each takes as long as it may
	for i, t := range times {
		if t.Average+time.Duration(i+1)*longest <= r.Within.Std() {
			begin++
		}
		if t.Average > r.Within.Std() {
			ck.note(path+".attempts", "%d attempts do not fit into within %s: attempt %d would begin %s after the first on average; write fewer attempts, a shorter min or max, or a longer within",
				r.Attempts, r.Within, i+2, about(t.Average))
			break
		}
	}
	if latest := times[len(times)-1].Latest + time.Duration(len(times))*longest; latest < r.Within.Std()/2 {
		ck.note(path+".within", "%s is never used: the last of %d attempts begins %s after the first at the latest, where the destination asks for no longer wait; "+
			"write more attempts, a longer min or max, or a shorter within", r.Within, r.Attempts, about(latest))
	}
	switch {
	case longest >= r.Within.Std():
		ck.note(path+".within", "%s is no more than %s: an attempt that hangs is not repeated; write a shorter one or a longer within", r.Within, one.says())
	case 2*begin < r.Attempts:
		ck.note(path+".within", "%s is enough for %d of %d attempts, if each takes as long as it may (%s); write a shorter one, fewer attempts, or a longer within", r.Within, begin, r.Attempts, one.says())
	}
}

// hasTimes reports whether it is known when the attempts by r, which stands at path, come.
func (c *Config) hasTimes(path string, r Retry) bool {
	for _, key := range []string{".attempts", ".within", ".min", ".max"} {
		if c.unresolved[path+key] {
			return false
		}
	}
	return r.Attempts >= 1 && r.Attempts <= mostAttempts
}

// shownTimes is how many attempts the comment on a retry shows, if it does not show all.
const shownTimes = 7

// timesOf returns the comment on the retry v at path: when its attempts come. It is empty if v is no retry, or has nothing to say.
func (c *Config) timesOf(v reflect.Value, path string) string {
	var r Retry
	switch v := v.Interface().(type) {
	case Retry:
		r = v
	case FetchRetry:
		r = Retry(v)
	default:
		return ""
	}
	if !c.hasTimes(path, r) || r.Attempts < 2 {
		return ""
	}
	rows := [][]string{{"attempt"}, {"earliest"}, {"average"}, {"latest"}}
	times := r.policy().Times()
	for i, t := range times {
		if t.Earliest > r.Within.Std() {
			break
		}
		switch cut := len(times) > shownTimes; {
		case cut && i == shownTimes-2 && i < len(times)-1:
			for n := range rows {
				rows[n] = append(rows[n], "...")
			}
			continue
		case cut && i > shownTimes-2 && i < len(times)-1:
			continue
		}
		rows[0] = append(rows[0], strconv.Itoa(i+2))
		for n, at := range []time.Duration{t.Earliest, t.Average, t.Latest} {
			rows[n+1] = append(rows[n+1], about(min(at, r.Within.Std())).String())
		}
	}
	return "when attempts begin, after the first, if each fails at once:\n" + aligned(rows)
}

// aligned returns rows of cells as lines with columns.
func aligned(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	return strings.TrimSuffix(b.String(), "\n")
}

// about returns d, rounded for reading.
func about(d time.Duration) Duration {
	switch {
	case d >= time.Hour:
		return Duration(d.Round(time.Minute))
	case d >= time.Minute:
		return Duration(d.Round(time.Second))
	case d >= time.Second:
		return Duration(d.Round(100 * time.Millisecond))
	}
	return Duration(d.Round(time.Millisecond))
}
