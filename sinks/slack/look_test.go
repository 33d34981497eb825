package slack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// A look that ends undecided names how many messages it has seen, however few Slack gives to a page.
func TestLookNamesWhatItHasSeen(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{1: "more than 10 messages", 3: "more than 30 messages"} {
		f := newFake()
		f.size = size
		for range 10*size + 1 {
			f.add(map[string]any{"channel": channel})
		}
		a := sinktest.Action(1)
		a.Attempt, a.FirstAt = 2, time.Now()
		if _, err := must(t, serve(t, f), token, simple()).Do(t.Context(), a); err == nil || !strings.Contains(err.Error(), want) || f.Done() != 0 {
			t.Errorf("%d to a page: %v", size, err)
		}
	}
}

// TestLookGoesOnWhereItWas: Slack lets apps that are not of its Marketplace ask once a minute, for 15 messages. A look that is told to
// wait goes on with its next page: each page is read once, and each call is one of the destination's rate.
func TestLookGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for _, ours := range []bool{true, false} {
		f := newFake()
		f.size = 15
		a := sinktest.Action(1)
		a.Attempt, a.FirstAt = 2, time.Now()
		if ours {
			f.add(map[string]any{"channel": channel, "metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}}})
		}
		for range 40 {
			f.add(map[string]any{"channel": channel})
		}
		var cursors []string
		minute := false // has passed
		s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "conversations.history") {
				if !minute {
					w.Header().Set("Retry-After", "60")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				minute = false
				cursors = append(cursors, r.URL.Query().Get("cursor"))
			}
			f.ServeHTTP(w, r)
		})), token, simple())
		calls, spent := 0, 0
		a.Looks = func() { spent++ }
		for {
			minute = true
			calls++
			out, err := s.Do(t.Context(), a)
			if err == nil {
				break
			}
			if sink.ClassOf(err) != sink.ClassThrottled || out.RetryAfter != time.Minute || !sink.Untouched(err) || calls > 5 {
				t.Fatalf("attempt %d: %+v, %v", calls, out, err)
			}
			a.Attempt++
		}
		if got, want := fmt.Sprint(cursors), "[ 15 30]"; got != want || f.Done() != 1 || calls != 3 || spent != 5 {
			t.Errorf("ours %v: pages %s, want %s; %d messages after %d attempts, %d calls spent", ours, got, want, f.Done(), calls, spent)
		}
	}
}

// TestLookBeginsAgainWhereItMust: behind an attempt of our own what was read before says nothing any more, and a cursor that Slack has
// forgotten is none.
func TestLookBeginsAgainWhereItMust(t *testing.T) {
	t.Parallel()
	f := newFake()
	var cursors []string
	fail := ""
	s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "conversations.history") {
			cursors = append(cursors, r.URL.Query().Get("cursor"))
			if fail != "" {
				answer(w, map[string]any{"ok": false, "error": fail})
				return
			}
		}
		if strings.HasSuffix(r.URL.Path, "chat.postMessage") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		f.ServeHTTP(w, r)
	})), token, simple())
	a := sinktest.Action(1)
	a.Attempt, a.FirstAt = 2, time.Now()
	for range 2 {
		if _, err := s.Do(t.Context(), a); sink.ClassOf(err) != sink.ClassBusy || sink.Untouched(err) {
			t.Fatal(err)
		}
	}
	fail = "invalid_cursor"
	if _, err := s.Do(t.Context(), a); !sink.ClassOf(err).Retried() || !sink.Untouched(err) {
		t.Error(err)
	}
	if len(cursors) != 3 || strings.Join(cursors, "") != "" {
		t.Errorf("asked with cursors %q, want three looks from the beginning", cursors)
	}
}

// TestLookOfALaterClaimBeginsAgain: while this process did not have the partition, another owner may have posted, on a page that was read before.
func TestLookOfALaterClaimBeginsAgain(t *testing.T) {
	t.Parallel()
	for _, doubt := range []bool{false, true} {
		f := newFake()
		f.size = 15
		for range 20 {
			f.add(map[string]any{"channel": channel})
		}
		limited := true
		s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if limited && r.URL.Query().Get("cursor") != "" {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			f.ServeHTTP(w, r)
		})), token, simple())
		a := sinktest.Action(1)
		a.Attempt, a.FirstAt, a.Epoch = 2, time.Now(), 3
		if doubt {
			a.Attempt, a.Doubt, a.DoubtEnd = 1, true, time.Now()
		}
		if _, err := s.Do(t.Context(), a); sink.ClassOf(err) != sink.ClassThrottled {
			t.Fatal(err)
		}
		f.add(map[string]any{"channel": channel, "metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}}})
		limited = false
		a.Epoch++
		if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 1 {
			t.Errorf("in doubt %v: %d messages, %v", doubt, f.Done(), err)
		}
	}
}

// TestLookByAnotherClock: however far our clock is ahead of Slack's, or behind, a look finds what was posted; it asks once more for that.
func TestLookByAnotherClock(t *testing.T) {
	t.Parallel()
	for by, looks := range map[time.Duration]int{-time.Hour: 3, -6 * time.Minute: 3, 0: 2, 6 * time.Minute: 3, time.Hour: 3} {
		for _, doubt := range []bool{false, true} {
			f, a, theirs := newFake(), sinktest.Action(1), time.Now().Add(by)
			f.size = 1
			a.Attempt, a.FirstAt = 2, time.Now()
			if doubt {
				a.Attempt, a.Doubt, a.DoubtEnd, a.Event.RecordedTime = 1, true, time.Now(), time.Now().Add(-time.Second)
			}
			ts := fmt.Sprintf("%d.000001", theirs.Unix())
			f.add(map[string]any{"channel": channel, "ts": ts, "metadata": map[string]any{
				"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}}})
			f.add(map[string]any{"channel": channel, "ts": ts})
			s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
				f.ServeHTTP(w, r)
			})), token, simple())
			if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 1 || f.looks > looks {
				t.Errorf("their clock %s ahead, in doubt %v: %d messages, %d looks, %v", by, doubt, f.Done(), f.looks, err)
			}
		}
	}
}
