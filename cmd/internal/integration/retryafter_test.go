package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRetryAfterOfADay: one answer asks for a day, and the destination is well from then on. max_hold caps what is heeded of that: after
// 429 and 503 for all that the destination gets, after other answers for the action itself.
func TestRetryAfterOfADay(t *testing.T) {
	t.Parallel()
	const asked = 3 * time.Second // the cap in each config
	for name, tt := range map[string]struct {
		status     int
		config     string
		othersWait bool
	}{
		"429":              {http.StatusTooManyRequests, "max_hold: 3s, recovery: 0s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}", true},
		"503":              {http.StatusServiceUnavailable, "max_hold: 3s, recovery: 0s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}", true},
		"500":              {http.StatusInternalServerError, "max_hold: 3s, recovery: 0s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}", false},
		"503, nobody held": {http.StatusServiceUnavailable, "max_hold: 0s, recovery: 0s, retry: {attempts: 20, within: 10m, min: 50ms, max: 3s}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := deploy(t, rig.Fake(t), options{})
			r.edit("timeout: 5s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}", "timeout: 5s, "+tt.config)
			head := order("head", 1)
			r.agent.answer = func(c call) int {
				if c.event == head.id && r.agent.seen(head.id) == 1 {
					return tt.status
				}
				return http.StatusOK
			}
			r.agent.reply = func(_ call, status int, h http.Header) string {
				if status != http.StatusOK {
					h.Set("Retry-After", "86400")
				}
				return ""
			}
			p := r.serve("intake,stream")
			deliver := func(d delivery) {
				t.Helper()
				if err := r.sender.deliver(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			deliver(head)
			r.agent.waitActed(t, 1, 30*time.Second)
			told := r.agent.snapshot()[0].end
			const others = 5
			for i := range others {
				deliver(order(fmt.Sprint("other-", i), 1))
			}
			r.agent.waitActed(t, 1+others, 30*time.Second)
			waitItems(t, r, p, 1+others, "--status", "done")
			for _, c := range r.agent.snapshot()[1:] {
				wait, waits := c.begin.Sub(told), c.event == head.id || tt.othersWait
				switch {
				case waits && wait < asked-100*time.Millisecond: // the answer was on its way
					t.Errorf("%s was called %s after the answer, before the %s that are heeded", c.event, wait, asked)
				case waits && wait > asked+7*time.Second:
					t.Errorf("%s was called %s after the answer, long after the %s that are heeded", c.event, wait, asked)
				case !waits && wait >= asked:
					t.Errorf("%s was called %s after the answer, which was about another action", c.event, wait)
				}
			}
			if calls := len(r.agent.snapshot()); calls != 2+others {
				t.Errorf("%d calls, want %d", calls, 2+others)
			}
		})
	}
}
