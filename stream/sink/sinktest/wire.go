package sinktest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// testKey makes four attempts at one action, which end in different ways: all have the same key, with the action id in it.
func (h Harness) testKey(t *testing.T) {
	b := h.newBench(t)
	var first string
	for n := 1; n <= 4; n++ {
		b.dest.script([]http.HandlerFunc{b.dest.status(200, nil), b.dest.status(503, nil), reset, b.dest.status(200, nil)}[n-1])
		a := Action(1)
		a.Attempt = n
		_, _ = b.sink.Do(t.Context(), a)
		got := b.dest.all()
		if len(got) != n {
			t.Fatalf("attempt %d: %d requests so far", n, len(got))
		}
		key := h.Key(got[n-1].req, got[n-1].body)
		if n == 1 {
			first = key
		}
		if key == "" || key != first {
			t.Errorf("attempt %d has key %q, the first had %q", n, key, first)
		}
		if !strings.Contains(key, string(a.ID)) {
			t.Errorf("key %q does not hold the action id %q", key, a.ID)
		}
	}
}

// testReset resets a fresh connection, and one that was kept alive: there net/http would send again by itself.
func (h Harness) testReset(t *testing.T) {
	b := h.newBench(t)
	for i, warm := range []bool{false, true} {
		before := b.dest.count()
		if warm {
			b.dest.script(b.dest.status(200, nil))
			if _, err := b.sink.Do(t.Context(), Action(1)); err != nil {
				t.Fatal(err)
			}
			before++
		}
		b.dest.script(reset)
		_, err := b.sink.Do(t.Context(), Action(2+i))
		if got := sink.ClassOf(err); got != sink.ClassNetwork {
			t.Errorf("class %q, want network: %v", got, err)
		}
		if n := b.dest.count() - before; n != 1 {
			t.Errorf("%d requests for one attempt on a reset connection (kept alive: %v)", n, warm)
		}
	}
}

// testOneAttempt has the destination ask for a retry: the sink itself sends nothing again.
func (h Harness) testOneAttempt(t *testing.T) {
	b := h.newBench(t)
	for i, code := range []int{500, 503, 429, 408} {
		b.dest.script(b.dest.status(code, map[string]string{"Retry-After": "0"}))
		_, _ = b.sink.Do(t.Context(), Action(i))
		if got := b.dest.count(); got != i+1 {
			t.Fatalf("status %d: %d requests for %d attempts", code, got, i+1)
		}
	}
}

// testHang has the destination take a request and say nothing.
func (h Harness) testHang(t *testing.T) {
	b := h.newBench(t)
	b.timely(t, b.dest.hang, true)
}

// testHangingAnswer has the status on time and not the body. Whether that is success is the sink's to say (Whole); it returns
// when ctx is done all the same.
func (h Harness) testHangingAnswer(t *testing.T) {
	b := h.newBench(t)
	b.timely(t, b.dest.hangInBody, h.Whole)
}

// patience is how long a test waits for what comes at once, on a machine that is busy. What waits for a hanging destination takes longer.
const patience = 20 * time.Second

// timely checks that an attempt whose request has arrived returns when its context is done, against a destination that does not answer. fails
// says that it must fail then: with a timeout, after which it may have acted.
func (b *bench) timely(t *testing.T, hang http.HandlerFunc, fails bool) {
	t.Helper()
	arrived := make(chan struct{}, 9)
	b.dest.script(func(w http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; hang(w, r) })
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	done := make(chan error, 1)
	go func() {
		_, err := b.sink.Do(ctx, Action(1))
		done <- err
	}()
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Fatal("no request arrives")
	}
	end(context.DeadlineExceeded)
	select {
	case err := <-done:
		if fails && (sink.ClassOf(err) != sink.ClassTimeout || sink.Untouched(err)) {
			t.Errorf("class %q, want timeout, untouched %v: %v", sink.ClassOf(err), sink.Untouched(err), err)
		}
	case <-time.After(patience):
		t.Fatal("Do does not return at its context's end")
	}
	if b.dest.count() != 1 {
		t.Errorf("%d requests have arrived, want 1", b.dest.count())
	}
}

// testLargeResponse has the destination answer with more than is kept. A sink may keep nothing of it. If it keeps anything, it is the
// first MaxResponse bytes.
func (h Harness) testLargeResponse(t *testing.T) {
	b := h.newBench(t)
	body := strings.Repeat("x", 64<<10)
	if h.Answer != nil {
		body = h.Answer(200) + strings.Repeat(" ", 64<<10) // spaces, so that JSON stays valid
	}
	b.dest.script(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	out, err := b.sink.Do(t.Context(), Action(1))
	if err != nil {
		t.Errorf("a large answer: %v", err)
	}
	if len(out.Response) > sink.MaxResponse {
		t.Errorf("%d bytes of the answer kept, at most %d may be", len(out.Response), sink.MaxResponse)
	}
	if len(out.Response) != 0 && string(out.Response) != body[:sink.MaxResponse] {
		t.Errorf("the answer's first bytes are not what was kept: %d bytes", len(out.Response))
	}
}

// expected returns the class of a status, written down here on its own so that it checks the table of the sinks.
func expected(code int) sink.Class {
	switch {
	case code >= 200 && code < 300:
		return sink.ClassOK
	case code == 401 || code == 403:
		return sink.ClassDenied
	case code == 429:
		return sink.ClassThrottled
	case code == 408 || code == 425 || code >= 500:
		return sink.ClassBusy
	}
	return sink.ClassRejected
}

// testStatuses has the destination answer with each status: its class is the expected one, and it is recorded.
func (h Harness) testStatuses(t *testing.T) {
	b := h.newBench(t)
	retried := map[int]bool{408: true, 425: true, 429: true}
	for _, code := range []int{
		200, 201, 202, 204, 206, 300, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 413, 415, 418, 421, 422, 423, 424, 425, 426, 428,
		429, 431, 451, 500, 501, 502, 503, 504, 507, 511, 599,
	} {
		if h.Answer != nil && code == http.StatusNoContent {
			continue // has none
		}
		b.dest.script(b.dest.status(code, nil))
		out, err := b.sink.Do(t.Context(), Action(code))
		class := sink.ClassOf(err)
		if class != expected(code) {
			t.Errorf("status %d: class %q, want %q", code, class, expected(code))
		}
		if want := retried[code] || code >= 500; class.Retried() != want {
			t.Errorf("status %d: retried is %v, want %v", code, class.Retried(), want)
		}
		if out.Code != code {
			t.Errorf("status %d recorded as %d", code, out.Code)
		}
	}
}

// testRedirect checks that redirects are not followed.
func (h Harness) testRedirect(t *testing.T) {
	b := h.newBench(t)
	other := newDestination(t, Harness{})
	for i, code := range []int{301, 302, 303, 307, 308} {
		b.dest.script(b.dest.status(code, map[string]string{"Location": other.URL}))
		_, err := b.sink.Do(t.Context(), Action(i))
		if got := sink.ClassOf(err); got != sink.ClassRejected {
			t.Errorf("status %d: class %q, want rejected", code, got)
		}
	}
	if other.count() != 0 || b.dest.count() != 5 {
		t.Errorf("%d requests followed a redirect, %d went to the destination itself", other.count(), b.dest.count()-5)
	}
}

// testRetryAfter checks what the sink reads of Retry-After, in seconds or as a date.
func (h Harness) testRetryAfter(t *testing.T) {
	b := h.newBench(t)
	date := time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		header    string
		low, high time.Duration
	}{
		{"17", 17 * time.Second, 17 * time.Second},
		{"0", 0, 0},
		{date, 9*time.Minute + 30*time.Second, 10 * time.Minute},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 0, 0},
		{"soon", 0, 0},
		{"-5", 0, 0},
		{"99999999999999999999999", time.Hour, 1 << 62},
		{"", 0, 0},
	} {
		for _, code := range []int{429, 503} {
			b.dest.script(b.dest.status(code, map[string]string{"Retry-After": c.header}))
			out, _ := b.sink.Do(t.Context(), Action(1))
			low, high := c.low, c.high
			if code == http.StatusTooManyRequests && high == 0 {
				low, high = h.Wait, h.Wait
			}
			if out.RetryAfter < low || out.RetryAfter > high {
				t.Errorf("status %d, Retry-After %q: %v, want between %v and %v", code, c.header, out.RetryAfter, low, high)
			}
		}
	}
}

// testEndless has the destination answer more than is kept or has to be parsed, and then hang: who wants all of it waits for ever, or until its time is
// over where that is meant.
func (h Harness) testEndless(t *testing.T) {
	b := h.newBench(t)
	most := sink.MaxResponse
	if s, ok := b.sink.(sink.Answerer); ok {
		most = s.Answer()
	}
	b.dest.script(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, b.dest.answer(200)+strings.Repeat(" ", most+24<<10)) // a part is for redaction, and to use the connection again
		w.(http.Flusher).Flush()
		b.dest.hang(w, r)
	})
	limit := patience
	if h.Whole {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := b.sink.Do(ctx, Action(1))
	if waited := ctx.Err() != nil || sink.ClassOf(err) == sink.ClassTimeout; h.Whole && sink.ClassOf(err) != sink.ClassTimeout {
		t.Errorf("an answer that does not end is one: %v", err)
	} else if !h.Whole && waited {
		t.Errorf("the attempt wanted more than %d bytes and waited for them: %v", most, err)
	}
	if len(out.Response) > sink.MaxResponse {
		t.Errorf("%d bytes are kept", len(out.Response))
	}
}

// spellings are the secret as destinations echo it: as it came, in a URL, in JSON, inside a header of theirs.
func spellings() map[string]string {
	list := map[string]string{
		"as it is": secret, "in a query": url.QueryEscape(secret), "in a path, lower case": strings.ToLower(hexed(secret)), "in JSON": strings.ReplaceAll(secret, "=", `\u003d`),
		"in JSON in a query": url.QueryEscape(strings.ReplaceAll(secret, "=", `\u003d`)),
	}
	for _, before := range []string{"", "u:", "Bearer "} {
		list["in base64 behind "+before] = base64.StdEncoding.EncodeToString([]byte(before + secret + "\n"))
		list["in base64 of URLs behind "+before] = base64.RawURLEncoding.EncodeToString([]byte(before + secret))
	}
	return list
}

// hexed is a text with each byte percent-encoded.
func hexed(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}

// testLeaks has the destination echo whatever it was sent, in every way that an attempt can end and in every spelling, also where what
// is kept is cut off. What the destination says beside that is kept: else there would be nothing to see.
func (h Harness) testLeaks(t *testing.T) {
	b := h.newBench(t)
	kept := 0
	look := func(name, spelled string, end http.HandlerFunc) {
		b.dest.script(end)
		limit := patience
		if name == "hang" {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		out, err := b.sink.Do(ctx, Action(1))
		text := string(out.Response)
		if strings.Contains(text, "echo:") {
			kept++
		}
		texts := map[string]string{"the answer kept": text, "the error in detail": fmt.Sprintf("%+v %#v", err, out)}
		for e := err; e != nil; e = errors.Unwrap(e) {
			texts["the error"] += e.Error() + "\n"
		}
		for what, text := range texts {
			assertNoSecret(t, name+": "+what, text)
			if part := spelled[:len(spelled)/2]; strings.Contains(text, part) {
				t.Errorf("%s: %s shows a part of the secret: %.300s", name, what, text)
			}
		}
	}
	// echo answers with what it was sent and with the secret, at once and where the answer has so many bytes.
	echo := func(code int, spelled string, at int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var answer bytes.Buffer
			_, _ = fmt.Fprintf(&answer, "echo: %s %s", r.URL, body)
			_ = r.Header.Write(&answer)
			answer.WriteString(spelled)
			if at > 0 && at < answer.Len() {
				t.Errorf("the answer has %d bytes before byte %d: this test sees nothing", answer.Len(), at)
			}
			answer.WriteString(strings.Repeat(" ", max(10, at-answer.Len())) + spelled)
			w.Header().Set("Location", "/?token="+secret)
			w.WriteHeader(code)
			_, _ = answer.WriteTo(w)
		}
	}
	look("reset", secret, reset)
	look("hang", secret, b.dest.hang)
	for _, code := range []int{200, 302, 400, 401, 429, 500} {
		look(fmt.Sprint("status ", code), secret, echo(code, secret, sink.MaxResponse-len(secret)/2))
	}
	for name, spelled := range spellings() {
		look(name, spelled, echo(500, spelled, 0))
		for _, shown := range []int{0, 3} { // so many quarters of it, and one, stand before the cut
			look(name+", cut off", spelled, echo(400, spelled, sink.MaxResponse-len(spelled)*(shown+1)/4))
		}
	}
	if kept == 0 {
		t.Error("no answer was kept: this test sees nothing")
	}
	assertNoSecret(t, "the log", b.logs.text())
	assertNoSecret(t, "the sink printed", fmt.Sprintf("%v %+v %#v", b.sink, b.sink, b.sink))
}
