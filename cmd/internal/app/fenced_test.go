package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// A fence is lost while the partition's only action is being called: no batch will ever notice. The lanes do, and the
// process claims the partition again and makes the call again under the same key.
func TestFencedIdlePartitionIsServedAgain(t *testing.T) {
	t.Parallel()
	keys, answer := make(chan string, 4), make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		<-answer
	}))
	t.Cleanup(agent.Close)
	ledger := newLedger(t)
	r := deploy(t, agent.URL, ledger, true)
	r.text = strings.Replace(r.text, "retry: {", "timeout: 2s, retry: {", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("o-1", 1))
	key := func() string {
		select {
		case k := <-keys:
			return k
		case <-time.After(time.Minute):
			t.Fatal("the agent is not called")
		}
		return ""
	}
	first := key()
	pgtest.Exec(t, ledger.url, `UPDATE `+ledger.schema+`.fences SET epoch = epoch + 1, token = gen_random_uuid()`)
	close(answer)
	if again := key(); again != first {
		t.Errorf("called again under key %s, not %s", again, first)
	}
	p.item("fulfil", "orders", "o-1-1", "applied", "done")
	p.clean()
}
