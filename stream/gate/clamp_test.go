package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// drawTimes draws events of one entity in the log's order, many of which come from the future.
func drawTimes(t *rapid.T) []Record {
	now := day
	var records []Record
	for i := range rapid.IntRange(2, 20).Draw(t, "events") {
		now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "pause")) * time.Second)
		at := now.Add(time.Duration(rapid.IntRange(-100, 400).Draw(t, "ahead")) * time.Second)
		rank := sub(int32(rapid.IntRange(0, 2).Draw(t, "rank")))
		records = append(records, rec(i+1, schemas.Timestamp, at.UnixNano(), appended(now), rank))
	}
	return records
}

var skewed = with(func(p *Policy) { p.FutureSkew = time.Minute })

// TestClampedTimestampsAgreeOnEveryReplay: the limit is the record's own append time, so that a replay, hours later and
// in other batches, puts every event on the same version and decides the same.
func TestClampedTimestampsAgreeOnEveryReplay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		records := drawTimes(t)
		type outcome struct {
			Decision
			Reason
			At schemas.Version
		}
		decide := func(size int) (all []outcome) {
			st := NewState()
			for from := 0; from < len(records); from += size {
				for _, o := range Decide(st, records[from:min(from+size, len(records))], skewed) {
					all = append(all, outcome{o.Decision, o.Reason, o.Version})
				}
			}
			return all
		}
		live := decide(1)
		if diff := cmp.Diff(live, decide(rapid.IntRange(1, 20).Draw(t, "batch"))); diff != "" {
			t.Fatal(diff)
		}
		for i, o := range live {
			if limit := records[i].AppendTime.Add(skewed.FutureSkew).UnixNano(); o.At.Value > limit || o.At.Value != min(records[i].Version.Value, limit) {
				t.Fatalf("event %d is at %d, its limit is %d", i, o.At.Value, limit)
			}
		}
	})
}

// TestClampingNeverReversesTwoEvents: what is no older and comes no earlier is not stale for the clamp. Where the clamp
// makes two times one, the rank breaks the tie, as ever.
func TestClampingNeverReversesTwoEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		records := drawTimes(t)
		i := rapid.IntRange(0, len(records)-2).Draw(t, "earlier")
		j := rapid.IntRange(i+1, len(records)-1).Draw(t, "later")
		if records[i].Version.Compare(records[j].Version) > 0 {
			records[i].Version, records[j].Version = records[j].Version, records[i].Version
		}
		if records[i].Version.Value < records[j].Version.Value {
			records[i].Version.Sub, records[j].Version.Sub = 0, 0
		}
		out := Decide(NewState(), []Record{records[i], records[j]}, skewed)
		if out[1].Decision != Applied {
			t.Fatalf("%+v after %+v is %s/%s", records[j].Version, records[i].Version, out[1].Decision, out[1].Reason)
		}
	})
	future := func(id int, after time.Duration, rank int32) Record {
		return rec(id, schemas.Timestamp, day.Add(time.Hour+after).UnixNano(), appended(day), sub(rank))
	}
	table{{
		name: "a clamped tie", policy: skewed,
		steps: []step{in(future(1, 0, 2), future(2, time.Second, 1), future(3, 0, 3), future(4, 0, 3))},
		want:  []string{"1 applied/first", "2 stale/older", "3 applied/next", "4 applied/equal"},
	}}.test(t)
}
