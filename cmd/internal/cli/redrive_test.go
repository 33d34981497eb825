package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// listener is an operator listener that lists what a test gives it and answers redrives by place.
type listener struct {
	mu      sync.Mutex
	items   []api.InboxItem
	queries []string
	asked   []string // "source event no_wait"
	refuse  map[string]schemas.Kind
	hangUp  string // on who asks this
	state   string
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodGet { // two to a page
		q := r.URL.Query()
		l.queries = append(l.queries, q.Get("decision")+" "+q.Get("status")+" "+q.Get("source"))
		from := 0
		fmt.Sscan(q.Get("cursor"), &from)
		page := api.Page[api.InboxItem]{Items: l.items[from:min(from+2, len(l.items))]}
		if from+2 < len(l.items) {
			page.Next = fmt.Sprint(from + 2)
		}
		json.NewEncoder(w).Encode(page)
		return
	}
	var req api.RedriveRequest
	json.NewDecoder(r.Body).Decode(&req)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v1 inbox team subscription source event redrive
	name := parts[4] + " " + parts[5]
	l.asked = append(l.asked, fmt.Sprintf("%s %t", name, req.NoWait))
	if name == l.hangUp {
		panic(http.ErrAbortHandler)
	}
	if kind, ok := l.refuse[name]; ok {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(400)
		json.NewEncoder(w).Encode(api.Problem{Detail: "because", Kind: string(kind)})
		return
	}
	json.NewEncoder(w).Encode(api.RedriveItem{InboxItem: api.InboxItem{EventID: parts[5]}, Action: api.ActionProduce, State: l.state})
}

func item(partition int32, offset int64, decision, reason, id string) api.InboxItem {
	return api.InboxItem{Topic: "events.acme.orders", Partition: partition, Offset: offset, Decision: gate.Decision(decision), Reason: gate.Reason(reason), Source: "orders", EventID: id}
}

func (l *listener) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	s := httptest.NewServer(l)
	defer s.Close()
	var out, errs bytes.Buffer
	code = Main(context.WithoutCancel(t.Context()), append([]string{"inbox", "redrive", "acme.fulfil", "--url", s.URL, "--reason", "x", "--rate", "10000"}, args...),
		Options{Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// TestRedriveInBulk: all pages, in the order of the log, by place; what has gone on or is refused stops nothing.
func TestRedriveInBulk(t *testing.T) {
	t.Parallel()
	l := &listener{state: api.StateDone, refuse: map[string]schemas.Kind{"events.acme.orders 0@1": schemas.Conflict, "events.acme.orders 1@2": schemas.Invalid}}
	for _, at := range [][2]int64{{1, 9}, {0, 7}, {1, 2}, {0, 1}, {0, 4}} {
		l.items = append(l.items, item(int32(at[0]), at[1], "quarantined", "misplaced", "e"))
	}
	code, out, errs := l.run(t, "--decision", "quarantined", "--source", "orders")
	want := []string{"events.acme.orders 0@1 false", "events.acme.orders 0@4 false", "events.acme.orders 0@7 false", "events.acme.orders 1@2 false", "events.acme.orders 1@9 false"}
	if diff := cmp.Diff(want, l.asked); diff != "" {
		t.Error(diff)
	}
	if code != exitFailed || !strings.Contains(errs, "5 selected, 3 done, 1 gone on by themselves or with another, 1 refused") || !strings.Contains(errs, "events.acme.orders/1@2: because") {
		t.Errorf("%d %s", code, errs)
	}
	if len(l.queries) != 3 || l.queries[0] != "quarantined quarantined orders" || strings.Count(out, "produce") != 3 {
		t.Errorf("%q\n%s", l.queries, out)
	}
	l.queries = nil
	if l.run(t, "--decision", "quarantined", "--again"); l.queries[0] != "quarantined  " {
		t.Errorf("with those that were redriven before: %q", l.queries)
	}
}

// TestRedriveOfParked: held ones and those behind a gap, by their event; to discard, held ones only. A partition whose
// owner has not answered is not waited for again.
func TestRedriveOfParked(t *testing.T) {
	t.Parallel()
	l := &listener{state: api.StateAsked, items: []api.InboxItem{item(0, 1, "parked", "gap_expired", "a"), item(0, 2, "parked", "equal_held", "b"), item(1, 3, "parked", "older_held", "c")}}
	if code, _, errs := l.run(t, "--decision", "parked"); code != exitOK || !strings.Contains(errs, "3 selected, 3 asked of their partitions' owners") {
		t.Errorf("%d %s", code, errs)
	}
	if want := []string{"orders a false", "orders b true", "orders c false"}; !slices.Equal(l.asked, want) {
		t.Errorf("asked %q, want %q", l.asked, want)
	}
	l.asked = nil
	if code, _, _ := l.run(t, "--decision", "parked", "--discard"); code != exitOK || !slices.Equal(l.asked, []string{"orders b false", "orders c false"}) {
		t.Errorf("%d, asked %q", code, l.asked)
	}
}

// TestRedriveEndsWhereNobodyAnswers: what is left is counted, and the error tells.
func TestRedriveEndsWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	l := &listener{state: api.StateDone, refuse: map[string]schemas.Kind{"orders b": schemas.Unavailable},
		items: []api.InboxItem{item(0, 1, "parked", "equal_held", "a"), item(0, 2, "parked", "equal_held", "b"), item(0, 3, "parked", "equal_held", "c")}}
	code, out, errs := l.run(t, "--decision", "parked", "-o", "jsonl")
	if code != exitFailed || !strings.Contains(errs, "3 selected, 1 done, 2 not reached") || !strings.Contains(errs, "because") || strings.Count(out, "\n") != 1 {
		t.Errorf("%d %s %s", code, out, errs)
	}
	l.refuse, l.hangUp = nil, "orders b" // which has been asked
	if code, _, errs := l.run(t, "--decision", "parked"); code != exitFailed || !containsAll(errs, "3 selected, 1 done, 1 without an answer, perhaps asked for, 1 not reached", "orders/0@2: ask ") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := l.run(t, "orders", "b"); code != exitFailed || !strings.Contains(errs, "perhaps it is done") {
		t.Errorf("one alone: %d %s", code, errs)
	}
	if code, _, errs := l.run(t, "--decision", "parked", "--dry-run"); code != exitFailed || !strings.Contains(errs, ", 2 not reached") || strings.Contains(errs, "perhaps") {
		t.Errorf("a dry run: %d %s", code, errs)
	}
}

// TestItemWithoutIDIsNamedByItsPlace, as redrive, get and raw take it.
func TestItemWithoutIDIsNamedByItsPlace(t *testing.T) {
	t.Parallel()
	i := item(3, 17, "quarantined", "undecodable", "")
	i.Team, i.Subscription = "acme", "fulfil"
	if got := itemID(i); got != "acme/fulfil/events.acme.orders/3@17" {
		t.Error(got)
	}
}
