package integration

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestMainJob is the product's promise in one test: deliveries go in twice and shuffled, actions come out once and in
// order.
func TestMainJob(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
		p := r.serve("intake,stream")

		all := slices.Concat(lines(8, 6, func(e, n int) delivery { return order(orderName(e), n) })...)
		all = append(all, all[:len(all)/3]...)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, d := range all {
			if status := r.sender.post(t.Context(), d); status != http.StatusAccepted {
				t.Fatalf("delivery %s was answered %d", d.id, status)
			}
		}
		r.agent.waitActed(t, 48, time.Minute)
		r.requireOnce(t)

		waitItems(t, r, p, 48, "--subscription", "fulfil", "--decision", "applied")
	})
}

// TestGapIsSkippedAfterItsWait shows P5: what follows a hole waits as long as declared, then goes on; the state
// that comes after that is stale.
func TestGapIsSkippedAfterItsWait(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{gap: "{wait: 2s, then: skip}"})
	p := r.serve("intake,stream")
	begin := time.Now()
	for _, n := range []int{1, 3, 4} {
		r.deliver(order("o-1", n))
	}
	r.agent.waitActed(t, 3, time.Minute)
	calls := r.agent.snapshot()
	if got := calls[1].begin.Sub(begin); got < 2*time.Second {
		t.Errorf("revision 3 ran %s after the start, before the wait of 2s was over", got)
	}
	judge(r.sender.acceptedByID(), calls).require(t)
	r.deliver(order("o-1", 2))
	waitItems(t, r, p, 1, "--decision", "stale")
	if calls := len(r.agent.snapshot()); calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

func do(t *testing.T, req *http.Request) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(req.WithContext(context.WithoutCancel(t.Context())))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
