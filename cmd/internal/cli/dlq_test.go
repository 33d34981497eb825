package cli

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// deadListener is an operator listener that lists dead letters, two to a page, and answers what is asked of them.
type deadListener struct {
	mu     sync.Mutex
	items  []api.DeadLetterItem
	query  string
	asked  []string // "verb id"
	refuse map[string]schemas.Kind

	group     string // of the last page
	elsewhere []string
	uncounted bool // the last list was asked for without what waits behind each
}

func (l *deadListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/dlq/"); ok && r.Method == http.MethodGet {
		n := slices.IndexFunc(l.items, func(i api.DeadLetterItem) bool { return i.ID == id })
		json.NewEncoder(w).Encode(api.DeadLetterDetail{DeadLetterItem: l.items[n]})
		return
	}
	if r.Method == http.MethodGet {
		from := 0
		fmt.Sscan(r.URL.Query().Get("cursor"), &from)
		if from == 0 {
			l.query, l.uncounted = r.URL.Query().Get("group")+r.URL.Query().Get("class"), r.URL.Query().Get("behind") == "false"
		}
		l.group = r.URL.Query().Get("group")
		page := api.Page[api.DeadLetterItem]{Items: l.items[from:min(from+2, len(l.items))], Elsewhere: l.elsewhere}
		if from+2 < len(l.items) {
			page.Next = fmt.Sprint(from + 2)
		}
		json.NewEncoder(w).Encode(page)
		return
	}
	var req api.DeadLetterRequest
	json.NewDecoder(r.Body).Decode(&req)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v1 dlq id verb
	l.asked = append(l.asked, parts[3]+" "+parts[2])
	if kind, ok := l.refuse[parts[2]]; ok {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(400)
		json.NewEncoder(w).Encode(api.Problem{Detail: "because", Kind: string(kind)})
		return
	}
	state := api.StateDone
	if req.DryRun {
		state = api.StatePlanned
	}
	item := api.DeadLetterItem{ID: parts[2]}
	for _, i := range l.items {
		if i.ID == item.ID {
			item.Parks = i.Parks
		}
	}
	json.NewEncoder(w).Encode(api.DeadLetterAnswer{DeadLetterItem: item, Verb: parts[3], State: state})
}

func (l *deadListener) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	s := httptest.NewServer(l)
	defer s.Close()
	l.asked = nil
	var out, errs bytes.Buffer
	code = Main(context.WithoutCancel(t.Context()), append([]string{"dlq", args[0], "--url", s.URL}, args[1:]...), Options{Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// By a filter all pages are asked for in the order of the list; what is flagged or unknown only where that is said, and by
// name in any case.
func TestReplayInBulk(t *testing.T) {
	t.Parallel()
	l := &deadListener{refuse: map[string]schemas.Kind{"c": schemas.Conflict}, items: []api.DeadLetterItem{
		{ID: "a", Group: "f00ba4", Status: "dead_letter"}, {ID: "b", Status: "dead_letter", Flagged: true}, {ID: "c", Group: "f00ba4", Status: "dead_letter"},
		{ID: "d", Status: "unknown"}, {ID: "e", Status: "dead_letter"},
	}}
	why := []string{"--reason", "x", "--rate", "10000"}
	for want, args := range map[string][]string{
		"replay a,replay c,replay e":                        {"replay", "--group", "f00"},
		"replay a,replay b,replay c,replay d,replay e":      {"replay", "--group", "f00", "--flagged", "--outcome-unknown"},
		"discard a,discard b,discard c,discard d,discard e": {"discard", "--group", "f00"},
		"replay b,replay d":                                 {"replay", "b", "d"},
		"resolve d":                                         {"resolve", "d"},
	} {
		code, _, errs := l.run(t, append(args, why...)...)
		if code != exitOK || strings.Join(l.asked, ",") != want {
			t.Errorf("%q: %d %q %s", args, code, l.asked, errs)
		}
		if l.group != "" && l.group != "f00ba4" {
			t.Errorf("%q: further pages are of group %s", args, l.group)
		}
	}
	code, out, errs := l.run(t, append([]string{"replay", "--class", "rejected", "-o", "id"}, why...)...)
	if code != exitOK || out != "a\ne\n" || l.query != "rejected" || !l.uncounted || !containsAll(errs, "3 selected, 2 done, 1 gone on", "1 left out, flagged", "1 left out, outcome unknown") {
		t.Errorf("%d %q %q %s", code, l.query, out, errs)
	}
	l.elsewhere = []string{"acme.pay"}
	if code, _, errs := l.run(t, "replay", "--all", "--dry-run"); code != exitOK || l.uncounted || !containsAll(errs, "2 planned (dry run: nothing was done)", "without acme.pay") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, _ := l.run(t, append([]string{"replay", "c"}, why...)...); code != exitConflict {
		t.Errorf("by name, gone on: %d", code)
	}
	if code, _, errs := l.run(t, append([]string{"replay", "a", "c"}, why...)...); code != exitFailed || !containsAll(errs, "c: because", "2 selected, 1 done, 1 gone on") {
		t.Errorf("by name, one gone on: %d %s", code, errs)
	}
	l.refuse["a"] = schemas.Unavailable
	if code, _, errs := l.run(t, append([]string{"replay", "--all"}, why...)...); code != exitFailed || !strings.Contains(errs, "3 not reached") {
		t.Errorf("nobody answers: %d %s", code, errs)
	}
}

// Groups that are left out are told of.
func TestMoreGroups(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(api.Page[api.DeadLetterGroup]{Items: []api.DeadLetterGroup{{Group: "ab12"}, {Group: "cd34"}}, More: true})
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	code := Main(t.Context(), []string{"dlq", "groups", "--url", s.URL}, Options{Stdout: &out, Stderr: &errs})
	if code != exitOK || !strings.Contains(errs.String(), "these are 2, and there may be more") {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
}

// In bulk no more is asked than --rate says a second; a dry run, which asks for nothing, does not wait.
func TestBulkKeepsItsRate(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[float64][]time.Duration{
		4:   {0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, time.Second},
		0.5: {0, 2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second},
		0:   make([]time.Duration, 5),
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, dry := range []bool{false, true} {
				var at []time.Duration
				t0 := time.Now()
				do := func(bool) (*string, string, error) {
					at = append(at, time.Since(t0))
					return new(string), api.StateDone, nil
				}
				b := &bulk[string]{env: &env{ctx: t.Context(), Options: Options{Stderr: io.Discard}}, rate: perSecond, dryRun: dry, requests: slices.Repeat([]request[string]{{do: do}}, 5)}
				if err := b.sendAll(); err != nil {
					t.Fatal(err)
				}
				if dry {
					want = make([]time.Duration, 5)
				}
				if !slices.Equal(at, want) {
					t.Errorf("%v a second, dry run %v: asked at %s, want %s", perSecond, dry, at, want)
				}
			}
		})
	}
}

// An owner that has not answered is not waited for again; the partition of a named item is not known, so its owner is always waited for.
func TestAbsentOwnersAreWaitedForOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		partitions []string
		want       []bool
	}{
		{[]string{"orders/0", "orders/0", "orders/1"}, []bool{false, true, false}},
		{[]string{"", "", ""}, []bool{false, false, false}},
	} {
		var noWait []bool
		b := &bulk[string]{env: &env{ctx: t.Context(), Options: Options{Stderr: io.Discard}}}
		for _, p := range tt.partitions {
			b.requests = append(b.requests, request[string]{partition: p, do: func(n bool) (*string, string, error) {
				noWait = append(noWait, n)
				return new(string), api.StateAsked, nil
			}})
		}
		if err := b.sendAll(); err != nil || !slices.Equal(noWait, tt.want) {
			t.Errorf("%q: %v %v", tt.partitions, noWait, err)
		}
	}
}

// What stands behind a head is told as far as it was counted, in a dry run as in a list.
func TestWhatStandsBehind(t *testing.T) {
	t.Parallel()
	l := &deadListener{items: []api.DeadLetterItem{
		{ID: "a", Parks: true, Behind: new(int64(7))}, {ID: "b", Parks: true, BehindAtLeast: new(int64(3))}, {ID: "c", Parks: true, BehindAtLeast: new(int64(0))},
		{ID: "d", Behind: new(int64(0))}, {ID: "e", Parks: true, Behind: new(int64(0))},
	}}
	for what, args := range map[string][]string{
		"list": {"list"}, "by a filter": {"replay", "--all", "--dry-run"}, "by name": {"replay", "a", "b", "c", "d", "e", "--dry-run"},
	} {
		_, out, errs := l.run(t, args...)
		head := strings.Index(out, "BEHIND")
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.TrimSpace(strings.Split(line[min(head, len(line)):], "  ")[0]))
		}
		want := []string{"BEHIND", "7", "3 or more", "not known", "-", "0"}
		if what == "list" {
			want = want[:3] // a page
		}
		if head < 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %q in %s%s", what, got, out, errs)
		}
	}
}

func TestReplayNeedsToKnowWhatAndWhy(t *testing.T) {
	t.Parallel()
	l := &deadListener{}
	for _, args := range [][]string{
		{"replay", "--reason", "x"}, {"replay", "a"}, {"replay", "a", "--group", "g", "--reason", "x"}, {"discard", "--all"}, {"replay", "--all", "--reason", "x", "--rate", "0"},
		{"list", "--since", "yesterday"},
	} {
		if code, _, errs := l.run(t, args...); code != exitUsage || slices.Contains(l.asked, "replay a") {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
}

func containsAll(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}
