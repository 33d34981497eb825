package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/access"
)

// placesFake records what it was asked.
type placesFake struct {
	asked []string
	req   PauseRequest
}

var pausedItem = DestinationItem{Team: "acme", Destination: "agent", Type: "http", State: "paused", Breaker: "closed", Concurrency: 64, Rate: &RateItem{Limit: 10, Per: "1m", Burst: 20, OnLimit: "queue"}, Waiting: 3,
	OnHoldUntil: new(time.Unix(5, 0).UTC()), Paused: &PauseItem{At: time.Unix(4, 0).UTC(), By: "forebay", Class: "timeout", Reason: "1000 failures in a row"}}

func (f *placesFake) Destinations(context.Context) ([]DestinationItem, error) {
	return []DestinationItem{pausedItem}, nil
}

func (f *placesFake) Destination(_ context.Context, team, name string) (*DestinationItem, error) {
	f.asked = []string{"get", team, name}
	return &pausedItem, nil
}

func (f *placesFake) Pause(_ context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	f.asked, f.req = []string{"pause", team, name}, r
	return &pausedItem, nil
}

func (f *placesFake) Resume(_ context.Context, team, name string, r PauseRequest) (*DestinationItem, error) {
	f.asked, f.req = []string{"resume", team, name}, r
	return &pausedItem, nil
}

func TestDestinationsOverTheWire(t *testing.T) {
	t.Parallel()
	f := &placesFake{}
	c, _ := setup(t, func(cfg *Config) { cfg.Destinations = f })
	page, err := c.Destinations(t.Context())
	if err != nil || len(page.Items) != 1 || !cmp.Equal(page.Items[0], pausedItem) {
		t.Errorf("%+v %v", page, err)
	}
	want := PauseRequest{Reason: "they move", By: "ann@ops"}
	for _, team := range []string{"acme", ""} { // without one: shared
		overTheWire(t, f, c, team, want)
	}
}

func overTheWire(t *testing.T, f *placesFake, c *Client, team string, want PauseRequest) {
	t.Helper()
	for what, call := range map[string]func() (*DestinationItem, error){
		"get":    func() (*DestinationItem, error) { return c.Destination(t.Context(), team, "agent") },
		"pause":  func() (*DestinationItem, error) { return c.Pause(t.Context(), team, "agent", want) },
		"resume": func() (*DestinationItem, error) { return c.Resume(t.Context(), team, "agent", want) },
	} {
		f.req = want
		item, err := call()
		if err != nil || !cmp.Equal(*item, pausedItem) || f.req != want {
			t.Errorf("%s: %+v %v, asked %+v", what, item, err, f.req)
		}
		if d := cmp.Diff([]string{what, team, "agent"}, f.asked); d != "" {
			t.Error(d)
		}
	}
}

func TestPauseTakesNothingButItsRequest(t *testing.T) {
	t.Parallel()
	f := &placesFake{}
	c, _ := setup(t, func(cfg *Config) { cfg.Destinations = f })
	for _, verb := range []string{"pause", "resume"} {
		for body, want := range map[string]int{`{"reason":"x","by":"ann"}`: 200, `{"dry_run":true}`: 200, `{"by":"ann"}`: 400, `{"reason":"x","for":"1h"}`: 400} {
			resp, err := http.Post(c.base+"/v1/destinations/acme/agent/"+verb, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s %s: %d, want %d", verb, body, resp.StatusCode, want)
			}
		}
	}
	resp, err := http.Get(c.base + "/v1/destinations?team=acme")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("a filter that does not exist: %d", resp.StatusCode)
	}
}

// Who asks for one team hears that the main file was not taken: no team's changes are.
func TestDiffHasTheMainFileForAll(t *testing.T) {
	t.Parallel()
	main := ConfigDifference{Path: "forebay.yaml", Reason: "not_taken"}
	s := &server{Config: Config{ConfigDiff: func() []ConfigDifference {
		return []ConfigDifference{main, {Team: "pay", Path: "pay.yaml", Reason: "not_taken"}, {Path: "kafka.brokers", Reason: "needs_restart"}}
	}}}
	page, err := s.configDiff(context.WithValue(t.Context(), whoKey{}, &access.Who{Teams: []string{"acme"}}), nil)
	if d := cmp.Diff(any(Page[ConfigDifference]{Items: []ConfigDifference{main}}), page); err != nil || d != "" {
		t.Error(err, d)
	}
}

// Who asks for one team is not told of other teams' subscriptions that use a shared destination in other processes.
func TestSharedDestinationHidesOthersElsewhere(t *testing.T) {
	t.Parallel()
	got := withoutOthers(&access.Who{Teams: []string{"acme"}}, DestinationItem{Destination: "pagers", Teams: []string{"acme", "pay"}, Elsewhere: []string{"acme.down", "pay.bills"}})
	if d := cmp.Diff([][]string{{"acme"}, {"acme.down"}}, [][]string{got.Teams, got.Elsewhere}); d != "" {
		t.Error(d)
	}
	for team, hidden := range map[string]bool{"": true, "acme": false} { // a shared one has met other teams' actions
		got := withoutOthers(&access.Who{Teams: []string{"acme"}}, DestinationItem{Team: team, URL: "https://x.example", LastError: &FailureItem{Error: "of an entity"}})
		if hidden != (got.URL == "" && got.LastError == nil) {
			t.Errorf("of team %q: %+v", team, got)
		}
	}
}
