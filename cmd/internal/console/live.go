package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

const (
	liveEvery  = time.Second
	liveIdle   = 20               // after a look that took long, so many times as long goes by before the next: looking must not slow what runs
	liveWindow = 30 * time.Second // how far back each look goes: so long rows change in their place, and so far the database's clock may be off
	liveAtOnce = 32               // live views of a process
	liveOfOne  = 8                // of one person, in however many sessions
	liveBeat   = 15 * time.Second // of a comment in a silent stream: so a browser that is gone is noticed
)

// live is a stream of server-sent events: rows of the inbox as they come and as they change.
type live struct {
	c      *Console
	filter api.InboxFilter
	w      http.ResponseWriter
	to     *http.ResponseController
	after  time.Time         // when the newest row that was sent was decided: the cursor
	seen   time.Time         // when the look began that was sent last; before the first one, the cursor
	sent   map[string]string // what was sent of the rows of the last look, by their key
	silent time.Time         // since when nothing was sent
	down   string            // what the browser was told is wrong; empty: nothing
}

// liveInbox streams what the filters in the URL select, from the cursor on: that is ?after= for the first connection, and the id of the last
// event, which browsers send by themselves, when they connect again.
func (c *Console) liveInbox(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		http.Error(w, "the live view is for this console's own pages", http.StatusForbidden)
		return
	}
	l := live{c: c, w: w, to: http.NewResponseController(w)}
	if err := l.read(r); err != nil {
		http.Error(w, string(visible([]byte(err.Error()))), api.Status(err))
		return
	}
	if !c.watchers.enter(sessionOf(r.Context())) {
		http.Error(w, fmt.Sprintf("%d live views are open under your name, which is the most: close one, or load the page again now and then", liveOfOne), http.StatusServiceUnavailable)
		return
	}
	defer c.watchers.leave(sessionOf(r.Context()))
	select {
	case c.watching <- struct{}{}:
		defer func() { <-c.watching }()
	default:
		http.Error(w, fmt.Sprintf("%d live views are open, which is the most: close one, or load the page again now and then", liveAtOnce), http.StatusServiceUnavailable)
		return
	}
	_ = l.to.SetReadDeadline(time.Time{}) // the listener's own are for questions that end; see write
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	l.run(r.Context())
}

// watchers are how many live views each person has open. Where nobody has to log in, nobody is counted. Safe for concurrent use.
type watchers struct {
	mu   sync.Mutex
	open map[string]int // by name; not nil
}

// enter counts one more, and reports whether it may be.
func (n *watchers) enter(s *session) bool {
	if s == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[s.Name] >= liveOfOne {
		return false
	}
	n.open[s.Name]++
	return true
}

func (n *watchers) leave(s *session) {
	if s == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[s.Name]--; n.open[s.Name] == 0 {
		delete(n.open, s.Name)
	}
}

// read reads filter and cursor.
func (l *live) read(r *http.Request) (err error) {
	q := r.URL.Query()
	if l.filter, err = inboxFilter(r, "after"); err != nil {
		return err
	}
	if l.filter.Cursor != "" || l.filter.Delivery != "" {
		return schemas.Errorf(schemas.Invalid, "", "a page that was turned to, and the search for a delivery, are not live")
	}
	after := q.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	at, err := strconv.ParseInt(after, 10, 64)
	if err != nil || at < 0 || at > 1<<53 {
		return schemas.Errorf(schemas.Invalid, "", "after %q is no cursor of a live view", after)
	}
	l.after = time.UnixMicro(at)
	l.seen = l.after
	return nil
}

// cursorAt is the cursor of a live view of what is decided from a time on.
func cursorAt(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// liveFrom is the cursor of a page that was asked for at a time: the newest decision that is on it, unless that is long ago.
func liveFrom(items []api.InboxItem, askedAt time.Time) string {
	from := askedAt.Add(-liveWindow)
	if len(items) > 0 && items[0].DecidedAt.After(from) {
		from = items[0].DecidedAt
	}
	return cursorAt(from)
}

// run sends until the browser or this process ends.
func (l *live) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	if !l.write("retry: 2000\n\n") {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.c.ended:
			return
		case <-next.C:
		}
		began := time.Now()
		if !l.look(ctx) {
			return
		}
		next.Reset(max(l.c.liveEvery, liveIdle*time.Since(began)))
	}
}

// look sends what is new and what has changed, if who watches may still see it. It returns false once the browser is gone, or the session.
func (l *live) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	f := l.filter
	from := l.seen.Add(-liveWindow)
	if from.After(f.Since) {
		f.Since = from
	}
	if err := l.c.endedOf(ctx); errors.Is(err, access.SessionEnded) {
		l.event("ended", err.Error())
		return false
	} else if err != nil {
		return l.trouble(err.Error())
	}
	found, err := l.c.looks.at(ctx, f)
	if err != nil && schemas.KindOf(err) != schemas.NotFound { // that there is nothing yet
		return l.trouble(err.Error())
	}
	l.seen = found.began
	ok := l.trouble("")
	if n := len(found.rows); n > 0 && found.more && found.rows[n-1].decidedAt.After(l.after) { // what is between is never sent
		ok = ok && l.event("gap", "more came than a live view shows; filters narrow it down")
	}
	ok = ok && l.rows(found.rows)
	if ok && time.Since(l.silent) > liveBeat {
		ok = l.write(": still here\n\n")
	}
	return ok
}

// rows sends the rows that are not as they were sent last, the oldest first.
func (l *live) rows(rows []liveRow) bool {
	before := l.sent
	l.sent = map[string]string{}
	var out strings.Builder
	for _, r := range slices.Backward(rows) {
		l.sent[r.key] = r.state
		if before[r.key] == r.state {
			continue
		}
		data, err := r.data()
		if err != nil {
			l.c.Logger.Error("a row of the live inbox cannot be rendered", "error", err)
			return false
		}
		if r.decidedAt.After(l.after) {
			l.after = r.decidedAt
		}
		fmt.Fprintf(&out, "event: row\nid: %s\n%s\n", cursorAt(l.after), data)
	}
	return out.Len() == 0 || l.write(out.String())
}

// trouble tells the browser, once, why it does not see all that comes, or that it does again.
func (l *live) trouble(what string) bool {
	if what == l.down {
		return true
	}
	l.down = what
	return l.event("trouble", what)
}

// inboxRow renders a row of the inbox.
func (c *Console) inboxRow(i api.InboxItem) ([]byte, error) {
	var b bytes.Buffer
	err := c.pages["inbox"].ExecuteTemplate(&b, "row", i)
	return b.Bytes(), err
}

func (l *live) event(name, text string) bool {
	return l.write("event: " + name + "\n" + dataLines([]byte(text)) + "\n")
}

// dataLines returns the lines that carry data in a server-sent event.
func dataLines(data []byte) string {
	var b strings.Builder
	for line := range bytes.SplitSeq(visible(data), []byte("\n")) {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	return b.String()
}

// write writes and flushes, for partTimeout at most: a browser that does not read is let go. The deadline is taken away afterwards:
// how the answer ends is written, too.
func (l *live) write(text string) bool {
	l.silent = time.Now()
	_ = l.to.SetWriteDeadline(time.Now().Add(partTimeout))
	_, err := l.w.Write([]byte(text))
	ok := err == nil && l.to.Flush() == nil
	_ = l.to.SetWriteDeadline(time.Time{})
	return ok
}
