package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// channel is a Slack with one channel. It takes a message whose text is hangs, and does not answer.
type channel struct {
	*httptest.Server
	hangs string

	mu       sync.Mutex
	messages []map[string]any // newest first
	looks    int
}

func newChannel(t *testing.T, hangs string) *channel {
	c := &channel{hangs: hangs}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

func (c *channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{"ok": true}
	switch strings.TrimPrefix(r.URL.Path, "/") {
	case "chat.postMessage":
		var m map[string]any
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m["ts"] = fmt.Sprintf("%d.000001", time.Now().Unix())
		c.mu.Lock()
		c.messages = append([]map[string]any{m}, c.messages...)
		c.mu.Unlock()
		if m["text"] == c.hangs {
			<-r.Context().Done()
			return
		}
	case "conversations.history":
		oldest, _ := strconv.ParseInt(r.URL.Query().Get("oldest"), 10, 64)
		var list []map[string]any
		c.mu.Lock()
		for _, m := range c.messages {
			if sec, _, _ := strings.Cut(m["ts"].(string), "."); sec >= strconv.FormatInt(oldest, 10) {
				list = append(list, m)
			}
		}
		c.looks++
		c.mu.Unlock()
		answer["messages"] = list
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// texts is how often a text was posted.
func (c *channel) texts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, m := range c.messages {
		n[m["text"].(string)]++
	}
	return n
}

func (c *channel) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// TestKilledLook: a message is posted and its owner killed before it is answered; the next owner attempts nothing, because the
// destination is paused, and stops in order; the one after it finds the message. What was not attempted is not looked for.
func TestKilledLook(t *testing.T) {
	t.Parallel()
	slack := newChannel(t, "posted 1")
	c := newCrash(t, `type: slack, base_url: "`+slack.URL+`", token: "xoxb-0", timeout: 2s, allow_networks: [127.0.0.0/8],
        params: {channel: C0123456789, text: "{{event.entity}} {{body.order.rev}}"}, retry: {attempts: 5, within: 10m, min: 50ms, max: 500ms}`)
	destination := c.team + "/target"
	c.order("posted", 1)
	until(t, "the message is there", func() bool { return slack.texts()["posted 1"] == 1 })
	c.order("posted", 2)
	if out, err := c.try(c.p.operator, "destinations", "pause", destination, "--reason", "test"); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	c.p.kill()

	c.restart()
	const fences = `SELECT count(*) FROM forebay.fences f JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name LIKE '%.fulfil' AND `
	until(t, "what the first owner's calls (timeout 5 s, settled after 5 more) can do is over", func() bool {
		return count(t, c.db, fences+`epoch = 2 AND claimed_at < now() - interval '12 s'`) == 6
	})
	c.order("later", 1)
	until(t, "its action is there", func() bool { return count(t, c.db, `SELECT count(*) FROM forebay.events WHERE entity = 'later'`) == 1 })
	c.p.stop()
	if n := count(t, c.db, fences+`released`); n != 6 {
		t.Fatalf("%d of 6 partitions were released", n)
	}
	if n := slack.looked(); n != 0 {
		t.Fatalf("%d looks by an owner whose destination is paused", n)
	}

	c.restart()
	if out, err := c.try(c.p.operator, "destinations", "resume", destination, "--reason", "test"); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	for _, o := range []struct {
		entity string
		rev    int
	}{{"posted", 1}, {"posted", 2}, {"later", 1}} {
		c.status(o.entity, o.rev, "done")
	}
	if diff := cmp.Diff(map[string]int{"posted 1": 1, "posted 2": 1, "later 1": 1}, slack.texts()); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if n := slack.looked(); n != 1 {
		t.Errorf("%d looks, want one, for what may have been posted", n)
	}
}
