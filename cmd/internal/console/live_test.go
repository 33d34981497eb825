package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// liveLedger has events that come while somebody looks. Like the real one, it lists the newest first and obeys since and limit.
type liveLedger struct {
	*fake
	mu    sync.Mutex
	items []api.InboxItem
	err   error
}

func (l *liveLedger) Items(_ context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p api.Page[api.InboxItem]
	for _, i := range slices.Backward(l.items) {
		if i.DecidedAt.Before(f.Since) || f.Entity != "" && i.Entity != string(f.Entity) {
			continue
		}
		if len(p.Items) == f.Limit {
			p.Next = "more"
			break
		}
		p.Items = append(p.Items, i)
	}
	return p, l.err
}

// happen adds events, decided now one after the other, or changes those that are there.
func (l *liveLedger) happen(status string, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		known := false
		for n := range l.items {
			if l.items[n].EventID == id {
				l.items[n].Status, known = status, true
			}
		}
		if !known {
			l.items = append(l.items, api.InboxItem{Team: "acme", Subscription: "fulfil", Source: "orders", EventID: id, Entity: "o-1", Decision: "applied", Status: status,
				Topic: "events.acme.orders", Offset: int64(len(l.items)), DecidedAt: time.Now().Truncate(time.Microsecond)})
		}
	}
}

func (l *liveLedger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// stream is a live view as a browser has it.
type stream struct {
	t    *testing.T
	in   *bufio.Scanner
	id   string // of the last event
	resp *http.Response
}

func (l *liveLedger) server(t *testing.T) (*Console, *httptest.Server) {
	t.Helper()
	cfg := l.config()
	cfg.Inbox = l
	c := pagesOf(t, cfg)
	c.liveEvery, c.looks.every = time.Millisecond, time.Millisecond
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server
}

func connect(t *testing.T, server *httptest.Server, query, lastID string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/console/inbox/live?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &stream{t: t, in: bufio.NewScanner(resp.Body), resp: resp}
}

// next waits for an event and returns its name, and its data as text.
func (s *stream) next() (name, said string) {
	s.t.Helper()
	var data []string
	for s.in.Scan() {
		switch key, value, _ := strings.Cut(s.in.Text(), ": "); {
		case key == "event":
			name = value
		case key == "id":
			s.id = value
		case key == "data":
			data = append(data, value)
		case s.in.Text() == "" && name != "":
			root, err := html.Parse(strings.NewReader("<table>" + strings.Join(data, "\n") + "</table>"))
			if err != nil {
				s.t.Fatal(err)
			}
			return name, text(root)
		}
	}
	s.t.Fatalf("the stream has ended: %v", s.in.Err())
	return "", ""
}

func (s *stream) row(texts ...string) {
	s.t.Helper()
	name, said := s.next()
	for _, want := range texts {
		if name != "row" || !strings.Contains(said, want) {
			s.t.Fatalf("event %s says %q, want a row with %q", name, said, texts)
		}
	}
}

// TestLiveInbox: rows come as they are decided and again when they change, each once; who connects again misses nothing.
func TestLiveInbox(t *testing.T) {
	t.Parallel()
	l := &liveLedger{fake: newFake()}
	_, server := l.server(t)
	began := cursorAt(time.Now())
	s := connect(t, server, "after="+began, "")
	if got := s.resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %s", got)
	}
	l.happen("received", "e-1")
	s.row("e-1", "received")
	l.happen("done", "e-1")
	s.row("e-1", "done")
	l.happen("received", "e-2")
	s.row("e-2", "received") // and not e-1 again
	s.resp.Body.Close()

	l.happen("done", "e-3", "e-4") // while nobody is connected
	again := connect(t, server, "after="+began, s.id)
	again.row("e-1")
	again.row("e-2")
	again.row("e-3", "done")
	again.row("e-4", "done")

	l.fail(schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused"))
	if name, said := again.next(); name != "trouble" || said != "ask Postgres: connection refused" {
		t.Errorf("%s %q", name, said)
	}
	l.happen("done", "e-5")
	l.fail(nil)
	if name, said := again.next(); name != "trouble" || said != "" {
		t.Errorf("it does not say that all is well again: %s %q", name, said)
	}
	again.row("e-5")
}

// TestLiveInboxIsNotWrittenBySenders: who names an event as a line of the stream begins writes no event of the stream.
func TestLiveInboxIsNotWrittenBySenders(t *testing.T) {
	t.Parallel()
	l := &liveLedger{fake: newFake()}
	_, server := l.server(t)
	l.happen("done", "x\r\n\r\nevent: trouble\rdata: y\n\n<script>alert(1)</script>")
	connect(t, server, "after="+cursorAt(time.Now()), "").row(`x\u000d \u000d event: trouble\u000ddata: y <script>alert(1)</script>`)
}

// TestLiveInboxAfterALongAbsence: a laptop that slept for an hour is told what it has missed, though that is older than the window.
func TestLiveInboxAfterALongAbsence(t *testing.T) {
	t.Parallel()
	l := &liveLedger{fake: newFake()}
	_, server := l.server(t)
	l.happen("done", "e-1", "e-2")
	l.items[0].DecidedAt, l.items[1].DecidedAt = time.Now().Add(-time.Hour), time.Now().Add(-50*time.Minute)
	connect(t, server, "after="+cursorAt(time.Now()), cursorAt(time.Now().Add(-time.Hour))).row("e-1")
}

// TestLiveInboxSaysWhatItLeavesOut: that events are missing is said once, before those that came after them.
func TestLiveInboxSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	l := &liveLedger{fake: newFake()}
	_, server := l.server(t)
	var ids []string
	after := cursorAt(time.Now().Add(-time.Second))
	for n := range 60 {
		ids = append(ids, fmt.Sprintf("e-%d", n))
	}
	l.happen("done", ids...)
	s := connect(t, server, "after="+after, "")
	if name, said := s.next(); name != "gap" || !strings.Contains(said, "more came than a live view shows") {
		t.Errorf("60 events in a page of 50: %s %q", name, said)
	}
	for n := 10; n < 60; n++ {
		s.row(fmt.Sprintf("e-%d", n))
	}
	l.happen("done", "e-60")
	s.row("e-60") // and nothing that takes the gap back, nor another one
	l.happen("done", "e-61")
	s.row("e-61")
}

// TestLiveInboxAfterASlowLook: what came while a look took long, or while none was answered, is sent, however long that was.
func TestLiveInboxAfterASlowLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &liveLedger{fake: newFake()}
		cfg := l.config()
		cfg.Inbox = l
		w := httptest.NewRecorder()
		v := live{c: pagesOf(t, cfg), filter: api.InboxFilter{Limit: rows}, w: w, to: http.NewResponseController(w), after: time.Now(), seen: time.Now()}
		for n := range 3 {
			if !v.look(t.Context()) || strings.Count(w.Body.String(), "event: row") != n {
				t.Fatalf("look %d: %s", n, w.Body)
			}
			time.Sleep(time.Second)
			l.happen("done", fmt.Sprintf("e-%d", n))
			time.Sleep(2 * liveWindow)
		}
		l.fail(schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused"))
		v.look(t.Context())
		l.fail(nil)
		time.Sleep(2 * liveWindow)
		if v.look(t.Context()); strings.Count(w.Body.String(), "event: row") != 3 {
			t.Error(w.Body)
		}
	})
}

// TestLiveInboxGoesBackToWhatItHasSeen: a view that was given what another one had found goes back to when that was looked for, and one that
// connects again goes back half a minute from its cursor: what came, or changed, since then is sent.
func TestLiveInboxGoesBackToWhatItHasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &liveLedger{fake: newFake()}
		cfg := l.config()
		cfg.Inbox = l
		c := pagesOf(t, cfg)
		ask, takes := c.looks.ask, 4*time.Second // it counts for 80 s
		c.looks.ask = func(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error) {
			page, err := ask(ctx, f)
			time.Sleep(takes)
			return page, err
		}
		view := func() (*live, *httptest.ResponseRecorder) {
			w := httptest.NewRecorder()
			return &live{c: c, filter: api.InboxFilter{Limit: rows}, w: w, to: http.NewResponseController(w), after: time.Now(), seen: time.Now()}, w
		}
		first, _ := view()
		second, w := view()
		first.look(t.Context())
		l.happen("done", "e-1")
		time.Sleep(time.Minute)
		second.look(t.Context())
		if strings.Contains(w.Body.String(), "event: row") {
			t.Errorf("what the first view has found is not what the second is given: %s", w.Body)
		}
		time.Sleep(30 * time.Second)
		if second.look(t.Context()); !strings.Contains(w.Body.String(), "e-1") {
			t.Errorf("what came after the first view had looked: %s", w.Body)
		}
		time.Sleep(liveIdle * takes)
		takes = 0
		l.happen("pending", "e-2")
		time.Sleep(10 * time.Second)
		again, w := view()
		time.Sleep(25 * time.Second)
		l.happen("done", "e-2")
		if again.look(t.Context()); !strings.Contains(w.Body.String(), "e-2") {
			t.Errorf("what has changed while the view was not connected: %s", w.Body)
		}
	})
}

// TestLiveInboxIsBounded: other sites, wrong questions and too many who look get none, and the end of the process ends those that there are.
func TestLiveInboxIsBounded(t *testing.T) {
	t.Parallel()
	l := &liveLedger{fake: newFake()}
	c, server := l.server(t)
	for query, status := range map[string]int{"": http.StatusBadRequest, "after=x": http.StatusBadRequest, "after=-1": http.StatusBadRequest, "after=1&desicion=x": http.StatusBadRequest,
		"after=1&cursor=x": http.StatusBadRequest, "after=1&delivery=d": http.StatusBadRequest} {
		if got := connect(t, server, query, "").resp.StatusCode; got != status {
			t.Errorf("%q: %d", query, got)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/console/inbox/live?after=1", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if s := send(t, c, r); s.status != http.StatusForbidden {
		t.Errorf("another site: %d", s.status)
	}
	var open []*stream
	for range liveAtOnce {
		s := connect(t, server, "after=1", "")
		s.in.Scan() // it is one of those that there are
		open = append(open, s)
	}
	if got := connect(t, server, "after=1", "").resp.StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("one more than %d: %d", liveAtOnce, got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ended)
	for _, s := range open {
		for s.in.Scan() {
		}
		if err := s.in.Err(); err != nil {
			t.Errorf("a live view was cut off: %v", err)
		}
	}
}

// TestLiveViewsOfOneSession: nobody takes all that there are, and one that is closed makes room.
func TestLiveViewsOfOneSession(t *testing.T) {
	t.Parallel()
	g := guardFake(t, nil)
	server := httptest.NewServer(g.console)
	t.Cleanup(server.Close)
	open := func(v *visitor) (status int, end func()) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/console/inbox/live?after=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: sessionCookie, Value: v.cookies[sessionCookie]})
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode, func() { resp.Body.Close() }
	}
	ann, end := g.as("ann"), func() {}
	for n := range liveOfOne {
		var status int
		if status, end = open(ann); status != http.StatusOK {
			t.Fatalf("view %d: %d", n, status)
		}
	}
	if status, _ := open(ann); status != http.StatusServiceUnavailable {
		t.Errorf("one more than %d: %d", liveOfOne, status)
	}
	if status, _ := open(g.as("ann")); status != http.StatusServiceUnavailable {
		t.Errorf("the same person in another session: %d", status)
	}
	if status, _ := open(g.as("viv")); status != http.StatusOK {
		t.Errorf("another person: %d", status)
	}
	end()
	for began := time.Now(); ; { // until the server has noticed
		if status, _ := open(ann); status == http.StatusOK {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatalf("a view that was closed makes no room: %d", status)
		}
	}
}

// TestSilentViewIsNotCut: a view in which nothing happens stays open for longer than one write may take.
func TestSilentViewIsNotCut(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := &live{w: w, to: http.NewResponseController(w)}
		if !l.write(": begun\n\n") {
			t.Error("not begun")
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		l.write(": ended\n\n")
	}))
	t.Cleanup(server.Close)
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	time.AfterFunc(partTimeout+time.Second, func() { close(end) })
	if got, err := io.ReadAll(answer.Body); string(got) != ": begun\n\n: ended\n\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
