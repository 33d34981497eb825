package simulation

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// delivered is what the provider knows of one event: when it sent it, and what it was told.
type delivered struct {
	*event
	sent     []time.Time
	accepted time.Time // the first 2xx; zero: none
	statuses []int
}

// sender is the provider: it posts, retries until it is told 2xx, and remembers what it was told.
type sender struct {
	client *http.Client

	mu        sync.Mutex
	delivered map[string]*delivered
	wait      sync.WaitGroup
	busy      int // deliveries that are not over
	last      time.Time
}

func newSender(n *network) *sender {
	transport := &http.Transport{DialContext: n.dialer("provider"), MaxIdleConnsPerHost: 8, DisableCompression: true}
	return &sender{client: &http.Client{Transport: transport, Timeout: 10 * time.Second}, delivered: map[string]*delivered{}}
}

// post sends once and returns the status, 0 for no answer.
func (s *sender) post(ctx context.Context, e *event) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/v1/in/"+team+"/"+string(e.source), bytes.NewReader(e.body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Signature", e.signature())
	s.note(e, func(t *delivered) { t.sent = append(t.sent, time.Now()) })
	status := 0
	if resp, err := s.client.Do(r); err == nil {
		status = resp.StatusCode
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.note(e, func(t *delivered) {
		t.statuses = append(t.statuses, status)
		if status/100 == 2 && t.accepted.IsZero() {
			t.accepted = time.Now()
		}
	})
	return status
}

// note keeps what the provider knows. A forged delivery of an event that is sent as well has an entry of its own.
func (s *sender) note(e *event, fn func(*delivered)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := e.id
	if e.forged {
		at = "forged " + e.id
	}
	if s.delivered[at] == nil {
		s.delivered[at] = &delivered{event: e}
	}
	fn(s.delivered[at])
	s.last = time.Now()
}

// deliver retries until the delivery is accepted. A forged one is sent once.
func (s *sender) deliver(ctx context.Context, rng *rand.Rand, e *event) {
	for ctx.Err() == nil {
		if s.post(ctx, e)/100 == 2 || e.forged {
			return
		}
		sleep(ctx, 500*time.Millisecond+time.Duration(rng.Int64N(int64(4*time.Second))))
	}
}

// entityDeliveries is what the provider sends about one entity: its events, one after the other.
type entityDeliveries struct {
	seed  uint64
	sends []send
}

// send is one delivery.
type send struct {
	*event
	after time.Duration // since the one before was accepted or, if apart, since the beginning
	apart bool          // sent at a time of its own, whatever becomes of the others
}

// run begins to send an entity's deliveries. It returns at once.
func (s *sender) run(ctx context.Context, l entityDeliveries) {
	var inOrder []send
	rng := rand.New(rand.NewPCG(l.seed, 1))
	for _, d := range l.sends {
		if !d.apart {
			inOrder = append(inOrder, d)
			continue
		}
		s.start(rand.New(rand.NewPCG(l.seed, rng.Uint64())), func(rng *rand.Rand) {
			sleep(ctx, d.after)
			s.deliver(ctx, rng, d.event)
		})
	}
	s.start(rng, func(rng *rand.Rand) {
		for _, d := range inOrder {
			sleep(ctx, d.after)
			s.deliver(ctx, rng, d.event)
		}
	})
}

func (s *sender) start(rng *rand.Rand, fn func(*rand.Rand)) {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
	s.wait.Go(func() {
		fn(rng)
		s.mu.Lock()
		s.busy--
		s.mu.Unlock()
	})
}

// idle reports whether everything has been sent.
func (s *sender) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy == 0
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
