package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stopsFake records what it was asked.
type stopsFake struct {
	asked []string
	req   AcceptRequest
}

func (f *stopsFake) Subscription(_ context.Context, team, name string) (*SubscriptionItem, error) {
	f.asked = []string{team, name}
	return &SubscriptionItem{Team: team, Subscription: name, Partitions: []PartitionItem{{Topic: "t", State: "stopped", Stopped: &StopItem{ID: 3}}}}, nil
}

func (f *stopsFake) Accept(_ context.Context, team, name string, r AcceptRequest) ([]StoppedItem, error) {
	f.asked, f.req = []string{team, name}, r
	return []StoppedItem{{Team: team, Subscription: name, Topic: r.Topic, Partition: 4,
		Stopped: StopItem{ID: 3, Kind: "truncated", FirstAt: new(time.Unix(5, 0).UTC())}}}, nil
}

func setupStops(t *testing.T) (*Client, *stopsFake) {
	t.Helper()
	f := &stopsFake{}
	c, _ := setup(t, func(cfg *Config) { cfg.Stops = f })
	return c, f
}

func TestStopsOverTheWire(t *testing.T) {
	t.Parallel()
	c, f := setupStops(t)
	got, err := c.Subscription(t.Context(), "acme", "triage")
	if err != nil || got.Partitions[0].Stopped == nil || got.Partitions[0].Stopped.ID != 3 || f.asked[1] != "triage" {
		t.Errorf("%+v %v, asked %v", got, err, f.asked)
	}
	want := AcceptRequest{Topic: "events.acme.github", Partition: new(int32(0)), Stop: 3, Reason: "lost \"for good\"\n", By: "ann@ops", DryRun: true}
	page, err := c.Accept(t.Context(), "acme", "triage", want)
	if err != nil || len(page.Items) != 1 || page.Items[0].Stopped.FirstAt.Unix() != 5 || page.Items[0].Stopped.Records != nil {
		t.Errorf("%+v %v", page, err)
	}
	if d := cmp.Diff(want, f.req); d != "" {
		t.Error(d)
	}
}

func TestAcceptTakesNothingButItsRequest(t *testing.T) {
	t.Parallel()
	c, f := setupStops(t)
	post := func(kind, body, origin string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/v1/subscriptions/acme/triage/accept", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		if origin != "" {
			req.Header.Set("Origin", origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	const good = `{"reason": "x", "by": "ann"}`
	for name, tt := range map[string]struct {
		kind, body, origin string
		want               int
	}{
		"as it should be":   {"application/json; charset=utf-8", good, "", 200},
		"a form":            {"application/x-www-form-urlencoded", "reason=x", "", 400},
		"no type":           {"", good, "", 400},
		"nothing":           {"application/json", "", "", 400},
		"not JSON":          {"application/json", "{", "", 400},
		"more behind":       {"application/json", good + good, "", 400},
		"an unknown key":    {"application/json", `{"reason": "x", "by": "ann", "partitions": 4}`, "", 400},
		"too much":          {"application/json", `{"reason": "` + strings.Repeat("x", maxRequest) + `"}`, "", 413},
		"from another site": {"application/json", good, "https://evil.example", 403},
	} {
		f.req = AcceptRequest{}
		if got := post(tt.kind, tt.body, tt.origin); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if tt.want != 200 && f.req.Reason != "" {
			t.Errorf("%s: was accepted all the same", name)
		}
	}
}
