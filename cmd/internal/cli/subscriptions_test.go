package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// A partition's last moves are told with what they skipped, for operators and for programs.
func TestSubscriptionTellsItsMoves(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 15, 4, 5, 0, time.UTC)
	item := api.SubscriptionItem{Team: "acme", Subscription: "triage", Sources: []string{"github"}, Ready: true, Partitions: []api.PartitionItem{
		{Topic: "events.acme.github", Partition: 3, State: "running", Position: &api.PositionItem{NextOffset: 30, Seeks: 7, Skipped: 12, LastSeeks: []api.SeekItem{
			{From: 10, To: 22, Skipped: 12, FoundAt: at, FoundBy: "a/1"}, {From: 40, To: 10, FoundAt: at.Add(-time.Hour), FoundBy: "b/2"},
		}}},
		{Topic: "events.acme.github", Partition: 4, State: "running", Position: &api.PositionItem{NextOffset: 5}},
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(item) }))
	defer s.Close()
	get := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), append([]string{"subscriptions", "get", "acme.triage", "--url", s.URL}, args...), Options{Stdout: &out, Stderr: &errs}); code != exitOK {
			t.Fatalf("%d %s", code, errs.String())
		}
		return out.String()
	}
	if text := get(); !containsAll(text, "next offset 30, moved 7 times, 12 offsets skipped\n"+
		"  moved from 10 to 22: 10..21 were skipped, found "+formatTime(at)+" by a/1\n"+
		"  moved back from 40 to 10, found "+formatTime(at.Add(-time.Hour))+" by b/2\n", "next offset 5\n") {
		t.Error(text)
	}
	var back api.SubscriptionItem
	if err := json.Unmarshal([]byte(get("-o", "json")), &back); err != nil || len(back.Partitions[0].Position.LastSeeks) != 2 ||
		back.Partitions[0].Position.LastSeeks[0] != item.Partitions[0].Position.LastSeeks[0] {
		t.Errorf("%+v %v", back, err)
	}
}
