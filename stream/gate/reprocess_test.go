package gate

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
)

// TestReprocess: what ran runs again once per replay, an older snapshot does not unless it is asked for, and the line stays where it is.
func TestReprocess(t *testing.T) {
	t.Parallel()
	before := in(seq(1, 1), seq(2, 2, delta), seq(3, 3))
	at3 := []string{"1 applied/first", "2 applied/next", "3 applied/next"}
	said := func(more ...string) []string { return append(append([]string{}, at3...), more...) }
	table{
		{
			name: "an older snapshot is stale, a delta late, the newest applied", policy: wait, steps: []step{before, reprocess(false, seq(11, 1), seq(12, 2, delta), seq(13, 3))},
			want: said("11 stale/older", "12 late/again", "13 applied/again"), line: &VersionLine{At: at(3)},
		}, {
			name: "older ones as asked for", policy: wait, steps: []step{before, reprocess(true, seq(11, 1), seq(12, 2, delta), seq(13, 3))},
			want: said("11 late/again", "12 late/again", "13 applied/again"), line: &VersionLine{At: at(3)},
		}, {
			name: "each once", policy: wait, steps: []step{before, reprocess(false, seq(13, 3), seq(12, 2, delta), seq(13, 3), seq(11, 1), seq(12, 2, delta), seq(11, 1))},
			want: said("13 applied/again", "12 late/again", "13 duplicate/seen", "11 stale/older", "12 duplicate/seen", "11 duplicate/seen"),
		}, {
			name: "what comes live goes on as if nothing had run again", policy: wait, steps: []step{before, reprocess(true, seq(11, 1), seq(13, 3)), in(seq(1, 1), seq(4, 4), seq(6, 6))},
			want: said("11 late/again", "13 applied/again", "1 duplicate/seen", "4 applied/next", "6 buffered/gap"), waiting: "6:buffered", line: &VersionLine{At: at(4)},
		}, {
			name: "a gap is none of its business", policy: parkNow, steps: []step{before, in(seq(5, 5)), reprocess(false, seq(13, 3))},
			want: said("5 parked/gap_expired", "13 applied/again"), waiting: "5:parked",
		}, {
			name: "whatever the policy says of what is stale", policy: stale(StaleDeliver, StaleDrop), steps: []step{before, reprocess(false, seq(11, 1), seq(12, 2, delta))},
			want: said("11 stale/older", "12 late/again"),
		}, {
			name: "filtered by now, or broken", policy: wait, steps: []step{before, reprocess(true, seq(13, 3, filtered), seq(14, 4, misplaced))},
			want: said("13 filtered/type", "14 quarantined/misplaced"),
		}, {
			name: "a line that has begun again is past all before", policy: wait,
			steps: []step{in(seq(1, 7), seq(2, 1, epoch(2))), reprocess(false, seq(11, 7, epoch(1)), seq(12, 1, epoch(2)), seq(13, 7))},
			want:  []string{"1 applied/first", "2 applied/new_epoch", "11 stale/older", "12 applied/again", "13 applied/again"},
		}, {
			name: "a line of another kind, too", policy: wait,
			steps: []step{in(seq(1, 7), rec(2, schemas.Timestamp, 1)), reprocess(false, seq(11, 7), rec(12, schemas.Timestamp, 1))},
			want:  []string{"1 applied/first", "2 applied/first", "11 stale/older", "12 applied/again"},
		}, {
			name: "without a line nothing is older", policy: wait, steps: []step{reprocess(false, seq(12, 2), seq(11, 1))}, want: []string{"12 applied/again", "11 applied/again"},
		}, {
			name: "of two of one version neither is older", policy: wait,
			steps: []step{in(rec(1, schemas.Timestamp, 5), rec(2, schemas.Timestamp, 5)), reprocess(false, rec(11, schemas.Timestamp, 5))},
			want:  []string{"1 applied/first", "2 applied/equal", "11 applied/again"},
		}, {
			name: "of two of one version the second is older where the first one stands", policy: keepFirst,
			steps: []step{in(rec(1, schemas.Timestamp, 5), rec(2, schemas.Timestamp, 5), rec(3, schemas.Timestamp, 5, delta)),
				reprocess(false, rec(12, schemas.Timestamp, 5), rec(11, schemas.Timestamp, 5), rec(13, schemas.Timestamp, 5, delta)),
				reprocess(true, rec(12, schemas.Timestamp, 5))},
			want: []string{"1 applied/first", "2 stale/equal_first", "3 late/equal_first", "12 stale/equal_first", "11 applied/again", "13 late/again", "12 duplicate/seen"},
		}, {
			name: "of two of one version a fetched one is older", policy: wait,
			steps: []step{in(rec(1, schemas.Timestamp, 5), rec(2, schemas.Timestamp, 5, fetched)), reprocess(true, rec(12, schemas.Timestamp, 5, fetched))},
			want:  []string{"1 applied/first", "2 stale/equal_first", "12 late/again"},
		}, {
			name: "a wanted one of the version of a filtered one is the first", policy: keepFirst,
			steps: []step{in(seq(1, 5, filtered), seq(2, 5)), reprocess(false, seq(12, 5), seq(11, 5))},
			want:  []string{"1 filtered/type", "2 applied/equal", "12 applied/again", "11 stale/equal_first"},
		}, {
			name: "a filtered one of a sequence is newer, too", policy: wait, steps: []step{in(seq(1, 5), seq(2, 6, filtered)), reprocess(false, seq(11, 5))},
			want: []string{"1 applied/first", "2 filtered/type", "11 stale/older"},
		}, {
			name: "by arrival nothing is older", policy: arrival, steps: []step{in(seq(1, 1), seq(2, 2)), reprocess(false, seq(11, 1), seq(12, 2))},
			want: []string{"1 applied/arrival", "2 applied/arrival", "11 applied/again", "12 applied/again"},
		},
	}.test(t)
}
