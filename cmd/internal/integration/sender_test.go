package integration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	githubSecret = "github-secret-of-the-suite"
	ordersSecret = "orders-secret-of-the-suite"
)

// delivery is one event as the provider has it.
type delivery struct {
	source string // "github" or "orders"
	id     string
	entity string // as the agent will see it
	number int    // position on the entity's line, from 1
	event  string // of GitHub; "issues" where empty
	body   []byte
	make   func() []byte // the body, where it is too large to be kept for every event
}

// issue is a GitHub delivery: state number of the issue, one second after the one before.
func issue(repository, issue, number int) delivery {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(number) * time.Second).Format(time.RFC3339)
	body := fmt.Appendf(nil, `{"action":"edited","issue":{"number":%d,"updated_at":%q},"repository":{"id":%d}}`, issue, at, repository)
	return delivery{source: "github", id: bodyID(body), entity: fmt.Sprintf("%d/%d", repository, issue), number: number, body: body}
}

// bodyID is the id of a GitHub event: GitHub signs nothing but the body.
func bodyID(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// guid is what GitHub has in X-GitHub-Delivery: the same when it delivers again. It ends with the number.
func (d delivery) guid() string {
	h := d.id[len("sha256:"):]
	return h[:8] + "-" + h[8:12] + "-4" + h[12:15] + "-8" + h[15:18] + "-" + h[18:24] + fmt.Sprintf("%06d", d.number)
}

// order is a delivery of the generic source, whose revisions are a dense sequence from 1.
func order(name string, rev int) delivery {
	return delivery{
		source: "orders", id: fmt.Sprintf("%s-%d", name, rev), entity: name, number: rev,
		body: fmt.Appendf(nil, `{"type":"com.shop.order.changed","order":{"id":%q,"rev":%d}}`, name, rev),
	}
}

func (d delivery) request(ctx context.Context, intake, team string) *http.Request {
	body := d.body
	if d.make != nil {
		body = d.make()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, intake+"/v1/in/"+team+"/"+d.source, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if d.source == "github" {
		r.Header.Set("X-GitHub-Event", cmp.Or(d.event, "issues"))
		r.Header.Set("X-GitHub-Delivery", d.guid())
		r.Header.Set("X-Hub-Signature-256", "sha256="+sign(githubSecret, body))
	} else {
		r.Header.Set("X-Event-Id", d.id)
		r.Header.Set("X-Signature", "sha256="+sign(ordersSecret, body))
	}
	return r
}

func sign(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

// sender is the provider: it posts, retries until it is told 2xx, and remembers what it was told.
type sender struct {
	client *http.Client
	team   string
	intake func() string // the address may change with a restart
	once   bool          // load repeats nothing by itself

	mu       sync.Mutex
	accepted map[string]delivery // by id
	retries  atomic.Int64
}

func newSender(t *testing.T, team string, intake func() string) *sender {
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &sender{client: &http.Client{Transport: tr, Timeout: 15 * time.Second}, team: team, intake: intake, accepted: map[string]delivery{}}
}

// post sends once and returns the status, 0 for no answer.
func (s *sender) post(ctx context.Context, d delivery) int {
	resp, err := s.client.Do(d.request(ctx, s.intake(), s.team))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode/100 == 2 {
		s.mu.Lock()
		s.accepted[d.id] = d
		s.mu.Unlock()
	}
	return resp.StatusCode
}

// deliver retries until the delivery is accepted or ctx ends.
func (s *sender) deliver(ctx context.Context, d delivery) error {
	for {
		if s.post(ctx, d)/100 == 2 {
			return nil
		}
		s.retries.Add(1)
		select {
		case <-ctx.Done():
			return fmt.Errorf("delivery %s was never accepted: %w", d.id, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// load delivers many entities at once, each entity's events in order, every third event a second time right after (unless once).
// The pause after each event of a worker bounds the rate.
func (s *sender) load(ctx context.Context, entities [][]delivery, workers int, pause time.Duration) error {
	work := make(chan []delivery, len(entities)) // closed here, before the workers read
	for _, e := range entities {
		work <- e
	}
	close(work)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for line := range work {
				if err := s.line(ctx, line, pause); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (s *sender) line(ctx context.Context, line []delivery, pause time.Duration) error {
	for i, d := range line {
		for range 1 + btoi(i%3 == 0 && !s.once) {
			if err := s.deliver(ctx, d); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *sender) acceptedByID() map[string]delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]delivery, len(s.accepted))
	maps.Copy(out, s.accepted)
	return out
}

// lines makes the histories of n entities with m events each.
func lines(n, m int, make1 func(entity, number int) delivery) [][]delivery {
	out := make([][]delivery, n)
	for e := range out {
		for i := range m {
			out[e] = append(out[e], make1(e+1, i+1))
		}
	}
	return out
}
