package provider_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// What was read before, or could not be read, leaves nothing in what is read next, in the source or in the event.
func TestReadUsesRoomAgain(t *testing.T) {
	t.Parallel()
	const issue = `{"action":"deleted","repository":{"id":7},"issue":{"number":3,"updated_at":"2026-07-01T16:45:22Z"}}`
	const form = "application/x-www-form-urlencoded"
	requests := []*verify.Request{
		{Header: http.Header{"X-Github-Event": {"issues"}, "X-Github-Delivery": {"a"}, "X-Github-Hook-Id": {"9"}, "Content-Type": {"application/json"}}, Body: []byte(issue)},
		{Header: http.Header{"X-Github-Event": {"issues"}, "X-Github-Delivery": {"b"}, "Content-Type": {form}}, Body: []byte("payload=" + url.QueryEscape(issue))},
		{Header: http.Header{"X-Github-Event": {"ping"}, "X-Github-Delivery": {"c"}}, Body: []byte(`{"zen":"","hook_id":1}`)},
		{Header: http.Header{"X-Github-Event": {"issues"}, "X-Github-Delivery": {"d"}}, Body: []byte(`{"action":"deleted","repository":{"id":7},"issue":{}}`)},
		{Header: http.Header{"X-Github-Event": {"issues"}, "X-Github-Delivery": {"e"}}, Body: []byte(`{"action":"x","action":"y"}`)},
		{Header: http.Header{"Content-Type": {form}}, Body: []byte("%zz")},
		{Header: http.Header{"X-Github-Delivery": {"f"}}, Body: []byte(`{"repository":`)},
	}
	config := provider.Config{Preset: "github"}
	received := time.Date(2026, 7, 1, 17, 0, 0, 0, time.UTC)
	type result struct {
		Event *schemas.Event
		Err   error
	}
	want := make([]result, len(requests))
	for i, r := range requests {
		want[i].Event, want[i].Err = compile(t, config).Event(r, received)
	}
	if want[0].Err != nil || want[1].Err != nil || want[2].Err != nil || want[3].Err == nil || want[4].Err == nil || want[5].Err == nil {
		t.Fatalf("%+v", want)
	}
	s := compile(t, config)
	var wg sync.WaitGroup
	for first := range 4 {
		wg.Go(func() {
			var e schemas.Event
			for i := range 50 {
				at := (first + i*(first+1)) % len(requests)
				err := s.Read(requests[at], received, &e)
				got := result{Err: err}
				if err == nil {
					kept := e
					if len(kept.Headers) == 0 {
						kept.Headers = nil
					}
					got.Event = &kept
				}
				if diff := cmp.Diff(want[at], got); diff != "" {
					t.Errorf("request %d: %s", at, diff)
					return
				}
			}
		})
	}
	wg.Wait()
}
