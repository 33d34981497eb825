package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/sink"
)

func target(t testing.TB, f *Fetcher) *url.URL {
	t.Helper()
	u, err := f.tpl.Expand(Values{Entity: "42", From: "1", To: "2", ID: "id", Type: "type"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestWire is one exchange on real sockets: what is sent, and every way in which a server can fail.
func TestWire(t *testing.T) {
	t.Parallel()
	var got *http.Request
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/ok", func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"rev":1}`)
	})
	status := func(path string, code int, header ...string) {
		mux.HandleFunc("GET /orders/"+path, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, "you sent "+headerSecret) // destinations echo
		})
	}
	for _, code := range []int{204, 301, 400, 401, 403, 404, 408, 410, 422, 429, 500, 503} {
		status(strconv.Itoa(code), code, "Location", "/orders/ok")
	}
	status("slow-down", 429, "Retry-After", "7")
	status("secondary", 403, "Retry-After", "60")
	status("spent", 403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(30*time.Minute).Unix(), 10))
	status("spent-seconds", 429, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "90")
	status("left", 403, "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "90")
	status("gzip", 200, "Content-Encoding", "gzip")
	status("paging", 200, "Link", `<https://evil.example/>; rel="next"`)
	mux.HandleFunc("GET /orders/large", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2001)) })
	mux.HandleFunc("GET /orders/fits", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2000)) })
	mux.HandleFunc("GET /orders/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("GET /orders/hang", func(_ http.ResponseWriter, r *http.Request) { <-hang })
	mux.HandleFunc("GET /orders/hang-in-body", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "[")
		w.(http.Flusher).Flush()
		<-hang
	})
	cut := func(w http.ResponseWriter, begin string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(c, begin)
			c.Close()
		}
	}
	mux.HandleFunc("GET /orders/cut", func(w http.ResponseWriter, _ *http.Request) { cut(w, "") })
	mux.HandleFunc("GET /orders/cut-in-body", func(w http.ResponseWriter, _ *http.Request) {
		cut(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hang)
	client := newTransport(t)

	for _, test := range []struct {
		path   string
		reason Reason
		class  sink.Class
		wait   time.Duration // asked for, at least
	}{
		{"ok", "", "", 0}, {"204", "", "", 0}, {"fits", "", "", 0},
		{"404", NotFound, sink.ClassRejected, 0}, {"410", Gone, sink.ClassRejected, 0}, {"400", Rejected, sink.ClassRejected, 0},
		{"422", Rejected, sink.ClassRejected, 0}, {"301", Rejected, sink.ClassRejected, 0},
		{"401", Denied, sink.ClassDenied, 0}, {"403", Denied, sink.ClassDenied, 0}, {"left", Denied, sink.ClassDenied, 0},
		{"500", Unavailable, sink.ClassBusy, 0}, {"503", Unavailable, sink.ClassBusy, 0}, {"408", Unavailable, sink.ClassBusy, 0},
		{"429", Throttled, sink.ClassThrottled, 0}, {"slow-down", Throttled, sink.ClassThrottled, 7 * time.Second},
		{"secondary", Throttled, sink.ClassThrottled, time.Minute}, {"spent", Throttled, sink.ClassThrottled, 29 * time.Minute},
		{"spent-seconds", Throttled, sink.ClassThrottled, 90 * time.Second},
		{"large", TooLarge, sink.ClassRejected, 0}, {"endless", TooLarge, sink.ClassRejected, 0}, {"gzip", NotJSON, sink.ClassRejected, 0},
		{"paging", BadPaging, sink.ClassRejected, 0},
		{"hang", Timeout, sink.ClassTimeout, 0}, {"hang-in-body", Timeout, sink.ClassTimeout, 0},
		{"cut", Network, sink.ClassNetwork, 0}, {"cut-in-body", Network, sink.ClassNetwork, 0},
	} {
		t.Run(test.path, func(t *testing.T) {
			f := fetcher(t, Body, client, func(c *FetcherConfig) {
				c.URL = server.URL + "/orders/" + test.path + "?key=" + urlSecret
				c.Timeout, c.MaxBytes = time.Minute, 2000
				if test.reason == Timeout {
					c.Timeout = 300 * time.Millisecond
				}
			})
			d, fail := f.exchangeOnce(t.Context(), target(t, f), f.cfg.MaxBytes)
			if test.reason == "" {
				if fail != nil || d == nil {
					t.Fatalf("%v, %v", d, fail)
				}
				return
			}
			if fail == nil || fail.reason != test.reason || fail.class != test.class || fail.retryAfter < test.wait {
				t.Fatalf("%+v, want %s, %s, at least %s", fail, test.reason, test.class, test.wait)
			}
			if text := fmt.Sprint(fail) + fmt.Sprintf("%+v", fail.err); strings.Contains(text, urlSecret) || strings.Contains(text, headerSecret) || strings.Contains(text, "/orders/") {
				t.Errorf("the failure shows what must not be shown: %s", text)
			}
		})
	}
	want := http.Header{"Authorization": {"Bearer " + headerSecret}, "Accept": {"application/json"}, "User-Agent": {"Forebay"}}
	if got == nil || !cmp.Equal(got.Header, want) || got.URL.RawQuery != "key="+urlSecret || got.Method != http.MethodGet {
		t.Errorf("what was sent: %+v", got)
	}

	f := fetcher(t, Gap, client, func(c *FetcherConfig) { c.URL = "http://127.0.0.1:1/{entity}" })
	if _, fail := f.exchangeOnce(t.Context(), target(t, f), 1); fail == nil || fail.reason != Network {
		t.Errorf("refused connection: %+v", fail)
	}
}

// inBubble runs f in simulated time.
func inBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func long() time.Time { return time.Now().Add(time.Hour) }

func TestFetchRetries(t *testing.T) {
	t.Parallel()
	ok := func() (*http.Response, error) { return answerWith(200, "{}"), nil }
	for _, test := range []struct {
		name     string
		do       func(n int) (*http.Response, error)
		deadline time.Duration
		calls    []time.Duration // since the first
		reason   Reason
	}{
		{"500, then ok", func(n int) (*http.Response, error) {
			if n < 3 {
				return answerWith(500, ""), nil
			}
			return ok()
		}, time.Hour, []time.Duration{0, time.Second, 5 * time.Second}, ""},
		{"429 with Retry-After", func(n int) (*http.Response, error) {
			if n < 2 {
				return answerWith(429, "", "Retry-After", "11"), nil
			}
			return ok()
		}, time.Hour, []time.Duration{0, 11 * time.Second}, ""},
		{"to the last", func(int) (*http.Response, error) { return answerWith(503, ""), nil }, time.Hour,
			[]time.Duration{0, time.Second, 5 * time.Second, 21 * time.Second}, Unavailable},
		{"network", func(n int) (*http.Response, error) {
			if n < 2 {
				return nil, &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("reset")}
			}
			return ok()
		}, time.Hour, []time.Duration{0, time.Second}, ""},
		{"no exchange after the deadline", func(int) (*http.Response, error) { return answerWith(500, ""), nil }, 2500 * time.Millisecond,
			[]time.Duration{0, time.Second}, Unavailable},
		{"Retry-After behind the deadline", func(int) (*http.Response, error) { return answerWith(429, "", "Retry-After", "15"), nil }, 10 * time.Second,
			[]time.Duration{0}, Throttled},
		{"Retry-After longer than max", func(n int) (*http.Response, error) {
			if n < 2 {
				return answerWith(429, "", "Retry-After", "25"), nil
			}
			return ok()
		}, time.Minute, []time.Duration{0, 25 * time.Second}, ""},
		{"404 is final", func(int) (*http.Response, error) { return answerWith(404, ""), nil }, time.Hour, []time.Duration{0}, NotFound},
		{"the guard's refusal is final", func(int) (*http.Response, error) {
			return nil, &sink.AttemptError{Class: sink.ClassForbidden, Err: errors.New("private")}
		}, time.Hour, []time.Duration{0}, Forbidden},
		{"its time is up", nil, 0, nil, Throttled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				a := &api{do: func(n int, _ *http.Request) (*http.Response, error) { return test.do(n) }}
				f := fetcher(t, Gap, a, nil)
				_, fail := f.fetch(t.Context(), target(t, f), 100, time.Now().Add(test.deadline))
				var calls []time.Duration
				for _, at := range a.calls {
					calls = append(calls, at.Sub(a.calls[0]))
				}
				reason := Reason("")
				if fail != nil {
					reason = fail.reason
				}
				if !cmp.Equal(calls, test.calls) || reason != test.reason {
					t.Errorf("calls at %v, reason %q (%v); want %v, %q", calls, reason, fail, test.calls, test.reason)
				}
			})
		})
	}
}

// However many attempts there may be: what an API asks to wait is waited where the time for the request covers it.
func TestRetryAfterWhateverTheAttempts(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{2, 3, 5, 50, 1000} {
		inBubble(t, func(t *testing.T) {
			a := &api{do: func(n int, _ *http.Request) (*http.Response, error) {
				if n < 2 {
					return answerWith(429, "", "Retry-After", "55"), nil
				}
				return answerWith(200, "{}"), nil
			}}
			f := fetcher(t, Gap, a, func(c *FetcherConfig) { c.Retry = sink.RetryPolicy{Attempts: attempts, Within: time.Minute} })
			if _, fail := f.fetch(t.Context(), target(t, f), 100, time.Now().Add(time.Minute)); fail != nil || a.count() != 2 {
				t.Errorf("of %d attempts, %d were made: %v", attempts, a.count(), fail)
			}
		})
	}
}

// A server that hangs costs its timeout and no more, and is asked again.
func TestFetchTimesOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: func(n int, r *http.Request) (*http.Response, error) {
			if n > 1 {
				return answerWith(200, "{}"), nil
			}
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}}
		f := fetcher(t, Gap, a, func(c *FetcherConfig) { c.Timeout = 3 * time.Second })
		began := time.Now()
		if _, fail := f.fetch(t.Context(), target(t, f), 100, long()); fail != nil || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %s, want an answer after a timeout of 3s and a delay of 1s", fail, time.Since(began))
		}
	})
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: func(int, *http.Request) (*http.Response, error) { return answerWith(500, ""), nil }}
		f := fetcher(t, Gap, a, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, fail := f.fetch(ctx, target(t, f), 100, long()); fail == nil || a.count() != 1 {
			t.Errorf("%v after %d calls", fail, a.count())
		}
		f.limit.pause(time.Minute)
		if _, fail := f.fetch(ctx, target(t, f), 100, long()); fail == nil || a.count() != 1 {
			t.Errorf("%v after %d calls", fail, a.count())
		}
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: func(int, *http.Request) (*http.Response, error) { return answerWith(200, "{}"), nil }}
		f := fetcher(t, Gap, a, func(c *FetcherConfig) { c.PerSecond, c.Burst = 2, 3 })
		began := time.Now()
		for range 20 {
			go func() {
				if _, fail := f.fetch(t.Context(), target(t, f), 100, long()); fail != nil {
					t.Error(fail)
				}
			}()
		}
		synctest.Wait()
		if n := a.count(); n != 3 {
			t.Errorf("%d calls at once, want a burst of 3", n)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := a.count(); n != 11 {
			t.Errorf("%d calls after 4s, want 3 and 2 a second", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := a.calls[19].Sub(began); a.count() != 20 || last != 8500*time.Millisecond {
			t.Errorf("%d calls, the last after %s", a.count(), last)
		}
	})
}

// Many that cannot wait for their turn take nothing from those that can: the rate is used in full.
func TestRateUnderManyThatCannotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLimit(2, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turns := 0
		for range 100 {
			go func() {
				for {
					wait, err := l.take(ctx, time.Second)
					switch {
					case err != nil:
						return
					case wait == 0:
						turns++
					case retry.Sleep(ctx, wait) != nil:
						return
					}
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if turns < 119 || turns > 123 {
			t.Errorf("%d turns in a minute at 2 a second", turns)
		}
	})
}

// What one request is told by the server holds for all of the source.
func TestPauseHoldsForAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{}
		a.do = func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return answerWith(429, "", "Retry-After", "9"), nil
			}
			return answerWith(200, "{}"), nil
		}
		f := fetcher(t, Gap, a, nil)
		go f.fetch(t.Context(), target(t, f), 100, long())
		synctest.Wait()
		began := time.Now()
		if _, fail := f.fetch(t.Context(), target(t, f), 100, long()); fail != nil || time.Since(began) != 9*time.Second {
			t.Errorf("%v after %s, want an answer after 9s", fail, time.Since(began))
		}
		synctest.Wait()
		f.limit.pause(1000 * time.Hour)
		if p := f.limit.pauseLeft(); p != maxHold {
			t.Errorf("a server may ask for %s", p)
		}
		if _, fail := f.fetch(t.Context(), target(t, f), 100, time.Now().Add(time.Minute)); fail == nil || fail.reason != Throttled || a.count() != 3 {
			t.Errorf("%+v after %d calls, want throttled without a call", fail, a.count())
		}
	})
}

// A pause that comes while somebody waits for his turn, and is longer than he can wait, sends him away.
func TestPauseMeetsThoseWhoWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLimit(1, 1)
		if wait, err := l.take(t.Context(), 0); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		time.AfterFunc(500*time.Millisecond, func() { l.pause(time.Minute) })
		began := time.Now()
		wait, err := l.take(t.Context(), 2*time.Second)
		if wait != 59500*time.Millisecond || err != nil || time.Since(began) != time.Second {
			t.Errorf("%s, %v after %s", wait, err, time.Since(began))
		}
		if wait, err = l.take(t.Context(), time.Hour); wait != 0 || err != nil || time.Since(began) < time.Minute {
			t.Errorf("%s, %v after %s", wait, err, time.Since(began))
		}
	})
}

func TestNewFetcherRefuses(t *testing.T) {
	t.Parallel()
	secret := schemas.NewSecret("s3cr3t\r\nX: 1")
	for _, test := range []struct {
		name, want string
		change     func(*FetcherConfig)
	}{
		{"url", "url is not", func(c *FetcherConfig) { c.URL = "s3cr3t" }},
		{"client", "client", func(c *FetcherConfig) { c.Client = nil }},
		{"limit", "negative", func(c *FetcherConfig) { c.PerSecond = -1 }},
		{"retry", "nor max below min", func(c *FetcherConfig) { c.Retry.Min, c.Retry.Max = time.Hour, time.Minute }},
		{"header value", "X-A has a value with control characters", func(c *FetcherConfig) { c.Headers = map[string]schemas.Secret{"x-a": secret} }},
		{"header name", `header name "a b" is not valid`, func(c *FetcherConfig) { c.Headers = map[string]schemas.Secret{"a b": {}} }},
		{"packed", "Accept-Encoding is set by forebay", func(c *FetcherConfig) { c.Headers = map[string]schemas.Secret{"accept-encoding": secret} }},
		{"a part", "Range is set by forebay", func(c *FetcherConfig) { c.Headers = map[string]schemas.Secret{"range": secret} }},
	} {
		cfg := FetcherConfig{Use: Gap, URL: "https://h/{entity}", Client: &api{}, ClassOf: classOf, RetryAfter: retryAfter}
		test.change(&cfg)
		_, err := NewFetcher(cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cr3t") || schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestFetcherNeverPrints(t *testing.T) {
	t.Parallel()
	f := fetcher(t, Gap, &api{}, nil)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "f", f, "t", f.tpl)
	text := fmt.Sprintf("%v %+v %#v %s %s", f, f, f, f, &log)
	if strings.Contains(text, urlSecret) || strings.Contains(text, headerSecret) || !strings.Contains(text, "fetcher of /acme/orders") {
		t.Errorf("the fetcher prints %s", text)
	}
}

func TestHeadersOfTheUserWin(t *testing.T) {
	t.Parallel()
	f := fetcher(t, Gap, &api{}, func(c *FetcherConfig) {
		c.Headers = map[string]schemas.Secret{"accept": schemas.NewSecret("application/vnd.github+json"), "user-agent": schemas.NewSecret("me")}
	})
	if want := (http.Header{"Accept": {"application/vnd.github+json"}, "User-Agent": {"me"}}); !cmp.Equal(f.headers, want) {
		t.Errorf("headers %v", f.headers)
	}
}

func TestFetchMetrics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m, err := NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		a := &api{do: func(n int, _ *http.Request) (*http.Response, error) {
			return answerWith(map[int]int{1: 500, 2: 429, 3: 200}[n], "{}"), nil
		}}
		f := fetcher(t, Gap, a, func(c *FetcherConfig) { c.Metrics = m })
		if _, fail := f.fetch(t.Context(), target(t, f), 100, long()); fail != nil {
			t.Fatal(fail)
		}
		want := `
# HELP forebay_fetch_exchanges_total Requests to sources' APIs, for backfills and for thin events, by class of failure; class ok is success.
# TYPE forebay_fetch_exchanges_total counter
forebay_fetch_exchanges_total{class="ok",source="/acme/orders",use="backfill"} 1
forebay_fetch_exchanges_total{class="throttled",source="/acme/orders",use="backfill"} 1
forebay_fetch_exchanges_total{class="unavailable",source="/acme/orders",use="backfill"} 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "forebay_fetch_exchanges_total"); err != nil {
			t.Error(err)
		}
	})
}
