package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestChecker plants what must be found, and what must not.
func TestChecker(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	told := map[string]delivery{"a1": {number: 1}, "a2": {number: 2}}
	one := func(event string, begin, end int) call {
		c := call{key: "key of " + event, event: event, entity: "a", begin: at(begin), status: 200}
		if end > 0 {
			c.end = at(end)
		}
		return c
	}
	// The process is killed at 100, and the partition claimed by 150; it has a second claim by 500, without a fault.
	kill := []fault{{from: at(100), to: at(200)}}
	moved := []claimed{{after: at(90), before: at(150), times: 1}, {after: at(450), before: at(500), times: 1}}
	for name, tt := range map[string]struct {
		calls []call
		done  map[string]time.Time
		want  string // of the verdict's words; empty: nothing is wrong
	}{
		"each once":                         {calls: []call{one("a1", 10, 20), one("a2", 30, 40)}},
		"in flight at the kill":             {calls: []call{one("a1", 10, 20), one("a2", 95, 0), one("a2", 160, 170)}},
		"answered and not committed":        {calls: []call{one("a1", 10, 20), one("a2", 80, 90), one("a2", 160, 170)}, done: map[string]time.Time{"a1": at(30)}},
		"seen as done after it came again":  {calls: []call{one("a1", 80, 90), one("a1", 160, 170), one("a2", 180, 190)}, done: map[string]time.Time{"a1": at(175)}},
		"lost":                              {calls: []call{one("a1", 10, 20)}, want: "lost"},
		"never answered":                    {calls: []call{one("a1", 10, 20), one("a2", 30, 0)}, want: "lost"},
		"out of order":                      {calls: []call{one("a2", 10, 20), one("a1", 30, 40)}, want: "unordered"},
		"again after a newer one":           {calls: []call{one("a1", 10, 20), one("a2", 90, 95), one("a1", 160, 170)}, want: "overtaken"},
		"done by the ledger":                {calls: []call{one("a1", 10, 20), one("a2", 30, 40), one("a2", 160, 170)}, done: map[string]time.Time{"a2": at(99)}, want: "by the ledger"},
		"no change of hands in between":     {calls: []call{one("a1", 10, 20), one("a2", 30, 40), one("a2", 60, 70)}, want: "no fault moved"},
		"begun after the change of hands":   {calls: []call{one("a1", 10, 20), one("a2", 160, 170), one("a2", 180, 190)}, want: "no fault moved"},
		"a change of hands without a fault": {calls: []call{one("a1", 10, 20), one("a2", 440, 445), one("a2", 510, 520)}, want: "no fault moved"},
		"twice for one change of hands":     {calls: []call{one("a1", 10, 20), one("a2", 95, 0), one("a2", 140, 0), one("a2", 149, 170)}, want: "no fault moved"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watch{done: tt.done, claims: map[int32][]claimed{3: moved}, places: map[string]int32{"a": 3}}
			v := judge(told, tt.calls)
			got := strings.Join(w.excuses(v, kill), "; ")
			for what, events := range map[string][]string{"lost": v.lost, "unordered": v.unordered, "overtaken": v.overtaken} {
				if len(events) > 0 {
					got += fmt.Sprintf(" %s %s", what, events)
				}
			}
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the checker says %q, want %q", got, tt.want)
			}
		})
	}
}
