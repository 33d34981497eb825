package slack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// fake is a workspace with one channel.
type fake struct {
	mu       sync.Mutex
	messages []map[string]any // oldest first
	size     int              // of a page of history; 0: as asked
	looks    int
	lag      time.Duration     // how long history lacks a message
	errors   map[string]string // the error of a method, in place of what it does
}

var _ sinktest.Fake = (*fake)(nil)

func newFake() *fake { return &fake{errors: map[string]string{}} }

const token = "xoxb-000000-aaaaaaaaaaaa"

// Done is how many messages of the first action there are.
func (f *fake) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.messages {
		if actionOf(m) == string(sinktest.Action(1).ID) {
			n++
		}
	}
	return n
}

func actionOf(m map[string]any) string {
	meta, _ := m["metadata"].(map[string]any)
	if meta["event_type"] != "forebay" {
		return ""
	}
	pay, _ := meta["event_payload"].(map[string]any)
	id, _ := pay["action_id"].(string)
	return id
}

// add puts a message of somebody else into the channel.
func (f *fake) add(m map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.post(m)
}

func (f *fake) post(m map[string]any) string {
	ts := fmt.Sprintf("%d.%06d", time.Now().Unix(), len(f.messages))
	if _, dated := m["ts"]; !dated {
		m["ts"] = ts
	}
	if f.lag > 0 {
		m["made"] = time.Now()
	}
	f.messages = append(f.messages, m)
	return ts
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		answer(w, map[string]any{"ok": false, "error": "invalid_auth"})
	case f.errors[method] != "":
		answer(w, map[string]any{"ok": false, "error": f.errors[method], "needed": "channels:history"})
	case method == "chat.postMessage" && r.Method == http.MethodPost:
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			answer(w, map[string]any{"ok": false, "error": "invalid_json"})
			return
		}
		answer(w, map[string]any{"ok": true, "ts": f.post(m), "channel": m["channel"]})
	case method == "chat.update" && r.Method == http.MethodPost:
		var m map[string]any
		_ = json.Unmarshal(body, &m)
		at := slices.IndexFunc(f.messages, func(old map[string]any) bool { return old["ts"] == m["ts"] && old["channel"] == m["channel"] })
		if at < 0 || m["thread_ts"] != nil {
			answer(w, map[string]any{"ok": false, "error": "message_not_found"})
			return
		}
		if thread := f.messages[at]["thread_ts"]; thread != nil {
			m["thread_ts"] = thread
		}
		f.messages[at] = m
		answer(w, map[string]any{"ok": true, "ts": m["ts"], "channel": m["channel"]})
	case method == "conversations.history" || method == "conversations.replies":
		f.history(w, r, method == "conversations.replies")
	default:
		answer(w, map[string]any{"ok": false, "error": "unknown_method"})
	}
}

// history gives pages from the newest message to the oldest.
func (f *fake) history(w http.ResponseWriter, r *http.Request, replies bool) {
	f.looks++
	q := r.URL.Query()
	oldest, _ := strconv.ParseFloat(q.Get("oldest"), 64)
	latest, err := strconv.ParseFloat(q.Get("latest"), 64)
	if err != nil {
		latest = math.Inf(1)
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	if f.size > 0 {
		limit = min(limit, f.size)
	}
	var all []map[string]any
	for _, m := range slices.Backward(f.messages) {
		ts, _ := strconv.ParseFloat(m["ts"].(string), 64)
		if made, _ := m["made"].(time.Time); time.Since(made) < f.lag {
			continue
		}
		thread, _ := m["thread_ts"].(string)
		if m["channel"] != q.Get("channel") || ts < oldest || ts > latest || replies != (thread != "") || replies && thread != q.Get("ts") {
			continue
		}
		if q.Get("include_all_metadata") != "true" {
			delete(m, "metadata")
		}
		all = append(all, m)
	}
	from, _ := strconv.Atoi(q.Get("cursor"))
	to := min(len(all), from+limit)
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	answer(w, map[string]any{"ok": true, "messages": all[from:to], "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}})
}
