package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// chunked hides a body's length, so that it is sent in chunks.
type chunked struct{ io.Reader }

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	for _, test := range []struct {
		name   string
		size   int
		signed bool
		want   int
		reason string
	}{
		{"at the source's limit", 1024, true, 202, ""},
		{"one over the source's limit", 1025, true, 413, "source"},
		{"forged, over the source's limit", 1025, false, 401, ""},
		{"forged, at the ceiling", ceiling, false, 401, ""},
		{"one over the ceiling", ceiling + 1, true, 413, "intake"},
		{"forged, one over the ceiling", ceiling + 1, false, 413, "intake"},
		{"far over", 1 << 20, true, 413, "intake"},
		{"empty", 0, true, 202, ""},
	} {
		for _, hidden := range []bool{false, true} {
			body := bytes.Repeat([]byte("x"), test.size)
			var r io.Reader = bytes.NewReader(body)
			if hidden {
				r = chunked{r}
			}
			signature := ""
			if test.signed {
				signature = sign(body)
			}
			a := in.do("POST", inPath, r, "X-Signature", signature)
			if a.status != test.want || test.want == 413 && a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, chunked %t: %d, want %d", test.name, hidden, a.status, test.want)
			}
		}
	}
	in.empty()
	if n := len(in.log.events); n != 2 || len(in.log.events[0].Data) != 1024 {
		t.Errorf("%d events", n)
	}
}

// While the brokers are waited for, the server's read timeout, which may be shorter, does not end the request.
func TestReadTimeoutIsTheBodys(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{time.Second, time.Hour} {
		in := newIntake(t, func(c *Config, _ *Source) { c.ReadTimeout = timeout })
		w := deadlines{httptest.NewRecorder(), make(chan deadline, 1)}
		r := httptest.NewRequest("POST", inPath, strings.NewReader("1"))
		r.Header.Set("X-Signature", sign([]byte("1")))
		lifted := false
		in.log.answer = func(context.Context) error { lifted = len(w.set) == 1 && (<-w.set).at.IsZero(); return nil }
		if in.handler.ServeHTTP(w, r); lifted != (timeout == time.Second) {
			t.Errorf("with a read timeout of %v the deadline is lifted: %t", timeout, lifted)
		}
	}
}

// wait waits for a signal, for as long as a test waits for anything.
func (in *intake) wait(signal <-chan struct{}) {
	in.t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		in.t.Fatal("nothing happened")
	}
}

func TestBodyIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 1<<20, 1<<20 })
	body := make([]byte, 300<<10)
	for i := range body {
		body[i] = byte(i * 7)
	}
	for i, r := range []io.Reader{bytes.NewReader(body), chunked{bytes.NewReader(body)}} {
		if a := in.do("POST", inPath, r, "x-SIGNATURE", sign(body)); a.status != 202 {
			t.Fatalf("%+v", a)
		}
		if !bytes.Equal(in.log.events[i].Data, body) {
			t.Errorf("body %d changed", i)
		}
	}
	if a := in.do("POST", inPath, nil, "X-Signature", fmt.Sprintf("%x", mac(nil))); a.status != 202 || in.log.deliveries[0].Body == nil {
		t.Errorf("no body: %+v", a)
	}
}

// What the log took is used again for the next body, and nothing else is: neither what the log still has nor what a
// handshake answers with.
func TestBuffersAreUsedAgain(t *testing.T) {
	t.Parallel()
	log := &leaver{}
	in := setup(t, func(c *Config, s *Source) { c.Log, s.MaxBody = log, ceiling })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 60 {
				id := fmt.Sprintf("%d-%d ", i, n)
				body := id + strings.Repeat(string(rune('a'+i)), n*60)
				want := 202
				switch n % 4 {
				case 1:
					body, want = "challenge "+body, 200
				case 2:
					body, want = "leave "+body, 503
				}
				a := in.post(body)
				if a.status != want || want == 200 && "challenge "+a.body != body {
					t.Errorf("%d: %.40q", a.status, a.body)
				}
			}
		})
	}
	wg.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.taken != 8*30 || len(log.left) != 8*15 {
		t.Errorf("%d taken, %d left", log.taken, len(log.left))
	}
	for e, text := range log.left {
		if string(e.Data) != text {
			t.Errorf("a body that the log still has has become %.40q, was %.40q", e.Data, text)
		}
	}
}

// leaver is a log that leaves some events on their way, and says so.
type leaver struct {
	mu    sync.Mutex
	taken int
	left  map[*schemas.Event]string
}

func (l *leaver) Append(_ context.Context, _ time.Time, _ string, e *schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.HasPrefix(e.Data, []byte("leave ")) {
		if l.left == nil {
			l.left = map[*schemas.Event]string{}
		}
		l.left[e] = string(e.Data)
		return schemas.Errorf(schemas.Unavailable, "produce", "no answer in time")
	}
	var i, n int
	if _, err := fmt.Sscanf(string(e.Data), "%d-%d ", &i, &n); err != nil || string(e.Data) != fmt.Sprintf("%d-%d ", i, n)+strings.Repeat(string(rune('a'+i)), n*60) {
		return fmt.Errorf("a mixed body %.40q", e.Data)
	}
	l.taken++
	return nil
}

func (l *leaver) Quarantine(context.Context, time.Time, string, *Delivery) error { return nil }

func (l *leaver) AppendAll(context.Context, time.Time, string, []*schemas.Event, string, []*Delivery) error {
	return nil
}
