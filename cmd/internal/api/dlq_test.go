package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// deadFake records what it was asked.
type deadFake struct {
	filter DeadLetterFilter
	asked  []string
	req    DeadLetterRequest
}

var (
	deadItem = DeadLetterItem{ID: "fba_1", Team: "acme", Subscription: "triage", Generation: 2, Source: "github", EventID: "e/1", Type: "com.x", Entity: "1/2",
		Version: "sequence:3", Action: "run", Destination: "agent", OnDead: "park", Status: "dead_letter", Class: "rejected", Group: "ab12", Code: 422,
		Error: "no", Response: "<b>", Attempts: 1, Deaths: 3, Flagged: true, Parks: true, Behind: new(int64(4)), BehindAtLeast: new(int64(3)), Asked: true, FirstAt: new(time.Unix(5, 0).UTC()),
		DiedAt: time.Unix(6, 0).UTC(), Topic: "events.acme.github", Partition: 1, Offset: 7, Owner: "a"}
	deadDetail = DeadLetterDetail{DeadLetterItem: deadItem, History: []AttemptItem{{Attempt: 1, Class: "rejected", Code: 422}},
		Commands: []CommandItem{{ID: 1, Kind: "replay", By: "ann", Reason: "again", AskedAt: time.Unix(7, 0).UTC(), EndedAt: new(time.Unix(8, 0).UTC()), Outcome: "done"}}}
	deadGroup = DeadLetterGroup{Group: "ab12", Class: "rejected", Destination: "agent", Type: "com.x", Count: 9, Entities: 2, Flagged: 1,
		First: time.Unix(1, 0).UTC(), Last: time.Unix(2, 0).UTC()}
	deadRecord = DeadRecord{ID: "fba_1", Topic: "dead.acme.triage", Key: []byte("1/2"), Headers: []DeadHeader{{"ce_id", "e/1"}}, Value: []byte("{\x00}"), Lost: "why"}
	deadAnswer = DeadLetterAnswer{DeadLetterItem: deadItem, Verb: VerbReplay, State: StateDone, Detail: "ran", Command: 5}
)

func (f *deadFake) DeadLetters(_ context.Context, filter DeadLetterFilter) (Page[DeadLetterItem], error) {
	f.filter = filter
	return Page[DeadLetterItem]{Items: []DeadLetterItem{deadItem}, Next: "more"}, nil
}

func (f *deadFake) DeadLetterGroups(_ context.Context, filter DeadLetterFilter) (Page[DeadLetterGroup], error) {
	f.filter = filter
	return Page[DeadLetterGroup]{Items: []DeadLetterGroup{deadGroup}, More: true}, nil
}

func (f *deadFake) DeadLetter(_ context.Context, id string) (*DeadLetterDetail, error) {
	f.asked = []string{"get", id}
	return &deadDetail, nil
}

func (f *deadFake) DeadRecord(_ context.Context, id string) (*DeadRecord, error) {
	f.asked = []string{"record", id}
	return &deadRecord, nil
}

func (f *deadFake) AskDeadLetter(_ context.Context, id, verb string, r DeadLetterRequest) (*DeadLetterAnswer, error) {
	f.asked, f.req = []string{verb, id}, r
	return &deadAnswer, nil
}

func withDead(t *testing.T) (*Client, *deadFake) {
	f := &deadFake{}
	c, _ := setup(t, func(cfg *Config) { cfg.DeadLetters = f })
	return c, f
}

// Every field goes over the wire and back, ids as they are, and errors keep their kind.
func TestDeadLettersOverTheWire(t *testing.T) {
	t.Parallel()
	c, f := withDead(t)
	filter := DeadLetterFilter{Team: "acme", Subscription: "triage", Source: "github", Entity: "1/2 &x", Type: "com.x", Destination: "agent", Class: "rejected",
		Group: "ab12", Since: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Limit: 500, Cursor: "abc="}
	id := "a/b?c%2F #…"
	req := DeadLetterRequest{Reason: "mended", By: "ann@ops", Force: true, OutcomeUnknown: true, NoWait: true, DryRun: true}
	for what, tt := range map[string]struct {
		call  func() (any, error)
		want  any
		asked []string // nil: the filter
	}{
		"list": {func() (any, error) { return c.DeadLetters(t.Context(), filter) }, Page[DeadLetterItem]{Items: []DeadLetterItem{deadItem}, Next: "more"}, nil},
		"groups": {func() (any, error) { return c.DeadLetterGroups(t.Context(), filter) },
			Page[DeadLetterGroup]{Items: []DeadLetterGroup{deadGroup}, More: true}, nil},
		"uncounted": {func() (any, error) { return c.DeadLetters(t.Context(), DeadLetterFilter{Limit: 50, Uncounted: true}) }, Page[DeadLetterItem]{Items: []DeadLetterItem{deadItem}, Next: "more"}, nil},
		"get":       {func() (any, error) { return c.DeadLetter(t.Context(), id) }, &deadDetail, []string{"get", id}},
		"record":    {func() (any, error) { return c.DeadRecord(t.Context(), id) }, &deadRecord, []string{"record", id}},
		"replay":    {func() (any, error) { return c.AskDeadLetter(t.Context(), id, VerbReplay, req) }, &deadAnswer, []string{"replay", id}},
		"discard":   {func() (any, error) { return c.AskDeadLetter(t.Context(), id, VerbDiscard, req) }, &deadAnswer, []string{"discard", id}},
		"resolve":   {func() (any, error) { return c.AskDeadLetter(t.Context(), id, VerbResolve, req) }, &deadAnswer, []string{"resolve", id}},
	} {
		*f = deadFake{}
		got, err := tt.call()
		if d := cmp.Diff(tt.want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", what, err, d)
		}
		if d := cmp.Diff(tt.asked, f.asked); d != "" {
			t.Errorf("%s: %s", what, d)
		}
		asked := filter
		if what == "uncounted" {
			asked = DeadLetterFilter{Limit: 50, Uncounted: true}
		}
		if tt.asked == nil && !cmp.Equal(asked, f.filter) {
			t.Errorf("%s: %s", what, cmp.Diff(asked, f.filter))
		}
		if f.req != (DeadLetterRequest{}) && f.req != req {
			t.Errorf("%s: asked %+v", what, f.req)
		}
	}
}

func TestDeadLettersTakeNothingButTheirRequest(t *testing.T) {
	t.Parallel()
	c, f := withDead(t)
	for _, tt := range []struct {
		method, path, kind, body string
		want                     int
	}{
		{"POST", "/v1/dlq/x/replay", "application/json", `{"reason":"x","by":"ann"}`, 200},
		{"POST", "/v1/dlq/x/replay", "application/json", `{"dry_run":true}`, 200},
		{"POST", "/v1/dlq/x/replay", "application/json", `{"by":"ann"}`, 400},
		{"POST", "/v1/dlq/x/forget", "application/json", `{"reason":"x"}`, 404},
		{"GET", "/v1/dlq/x/replay", "", "", 404},
		{"GET", "/v1/dlq?team=acme&limit=10", "", "", 200},
		{"GET", "/v1/dlq?teams=acme", "", "", 400},
		{"GET", "/v1/dlq?behind=false", "", "", 200},
		{"GET", "/v1/dlq?behind=true", "", "", 400},
		{"GET", "/v1/dlq-groups?behind=false", "", "", 400},
		{"GET", "/v1/dlq-groups?limit=many", "", "", 400},
	} {
		f.asked = nil
		req, err := http.NewRequestWithContext(t.Context(), tt.method, c.base+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.kind != "" {
			req.Header.Set("Content-Type", tt.kind)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s %.40s: %d, want %d", tt.method, tt.path, tt.body, resp.StatusCode, tt.want)
		}
		if tt.want != 200 && f.asked != nil {
			t.Errorf("%s %s was asked of the ledger: %q", tt.method, tt.path, f.asked)
		}
	}
}
