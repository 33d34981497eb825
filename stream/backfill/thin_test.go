package backfill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

func thinEvent(id string) *schemas.Event {
	return &schemas.Event{ID: id, Source: sourceURI, Type: "order.changed", Entity: "42", DataContentType: "application/cloudevents+json",
		DataSchema: "https://example.com/thin", Data: []byte(`{"id":42}`), Version: schemas.Version{Kind: schemas.Sequence, Value: 7}}
}

func thin(t *testing.T, a *api, change func(*FetcherConfig)) *Thin {
	t.Helper()
	f := fetcher(t, Body, a, func(c *FetcherConfig) {
		c.URL = "https://api.example/orders/{entity.0}?event={id}&type={type}&key=" + urlSecret
		if change != nil {
			change(c)
		}
	})
	return NewThin(map[string]*Fetcher{sourceURI: f}, nil)
}

func TestThinReplacesTheBody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: says(200, "<order/>", "Content-Type", "application/xml")}
		x := thin(t, a, nil)
		e := thinEvent("e 1")
		full, _, err := x.Enrich(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		want := *e
		want.Data, want.DataContentType, want.DataSchema = []byte("<order/>"), "application/xml", ""
		if diff := cmp.Diff(&want, full); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(thinEvent("e 1"), e); diff != "" {
			t.Errorf("the event itself has changed:\n%s", diff)
		}
		if got := a.urls[0]; got != "https://api.example/orders/42?event=e%201&type=order.changed&key="+urlSecret {
			t.Errorf("asked %s", got)
		}
	})
}

// A document is no longer compressed as the delivery was, whose other extensions stay. The event itself keeps its own.
func TestThinOfACompressedDelivery(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		x := thin(t, &api{do: says(200, "<order/>", "Content-Type", "application/xml")}, nil)
		e := thinEvent("e 1")
		e.Extensions = map[string]string{schemas.EncodingAttribute: "gzip", "tenant": "x"}
		full, _, err := x.Enrich(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := full.Text(1 << 10); err != nil || string(text) != "<order/>" {
			t.Errorf("%q, %v", text, err)
		}
		if len(full.Extensions) != 1 || full.Extensions["tenant"] != "x" || e.Extensions[schemas.EncodingAttribute] != "gzip" {
			t.Errorf("extensions: %v, the event's own %v", full.Extensions, e.Extensions)
		}
	})
}

// The actions and retries of an event ask once; another event asks again, and so does this one a minute later.
func TestThinAsksOnceAMinute(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: func(n int, _ *http.Request) (*http.Response, error) { return answerWith(200, fmt.Sprint(n)), nil }}
		x := thin(t, a, nil)
		get := func(id string) string {
			full, _, err := x.Enrich(t.Context(), thinEvent(id))
			if err != nil {
				t.Fatal(err)
			}
			return string(full.Data)
		}
		got := []string{get("a"), get("a"), get("b")}
		time.Sleep(cacheFor - 1)
		got = append(got, get("a"))
		time.Sleep(time.Nanosecond)
		got = append(got, get("a"), get("b"), get("b"))
		if want := []string{"1", "1", "2", "1", "3", "4", "4"}; !cmp.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestThinLeavesAlone(t *testing.T) {
	t.Parallel()
	x := thin(t, &api{}, nil)
	other, deleted, synthetic := thinEvent("a"), thinEvent("a"), thinEvent("a")
	other.Source, deleted.Deleted, synthetic.Backfill = "/acme/other", true, true
	for _, e := range []*schemas.Event{other, deleted, synthetic} {
		if got, _, err := x.Enrich(t.Context(), e); got != e || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestThinFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		do    func(int, *http.Request) (*http.Response, error)
		class sink.Class
		out   sink.Outcome
	}{
		{"404", says(404, headerSecret), sink.ClassRejected, sink.Outcome{Code: 404}},
		{"410", says(410, ""), sink.ClassRejected, sink.Outcome{Code: 410}},
		{"401", says(401, ""), sink.ClassDenied, sink.Outcome{Code: 401}},
		{"500", says(500, ""), sink.ClassBusy, sink.Outcome{Code: 500}},
		{"429", says(429, "", "Retry-After", "30"), sink.ClassThrottled, sink.Outcome{Code: 429, RetryAfter: 30 * time.Second}},
		{"huge", says(200, strings.Repeat("x", 2001)), sink.ClassRejected, sink.Outcome{}},
		{"cut", func(int, *http.Request) (*http.Response, error) { return nil, errors.New("EOF") }, sink.ClassNetwork, sink.Outcome{}},
		{"private", func(int, *http.Request) (*http.Response, error) {
			return nil, &sink.AttemptError{Class: sink.ClassForbidden, Err: errors.New("private")}
		}, sink.ClassForbidden, sink.Outcome{}},
		{"hangs", func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}, sink.ClassTimeout, sink.Outcome{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				a := &api{do: test.do}
				x := thin(t, a, func(c *FetcherConfig) { c.MaxBytes = 2000 })
				_, out, err := x.Enrich(t.Context(), thinEvent("a"))
				if sink.ClassOf(err) != test.class || !cmp.Equal(out, test.out) || a.count() != 1 {
					t.Errorf("%+v, %v after %d calls; want %+v, %s after one", out, err, a.count(), test.out, test.class)
				}
				if text := err.Error(); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "fetch the body") {
					t.Errorf("error %q", text)
				}
			})
		})
	}
	x := thin(t, &api{}, nil)
	bad := thinEvent("a")
	bad.Entity = ".."
	if _, _, err := x.Enrich(t.Context(), bad); sink.ClassOf(err) != sink.ClassRejected {
		t.Errorf("an entity that fits no path: %v", err)
	}
}

// A failure is not kept: the next attempt asks again.
func TestThinForgetsFailures(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: func(n int, _ *http.Request) (*http.Response, error) {
			return answerWith(map[int]int{1: 500, 2: 200}[n], "whole"), nil
		}}
		x := thin(t, a, nil)
		if _, _, err := x.Enrich(t.Context(), thinEvent("a")); err == nil {
			t.Error("500 is no failure")
		}
		if full, _, err := x.Enrich(t.Context(), thinEvent("a")); err != nil || string(full.Data) != "whole" {
			t.Errorf("%v, %v", full, err)
		}
	})
}

// Our own rate and a server's pause cost no attempt: a short wait is waited for, for a longer one the head comes back.
func TestThinWaitsItsTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		a := &api{do: says(200, "whole")}
		x := thin(t, a, func(c *FetcherConfig) { c.PerSecond, c.Burst = 2, 1 })
		began := time.Now()
		for _, id := range []string{"a", "b", "c"} {
			if _, _, err := x.Enrich(t.Context(), thinEvent(id)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("three events took %s at 2 a second", took)
		}
		x.sources[sourceURI].limit.pause(time.Minute)
		_, _, err := x.Enrich(t.Context(), thinEvent("d"))
		notYet, ok := errors.AsType[*sink.NotYet](err)
		if !ok || notYet.Wait != time.Minute || time.Since(began) != time.Second || a.count() != 3 {
			t.Errorf("%v after %s and %d calls", err, time.Since(began), a.count())
		}
		if _, _, err := x.Enrich(t.Context(), thinEvent("a")); err != nil {
			t.Errorf("what is kept needs no turn: %v", err)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newCache(time.Minute, 10_000)
		key := func(i int) schemas.EventKey { return schemas.NewEventKey("s", fmt.Sprint(i)) }
		doc := func(n int) *document { return &document{body: make([]byte, n)} }
		for i := range 100 {
			c.put(key(i), doc(488)) // 1000 with its share
			if c.bytes > 10_000 || c.order.Len() != len(c.byKey) {
				t.Fatalf("%d bytes in %d and %d documents", c.bytes, c.order.Len(), len(c.byKey))
			}
		}
		if c.get(key(89)) != nil || c.get(key(90)) == nil || c.get(key(99)) == nil {
			t.Error("not the ten newest are kept")
		}
		c.put(key(99), doc(1))
		if got := c.get(key(99)); len(got.body) != 1 || c.bytes != 9*1000+513 {
			t.Errorf("replaced: %d bytes of body, %d in all", len(got.body), c.bytes)
		}
		c.put(key(7), doc(2600))
		if c.get(key(7)) != nil {
			t.Error("a document of a quarter of the room is kept")
		}
		time.Sleep(time.Minute)
		if c.get(key(99)) != nil || c.bytes != 0 || len(c.byKey) != 0 {
			t.Errorf("%d bytes are kept for ever", c.bytes)
		}
	})
}
