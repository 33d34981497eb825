package backfill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// orders is a runner of one source in simulated time.
type orders struct {
	t     *testing.T
	api   *api
	store *memoryStore
	log   *memoryLog
	cfg   Config
	text  *strings.Builder // the runner's log
	stop  func()
	n     int // requests without an id of their own
}

// running runs f beside a runner whose API answers as do says.
func running(t *testing.T, do func(n int, r *http.Request) (*http.Response, error), change func(*orders, *SourceConfig), f func(t *testing.T, o *orders)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &orders{t: t, api: &api{do: do}, store: newStore(), log: &memoryLog{}, text: &strings.Builder{}}
		cfg := SourceConfig{Topic: "events.acme.orders", Name: nameOrder, Fetcher: fetcher(t, Gap, o.api, func(c *FetcherConfig) {
			c.URL = "https://api.example/orders/{entity.0}?from={from}&to={to}&key=" + urlSecret
		})}
		o.cfg = Config{Store: o.store, Log: o.log, Logger: slog.New(slog.NewTextHandler(o.text, nil))}
		if change != nil {
			change(o, &cfg)
		}
		src, err := NewSource(cfg)
		if err != nil {
			t.Fatal(err)
		}
		o.cfg.Sources = map[string]*Source{sourceURI: src}
		o.start()
		defer func() { o.stop() }()
		f(t, o)
		o.stop()
		if text := o.text.String(); strings.Contains(text, urlSecret) || strings.Contains(text, headerSecret) {
			t.Errorf("the log shows a secret: %s", text)
		}
	})
}

func (o *orders) start() {
	o.t.Helper()
	r, err := NewRunner(o.cfg)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			o.t.Errorf("Run ended with %v", err)
		}
	})
}

// ask puts a request and gives its outcome.
func (o *orders) ask(q Request) Outcome {
	o.t.Helper()
	o.put(q)
	select {
	case out := <-o.store.outcomes:
		return out
	case <-time.After(24 * time.Hour):
		o.t.Fatal("no outcome in a day")
		return Outcome{}
	}
}

func (o *orders) put(q Request) {
	if q.Source == "" {
		q.Source = sourceURI
	}
	if q.ID == "" {
		o.n++
		q.ID = fmt.Sprint("request ", o.n)
	}
	if q.Kind == "" {
		q.Kind = schemas.Sequence
	}
	if q.Entity == "" {
		q.Entity = "42"
	}
	o.store.requests <- q
}

func says(code int, body string, header ...string) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) { return answerWith(code, body, header...), nil }
}

func id(rev int) string { return fmt.Sprintf("backfill:42:%020d", rev) }

// What an answer becomes: events of the line that was asked for, in order, with ids that stay the same.
func TestAnswersBecomeEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		items      string
		q          Request
		ids        []string
		want       Outcome
	}{
		{name: "an object", body: `{"rev":3}`, q: Request{From: 3, To: 3}, ids: []string{id(3)}, want: Outcome{Produced: 1}},
		{name: "an array, in any order", body: `[{"rev":4},{"rev":3}]`, q: Request{From: 3, To: 4}, ids: []string{id(3), id(4)}, want: Outcome{Produced: 2}},
		{name: "wrapped", body: `{"data":{"orders":[{"rev":3}]}}`, items: "/data/orders", q: Request{From: 3, To: 3}, ids: []string{id(3)}, want: Outcome{Produced: 1}},
		{name: "the state as it is now", body: `{"rev":9}`, q: Request{From: 3, To: 4}, ids: []string{id(9)}, want: Outcome{Produced: 1}},
		{name: "without a range", body: `{"rev":9}`, q: Request{Kind: schemas.Timestamp}, want: Outcome{Reason: BadURL}},
		{name: "ids of its own", body: `[{"rev":3,"id":"order-3"}]`, q: Request{From: 3, To: 3}, ids: []string{"order-3"}, want: Outcome{Produced: 1}},
		{name: "the entity named", body: `[{"rev":3,"order":"42"}]`, q: Request{From: 3, To: 3}, ids: []string{id(3)}, want: Outcome{Produced: 1}},
		{name: "the same twice", body: `[{"rev":3},{"rev":3}]`, q: Request{From: 3, To: 3}, ids: []string{id(3)}, want: Outcome{Produced: 1}},
		{name: "another entity", body: `{"rev":3,"order":"43"}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: OtherEntity, Refused: 1}},
		{name: "another entity among others", body: `[{"rev":3,"order":"43"},{"rev":3}]`, q: Request{From: 3, To: 3}, ids: []string{id(3)},
			want: Outcome{Produced: 1, Refused: 1}},
		{name: "another clock", body: `{"rev":3,"clock":"comment"}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: OtherEntity, Refused: 1}},
		{name: "a clock", body: `{"rev":3,"clock":"c"}`, q: Request{From: 3, To: 3, Clock: "c"}, ids: []string{"backfill:42#c:00000000000000000003"},
			want: Outcome{Produced: 1}},
		{name: "another kind of version", body: `{"rev":3,"kind":"timestamp"}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: OtherEntity, Refused: 1}},
		{name: "no version", body: `{"x":3}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: Unusable, Unusable: 1}},
		{name: "an event that no record holds", body: `{"rev":3,"id":"a\u0001b"}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: Unusable, Unusable: 1}},
		{name: "elements that are no objects", body: `[1,"x",{"rev":3}]`, q: Request{From: 3, To: 3}, ids: []string{id(3)}, want: Outcome{Produced: 1, Unusable: 2}},
		{name: "only older", body: `[{"rev":1},{"rev":2}]`, q: Request{From: 3, To: 3}, want: Outcome{Reason: Nothing, Outside: 2}},
		{name: "deltas outside would run twice", body: `[{"rev":2,"delta":true},{"rev":3,"delta":true},{"rev":5,"delta":true}]`, q: Request{From: 3, To: 4},
			ids: []string{id(3)}, want: Outcome{Produced: 1, Outside: 2}},
		{name: "places of other epochs", body: `[{"rev":3,"epoch":1},{"rev":3,"epoch":3},{"rev":9,"epoch":3}]`, q: Request{Epoch: 2, From: 3, To: 3},
			want: Outcome{Reason: Nothing, Outside: 3}},
		{name: "the epoch among others", body: `[{"rev":3,"epoch":1},{"rev":3,"epoch":2}]`, q: Request{Epoch: 2, From: 3, To: 3},
			ids: []string{"backfill:42:e000002:00000000000000000003"}, want: Outcome{Produced: 1, Outside: 1}},
		{name: "without an epoch it is the line's", body: `{"rev":3}`, q: Request{Epoch: 2, From: 3, To: 3},
			ids: []string{"backfill:42:e000002:00000000000000000003"}, want: Outcome{Produced: 1}},
		{name: "an epoch, and the line has none", body: `{"rev":3,"epoch":1}`, q: Request{From: 3, To: 3}, want: Outcome{Reason: Nothing, Outside: 1}},
		{name: "an empty array", body: `[]`, q: Request{From: 3, To: 3}, want: Outcome{Reason: Nothing}},
		{name: "nothing at all", body: ``, q: Request{From: 3, To: 3}, want: Outcome{Reason: Nothing}},
		{name: "not JSON", body: `<html>`, q: Request{From: 3, To: 3}, want: Outcome{Reason: NotJSON}},
		{name: "no elements where items points", body: `{"data":{}}`, items: "/data/orders", q: Request{From: 3, To: 3}, want: Outcome{Reason: NotJSON}},
		{name: "an entity that would leave its folder", body: `{}`, q: Request{Entity: "..", From: 3, To: 3}, want: Outcome{Reason: BadURL}},
		{name: "a source without a template", body: `{}`, q: Request{Source: "/acme/else", From: 3, To: 3}, want: Outcome{Reason: Unknown}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			running(t, says(200, test.body), func(_ *orders, c *SourceConfig) { c.Items = test.items }, func(t *testing.T, o *orders) {
				out := o.ask(test.q)
				if (out.Reason == "") != (out.Detail == "") {
					t.Errorf("reason %q with detail %q", out.Reason, out.Detail)
				}
				out.Detail = ""
				if diff := cmp.Diff(test.want, out); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if got := o.log.ids(); !cmp.Equal(got, test.ids) {
					t.Errorf("events %q, want %q", got, test.ids)
				}
			})
		})
	}
}

func TestSyntheticEvent(t *testing.T) {
	t.Parallel()
	body := `[ {"rev": 3,  "n": 1.50} ]`
	running(t, says(200, body), nil, func(t *testing.T, o *orders) {
		o.ask(Request{From: 3, To: 4})
		e := o.log.events[0]
		now := time.Now().UTC()
		want := &schemas.Event{ID: id(3), Source: sourceURI, Type: "order", Entity: "42", Time: now, RecordedTime: now, Payload: schemas.Snapshot,
			Backfill: true, Version: schemas.Version{Kind: schemas.Sequence, Value: 3}, Data: []byte(`{"rev": 3,  "n": 1.50}`),
			Hash: schemas.HashBody([]byte(`{"rev": 3,  "n": 1.50}`))}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Error(diff)
		}
		if got, want := o.api.urls[0], "https://api.example/orders/42?from=3&to=4&key="+urlSecret; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

// Every failure of the API ends as an outcome with its reason, after the attempts that it is worth.
func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	cut := &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("unexpected EOF")}
	for _, test := range []struct {
		name   string
		do     func(n int, r *http.Request) (*http.Response, error)
		reason Reason
		code   int
		calls  int
	}{
		{"404", says(404, ""), NotFound, 404, 1}, {"410", says(410, ""), Gone, 410, 1},
		{"401", says(401, ""), Denied, 401, 1}, {"403", says(403, ""), Denied, 403, 1},
		{"500 to the last", says(500, ""), Unavailable, 500, 4}, {"429 to the last", says(429, ""), Throttled, 429, 4},
		{"429, too long", says(429, "", "Retry-After", "3600"), Throttled, 429, 1},
		{"huge", says(200, strings.Repeat(" ", 9<<20)), TooLarge, 0, 1},
		{"cut to the last", func(int, *http.Request) (*http.Response, error) { return nil, cut }, Network, 0, 4},
		{"hangs to the last", func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, Timeout, 0, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			running(t, test.do, nil, func(t *testing.T, o *orders) {
				out := o.ask(Request{From: 3, To: 4})
				if out.Reason != test.reason || out.Code != test.code || out.Detail == "" || o.api.count() != test.calls || len(o.log.events) != 0 {
					t.Errorf("%+v after %d calls; want %s, %d after %d", out, o.api.count(), test.reason, test.code, test.calls)
				}
			})
		})
	}
}

// A request is wanted for no longer than its gap waits.
func TestWithin(t *testing.T) {
	t.Parallel()
	running(t, says(500, ""), nil, func(t *testing.T, o *orders) {
		began := time.Now()
		out := o.ask(Request{From: 3, To: 4, Within: 2 * time.Second})
		if out.Reason != Unavailable || o.api.count() != 2 || time.Since(began) > 2*time.Second {
			t.Errorf("%+v after %d calls and %s", out, o.api.count(), time.Since(began))
		}
	})
}

// pages answers ?page=n (1 where there is none) with rev n, up to last, linked.
func pages(last int, fail map[int]int) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) {
		page := 1
		fmt.Sscan(r.URL.Query().Get("page"), &page)
		if code := fail[page]; code != 0 {
			return answerWith(code, ""), nil
		}
		body := fmt.Sprintf(`[{"rev":%d},{"rev":%d,"order":"43"}]`, page, page)
		if page == last {
			return answerWith(200, body), nil
		}
		return answerWith(200, body, "Link", fmt.Sprintf(`</orders/42?page=%d>; rel="next"`, page+1)), nil
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		last  int
		fail  map[int]int
		q     Request
		calls int
		want  Outcome
	}{
		{"until the range is there", 9, nil, Request{From: 2, To: 3}, 3, Outcome{Produced: 2, Refused: 3, Outside: 1}},
		{"until there are no more", 4, nil, Request{From: 3, To: 9}, 4, Outcome{Produced: 2, Refused: 4, Outside: 2}},
		{"no further than the limit", 99, nil, Request{From: 4, To: 50}, 5, Outcome{Produced: 2, Refused: 5, Outside: 3, OverLimit: 1}},
		{"what came before a page that fails", 9, map[int]int{3: 404}, Request{From: 1, To: 5}, 3,
			Outcome{Produced: 2, Refused: 2, Reason: NotFound, Code: 404}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			running(t, pages(test.last, test.fail), func(o *orders, _ *SourceConfig) { o.cfg.MaxPages = 5 }, func(t *testing.T, o *orders) {
				out := o.ask(test.q)
				out.Detail = ""
				if diff := cmp.Diff(test.want, out); diff != "" || o.api.count() != test.calls {
					t.Errorf("%d calls, want %d (-want +got):\n%s", o.api.count(), test.calls, diff)
				}
			})
		})
	}
}

func TestNoMoreElementsThanTheLimit(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,{"rev":%d}`, i)
	}
	running(t, says(200, "["+b.String()[1:]+"]"), func(o *orders, _ *SourceConfig) { o.cfg.MaxElements = 100 }, func(t *testing.T, o *orders) {
		out := o.ask(Request{From: 0, To: 4999})
		if out.Produced != 100 || out.OverLimit == 0 || len(o.log.events) != 100 {
			t.Errorf("%+v", out)
		}
	})
}

// An answer that is full at the end of a page is asked for no other.
func TestLimitOnElementsEndsThePaging(t *testing.T) {
	t.Parallel()
	running(t, pages(9, nil), func(o *orders, _ *SourceConfig) { o.cfg.MaxElements = 4 }, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 1, To: 9}); out.Produced != 2 || out.OverLimit != 1 || o.api.count() != 2 {
			t.Errorf("%+v after %d calls", out, o.api.count())
		}
	})
}

// The pages of an answer share its limit on bytes.
func TestPagesShareTheLimitOnBytes(t *testing.T) {
	t.Parallel()
	page := "[" + strings.Repeat(" ", 100) + "]"
	running(t, says(200, page, "Link", `</orders/42?x=1>; rel="next"`), func(_ *orders, c *SourceConfig) {
		c.Fetcher.cfg.MaxBytes = 300
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 3, To: 4}); out.Reason != TooLarge || o.api.count() != 3 {
			t.Errorf("%+v after %d calls", out, o.api.count())
		}
	})
}

func TestLogThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	away := schemas.Errorf(schemas.Unavailable, "produce", "no broker")
	running(t, says(200, `[{"rev":3},{"rev":4}]`), func(o *orders, _ *SourceConfig) {
		o.log.fail = func(n int, _ *schemas.Event) error {
			if n < 5 {
				return away
			}
			return nil
		}
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 3, To: 4}); out.Produced != 2 || out.Reason != "" {
			t.Errorf("%+v", out)
		}
		o.log.fail = func(_ int, e *schemas.Event) error {
			if e.Version.Value == 4 {
				return away
			}
			return nil
		}
		began := time.Now()
		out := o.ask(Request{From: 3, To: 4, Within: time.Second})
		if out.Produced != 1 || out.NotProduced != 1 || out.Reason != NotProduced || time.Since(began) > 11*time.Second {
			t.Errorf("%+v after %s", out, time.Since(began))
		}
	})
}

// An answer that comes in the last moment has time to get into the log all the same.
func TestLateAnswerIsProduced(t *testing.T) {
	t.Parallel()
	slow := func(int, *http.Request) (*http.Response, error) {
		time.Sleep(900 * time.Millisecond)
		return answerWith(200, `{"rev":3}`), nil
	}
	running(t, slow, func(o *orders, _ *SourceConfig) {
		o.log.fail = func(n int, _ *schemas.Event) error {
			if n < 5 {
				return schemas.Errorf(schemas.Unavailable, "produce", "no broker")
			}
			return nil
		}
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 3, To: 3, Within: time.Second}); out.Produced != 1 || out.Reason != "" {
			t.Errorf("%+v", out)
		}
	})
}

func TestBodyTooLargeForTheTopic(t *testing.T) {
	t.Parallel()
	running(t, says(200, `[{"rev":3},{"rev":4}]`), func(o *orders, _ *SourceConfig) {
		o.log.fail = func(_ int, e *schemas.Event) error {
			if e.Version.Value == 3 {
				return schemas.Errorf(schemas.TooLarge, "produce", "too large")
			}
			return nil
		}
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 3, To: 4}); out.Produced != 1 || out.Unusable != 1 || out.Reason != "" {
			t.Errorf("%+v", out)
		}
	})
}

// A store that fails is asked again, and told again, until it takes it.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	n := 0
	running(t, says(200, `{"rev":3}`), func(o *orders, _ *SourceConfig) {
		o.store.next = func() error {
			if n++; n <= 3 {
				return errors.New("database is away")
			}
			return nil
		}
		o.store.done = func(n int) error {
			if n <= 3 {
				return errors.New("database is away")
			}
			return nil
		}
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{ID: "1", From: 3, To: 3}); out.Produced != 1 {
			t.Errorf("%+v", out)
		}
		if o.api.count() != 1 || o.store.dones != 4 {
			t.Errorf("%d calls, told %d times", o.api.count(), o.store.dones)
		}
	})
}

// hanging answers when it is let. The channel must be made inside the bubble.
func hanging(let *chan struct{}) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) {
		select {
		case <-*let:
			return answerWith(200, `{"rev":3}`), nil
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

// Of one source, Concurrency requests run at once; another source does not notice.
func TestSlowSourceHoldsNobodyElse(t *testing.T) {
	t.Parallel()
	var let chan struct{}
	running(t, hanging(&let), func(o *orders, _ *SourceConfig) {
		let = make(chan struct{})
		o.cfg.Concurrency, o.cfg.Pending = 2, 50
	}, func(t *testing.T, o *orders) {
		o.stop()
		quick := &api{do: says(200, `{"rev":3}`)}
		src, err := NewSource(SourceConfig{Topic: "events.acme.orders", Name: nameOrder, Fetcher: fetcher(t, Gap, quick, nil)})
		if err != nil {
			t.Fatal(err)
		}
		o.cfg.Sources["/acme/quick"] = src
		o.start()
		for i := range 20 {
			o.put(Request{ID: fmt.Sprint(i), From: 3, To: 3, Within: time.Hour})
		}
		synctest.Wait()
		if n := o.api.count(); n != 2 {
			t.Errorf("%d calls at once, want 2", n)
		}
		if out := o.ask(Request{ID: "quick", Source: "/acme/quick", From: 3, To: 3}); out.Produced != 1 {
			t.Errorf("%+v", out)
		}
		close(let)
		for range 20 {
			if out := <-o.store.outcomes; out.Produced != 1 {
				t.Errorf("%+v", out)
			}
		}
	})
}

// What cannot have its turn in time says so.
func TestTurnThatComesTooLate(t *testing.T) {
	t.Parallel()
	var let chan struct{}
	running(t, hanging(&let), func(o *orders, c *SourceConfig) {
		let = make(chan struct{})
		o.cfg.Concurrency = 1
		c.Fetcher.cfg.Timeout = 30 * time.Second
	}, func(t *testing.T, o *orders) {
		o.put(Request{ID: "1", From: 3, To: 3})
		synctest.Wait()
		o.put(Request{ID: "2", From: 3, To: 3, Within: time.Second})
		time.Sleep(5 * time.Second)
		close(let)
		<-o.store.outcomes
		<-o.store.outcomes
		if out := o.store.last["2"]; out.Reason != Throttled || o.store.last["1"].Produced != 1 || o.api.count() != 1 {
			t.Errorf("%+v after %d calls", out, o.api.count())
		}
	})
}

func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	var let chan struct{}
	running(t, hanging(&let), func(o *orders, _ *SourceConfig) {
		let = make(chan struct{})
		o.cfg.Concurrency, o.cfg.Pending = 1, 3
	}, func(t *testing.T, o *orders) {
		for i := range 10 {
			o.put(Request{ID: fmt.Sprint(i), From: 3, To: 3, Within: time.Hour})
		}
		synctest.Wait()
		if left := len(o.store.requests); left != 7 {
			t.Errorf("%d requests are left to the store, want 7", left)
		}
		close(let)
		for range 10 {
			<-o.store.outcomes
		}
	})
}

// Run ends at once, and what was under way is not told as done: it is the next owner's.
func TestStopGivesUpWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(int, *http.Request) (*http.Response, error)
	}{
		{"in a call", hanging(new(chan struct{}))},
		{"between calls", says(500, "")},
		{"waiting for its turn", nil},
		{"in the log", says(200, `{"rev":3}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			running(t, test.do, func(o *orders, c *SourceConfig) {
				if test.do == nil {
					c.Fetcher.limit.pause(time.Minute / 2)
				}
				o.log.fail = func(int, *schemas.Event) error { return schemas.Errorf(schemas.Unavailable, "", "away") }
			}, func(t *testing.T, o *orders) {
				o.put(Request{ID: "1", From: 3, To: 3})
				o.put(Request{ID: "2", From: 3, To: 3})
				synctest.Wait()
				began := time.Now()
				o.stop()
				if took := time.Since(began); took > 0 || len(o.store.last) != 0 {
					t.Errorf("stopped after %s, told %v", took, slices.Collect(maps.Keys(o.store.last)))
				}
			})
		})
	}
}

// A slip in one request ends that one; its source goes on.
func TestPanicEndsOneRequest(t *testing.T) {
	t.Parallel()
	running(t, says(200, `{"rev":3}`), func(o *orders, c *SourceConfig) {
		o.cfg.Concurrency = 1
		name := c.Name
		c.Name = func(element []byte) (*schemas.Event, error) {
			if o.api.count() == 1 {
				panic("slip")
			}
			return name(element)
		}
	}, func(t *testing.T, o *orders) {
		if out := o.ask(Request{From: 3, To: 3}); out.Reason != Internal || out.Detail == "" {
			t.Errorf("%+v", out)
		}
		if out := o.ask(Request{From: 3, To: 3}); out.Produced != 1 {
			t.Errorf("%+v", out)
		}
	})
}

func TestRunnerMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	bodies := []string{`[{"rev":3},{"rev":3,"order":"43"},{},{"rev":1}]`, `[]`}
	do := func(n int, _ *http.Request) (*http.Response, error) { return answerWith(200, bodies[n-1]), nil }
	running(t, do, func(o *orders, _ *SourceConfig) { o.cfg.Metrics = m }, func(t *testing.T, o *orders) {
		o.ask(Request{ID: "1", From: 3, To: 3})
		o.ask(Request{ID: "2", From: 3, To: 3})
		o.ask(Request{ID: "3", Source: "/acme/else"})
	})
	want := `
# HELP forebay_backfill_elements_total Elements of backfill answers by what became of them.
# TYPE forebay_backfill_elements_total counter
forebay_backfill_elements_total{result="other_entity",source="/acme/orders"} 1
forebay_backfill_elements_total{result="outside",source="/acme/orders"} 1
forebay_backfill_elements_total{result="produced",source="/acme/orders"} 1
forebay_backfill_elements_total{result="unusable",source="/acme/orders"} 1
# HELP forebay_backfill_requests_total Backfills that have ended, by source and reason; reason ok is filled.
# TYPE forebay_backfill_requests_total counter
forebay_backfill_requests_total{reason="no_template",source="/acme/else"} 1
forebay_backfill_requests_total{reason="nothing",source="/acme/orders"} 1
forebay_backfill_requests_total{reason="ok",source="/acme/orders"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "forebay_backfill_requests_total", "forebay_backfill_elements_total"); err != nil {
		t.Error(err)
	}
	if _, err := NewMetrics(reg); err == nil {
		t.Error("figures were registered twice")
	}
}

func TestConfigsAreChecked(t *testing.T) {
	t.Parallel()
	f := fetcher(t, Gap, &api{}, nil)
	for _, c := range []SourceConfig{
		{}, {Topic: "t", Name: nameOrder}, {Topic: "t", Fetcher: f}, {Name: nameOrder, Fetcher: f},
		{Topic: "t", Name: nameOrder, Fetcher: f, Items: "data"},
		{Topic: "t", Name: nameOrder, Fetcher: fetcher(t, Body, &api{}, func(c *FetcherConfig) { c.URL = "https://h/{id}" })},
	} {
		if _, err := NewSource(c); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []Config{{}, {Store: newStore()}, {Log: &memoryLog{}}, {Store: newStore(), Log: &memoryLog{}, Pending: -1}} {
		if _, err := NewRunner(c); schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a fetcher of gaps was taken for bodies")
		}
	}()
	NewThin(map[string]*Fetcher{sourceURI: f}, nil)
}
