package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/config"
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
	url := database(t)
	r := deploy(t, agent.URL, url, true)
	r.text = strings.Replace(r.text, "retry: {", "timeout: 2s, retry: {", 1)
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	p.accepted("orders", "orders-secret", order("o-1", 1))
	key := func() string {
		select {
		case k := <-keys:
			return k
		case <-time.After(30 * time.Second):
			t.Fatal("the agent is not called")
		}
		return ""
	}
	first := key()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `UPDATE forebay.fences SET epoch = epoch + 1, token = gen_random_uuid()`); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if again := key(); again != first {
		t.Errorf("called again under key %s, not %s", again, first)
	}
	p.item("fulfil", "orders", "o-1-1", "applied", "done")
	p.clean()
}
