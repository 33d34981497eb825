package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRetryAfterOfADay: one answer asks for a day, and the destination is well from then on. max_hold caps what is heeded of that: after
// 503 for all that the destination gets, after other answers for the action itself.
func TestRetryAfterOfADay(t *testing.T) {
	t.Parallel()
	const others = 5
	for name, tt := range map[string]struct {
		status int
		heeded time.Duration
		waits  int // calls that come only then
	}{
		"503": {http.StatusServiceUnavailable, 3 * time.Second, 1 + others},
		"500": {http.StatusInternalServerError, time.Hour, 0}, // the action waits longer than the test
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := deploy(t, rig.Fake(t), options{})
			r.edit("timeout: 5s, retry: {attempts: 20, within: 10m,", fmt.Sprintf("timeout: 5s, max_hold: %s, recovery: 0s, retry: {attempts: 20, within: 24h,", tt.heeded))
			head := order("head", 1)
			r.agent.answers(tt.status, func(c call) bool { return c.event == head.id && r.agent.seen(head.id) == 1 })
			r.agent.reply = func(_ call, status int, h http.Header) string {
				if status != http.StatusOK {
					h.Set("Retry-After", "86400")
				}
				return ""
			}
			p := r.serve("intake,stream")
			r.deliver(head)
			waitItems(t, r, p, 1, "--status", "failed")
			told := r.agent.snapshot()[0].end
			if err := r.sender.load(t.Context(), orders("other", others), others, 0); err != nil {
				t.Fatal(err)
			}
			waitItems(t, r, p, max(others, tt.waits), "--status", "done")
			calls := r.agent.snapshot()[1:]
			for _, c := range calls {
				if wait := c.begin.Sub(told); tt.waits > 0 && wait < tt.heeded-100*time.Millisecond { // the answer was on its way
					t.Errorf("%s was called %s after the answer, before the %s that are heeded", c.event, wait, tt.heeded)
				}
			}
			if want := max(others, tt.waits); len(calls) != want {
				t.Errorf("%d calls after the first, want %d", len(calls), want)
			}
		})
	}
}
