package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

var update = flag.Bool("update", false, "write golden files")

// lists is an operator listener with names, ids and errors as long as they are in use. Its times are relative to when it is asked, however long
// a test takes until then.
func lists(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(listed(time.Now())[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// listed is what lists answers at a time, by path. A time in it is 30 seconds or more from where its text would change.
func listed(now time.Time) map[string]any {
	at := func(ago time.Duration) *time.Time { return new(now.Add(-ago - 30*time.Second)) }
	const hash = "sha256:1f0a6e6f7f2d1c9b8a7e6d5c4b3a29181706f5e4d3c2b1a09f8e7d6c5b4a3928"
	const refused = "503 Service Unavailable: upstream connect error or disconnect/reset before headers. reset reason: connection timeout"
	entities := api.Page[api.EntityItem]{Items: []api.EntityItem{
		{Team: "platform", Subscription: "issue-triage", Source: "github", Entity: "186853002/check_run/2f0a6e6f7f2d1c9b8a7e6d5c4b3a29", // 50 characters, as of GitHub
			Lines: []api.VersionLineItem{{Clock: "check_run", At: "2026-07-01T09:05:42Z"}, {Clock: "check_suite", At: "2026-07-01T09:05:40.120Z", Parked: "gap_expired"}}},
		{Team: "platform", Subscription: "issue-triage", Source: "customer-orders-of-the-old-shop", Entity: "820982911946154501",
			Lines:   []api.VersionLineItem{{At: "17", Missing: [][2]int64{{18, 18}, {20, 21}, {24, 1_204}}}},
			Waiting: new(int64(1204)), Since: at(39 * time.Minute), Until: new(now.Add(30*time.Minute + 30*time.Second)), Then: "dead_letter"},
	}}
	return map[string]any{
		"/v1/inbox": api.Page[api.InboxItem]{Items: []api.InboxItem{
			{Team: "platform", Subscription: "issue-triage", Source: "github", EventID: hash, Type: "com.github.pull_request.synchronize", Entity: "186853002/1042",
				Version: "2026-07-01T09:05:42.000000000Z", Status: "done", Decision: gate.Applied, Reason: "next", Attempts: 1, ReceivedAt: at(39 * time.Minute), Topic: "events.platform.github", Partition: 3, Offset: 4711},
			{Team: "platform", Subscription: "issue-triage", Source: "orders", EventID: "20261123T015653.411-order-1-1", Type: "com.shop.order.changed", Entity: "820982911946154501",
				Version: "e000002:00000000000000000017+00003", Status: "dead_letter", Decision: gate.Applied, Reason: "released", Attempts: 7, ReceivedAt: at(26 * time.Hour), Topic: "events.platform.orders", Partition: 11, Offset: 90210},
			{Team: "platform", Subscription: "issue-triage", Source: "github", Topic: "events.platform.github", Partition: 3, Offset: 4712, Decision: gate.Quarantined, Reason: "misplaced", Status: "quarantined", LastError: refused, ReceivedAt: at(80 * time.Hour)},
		}},
		"/v1/dlq": api.Page[api.DeadLetterItem]{Items: []api.DeadLetterItem{
			{ID: "act_0123456789abcdefghjkmnpqrs", Team: "platform", Subscription: "issue-triage", Source: "github", EventID: hash, Type: "com.github.issues.opened", Entity: "186853002/1042",
				Version: "2026-07-01T09:05:42.000000000Z", Destination: "coding-agent", Status: "dead_letter", Class: "unavailable", Error: refused, Attempts: 7, Deaths: 3, Flagged: true, Parks: true, Behind: new(int64(1204)), DiedAt: *at(5 * time.Minute)},
		}},
		"/v1/dlq-groups": api.Page[api.DeadLetterGroup]{Items: []api.DeadLetterGroup{
			{Group: "3f2a9c41d07b", Count: 1204, Entities: 318, Class: "unavailable", Destination: "coding-agent", Type: "com.github.pull_request.synchronize", First: *at(50 * time.Hour), Last: *at(3 * time.Minute)},
		}},
		"/v1/quarantine": api.Page[api.QuarantineItem]{Items: []api.QuarantineItem{
			{Team: "platform", Source: "orders", Kind: "unusable", Reason: "missing_field", Detail: "no /order/rev: the body has action, changes, order, sender and 14 others", Bytes: 23732, Topic: "quarantine.platform.orders", Offset: 17, ReceivedAt: *at(10 * time.Minute)},
		}},
		"/v1/destinations": api.Page[api.DestinationItem]{Items: []api.DestinationItem{
			{Team: "platform", Destination: "coding-agent", Type: "http", State: "paused", Breaker: "closed", Concurrency: 64, Waiting: 12041, ConsecutiveFailures: 1000, FailingSince: at(73 * time.Hour),
				Paused: &ledger.Pause{By: "forebay", Reason: "nothing but failures for 3d, the last: " + refused}},
			{Team: "platform", Destination: "chat", Type: "slack", State: "held", Breaker: "closed", Concurrency: 64, OnHoldUntil: new(now.Add(30*time.Minute + 30*time.Second))},
		}},
		"/v1/subscriptions": api.Page[api.SubscriptionItem]{Items: []api.SubscriptionItem{
			{Team: "platform", Subscription: "issue-triage", Sources: []string{"github", "orders", "incidents"}, Missing: "the begin of events.platform.incidents is not stored yet: the topic does not exist; `forebay topics apply` makes it"},
			{Team: "platform", Subscription: "pay", Sources: []string{"stripe"}, Ready: true, Counts: &api.PartitionCounts{Total: 24, Running: 12, Stopped: 3, Unread: 8}, Attention: new(int64(17))},
		}},
		"/v1/attention": api.Attention{Items: []api.AttentionItem{
			{Kind: api.KindStopped, ID: "platform.issue-triage", Team: "platform", Subscription: "issue-triage", Topic: "events.platform.github", Partition: new(int32(3)), Reason: "below_log_start", Since: at(39 * time.Minute),
				Detail: refused, Command: "forebay subscriptions accept platform.issue-triage --topic events.platform.github --partition 3 --stop 17 --reason TEXT"},
			{Kind: "parked", ID: "platform/issue-triage/orders/20261123T015653.411-order-1-3", Team: "platform", Subscription: "issue-triage", Source: "orders", Entity: "820982911946154501", EventID: "20261123T015653.411-order-1-3",
				Topic: "events.platform.orders", Partition: new(int32(11)), Offset: new(int64(90211)), Reason: "gap_expired", Events: 12, Since: at(3 * time.Hour), Command: "forebay inbox redrive platform.issue-triage orders 20261123T015653.411-order-1-3 --reason TEXT"},
			{Kind: api.KindPaused, ID: "platform/coding-agent", Team: "platform", Destination: "platform/coding-agent", Reason: "unavailable", Command: "forebay destinations resume platform/coding-agent --reason TEXT"},
		}, Counts: []api.AttentionCount{{Kind: api.KindStopped, Count: 1}, {Kind: "parked", Count: 10_000, More: true}}},
		"/v1/subscriptions/platform/issue-triage/lag": api.Page[api.LagItem]{Items: []api.LagItem{
			{Team: "platform", Subscription: "issue-triage", Topic: "events.platform-engineering.customer-orders-of-the-old-shop", Partition: 11, State: "running", Owner: "forebay-stream-7c9f/1", LogStart: 1_104_201, LogEnd: 12_104_399_201,
				Position: new(int64(12_104_309_201)), Mirror: new(int64(12_104_309_001)), Records: new(int64(90_000)), Seconds: new(360.4), OldestAt: at(6 * time.Minute), OpenActions: new(int64(12_404)), Waiting: new(int64(3))},
			{Team: "platform", Subscription: "issue-triage", Topic: "events.platform.github", Partition: 0, State: "unread", LogEnd: 17, Detail: "no process has claimed it"},
		}},
		"/v1/sources": api.Page[api.SourceItem]{Items: []api.SourceItem{
			{Team: "platform-engineering", Source: "customer-orders-of-the-old-shop", Preset: "standard-webhooks", Path: "/v1/in/platform-engineering/customer-orders-of-the-old-shop", Topic: "events.platform-engineering.customer-orders-of-the-old-shop",
				Seen: &api.SeenItem{Verified: 120_404, Refused: 17, VerifiedAt: at(4 * time.Minute)}},
		}},
		"/v1/entities": entities,
		"/v1/gaps":     entities,
		"/v1/tokens": api.Page[api.TokenItem]{Items: []api.TokenItem{
			{Name: "ann-laptop", Role: "source-admin", Teams: []string{"platform", "platform-engineering", "shop"}, Payloads: true, UsedAt: at(4 * time.Minute), ExpiresAt: now.Add(89*24*time.Hour + time.Hour), CreatedAt: *at(24 * time.Hour), CreatedBy: "ann", Reason: refused},
		}},
	}
}

var listCommands = []string{"attention", "inbox list", "inbox list --decision quarantined", "dlq list", "dlq groups", "quarantine list", "destinations list", "subscriptions list", "subscriptions lag platform.issue-triage", "sources list",
	"entities list", "gaps list", "tokens list"}

func output(t *testing.T, url, command string, more ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := append(append(strings.Fields(command), "--url", url), more...)
	if code := Main(t.Context(), args, Options{Stdout: &out, Stderr: &errs}); code != exitOK {
		t.Fatalf("%s: %d %s", command, code, errs.String())
	}
	return out.String()
}

// TestTablesFit: no line of a list is longer than 100 characters, and the golden file shows what is left of each.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	url := lists(t)
	var all strings.Builder
	for _, command := range listCommands {
		text := output(t, url, command)
		fmt.Fprintf(&all, "$ forebay %s\n%s\n", command, strings.ReplaceAll(text, url, "http://127.0.0.1:19090"))
		for line := range strings.Lines(text + output(t, url, command, "--time", "iso")) {
			if command == "attention" && strings.HasPrefix(line, "    ") {
				continue // a command is there to be copied
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d characters: %s", command, n, line)
			}
		}
	}
	path := filepath.Join("testdata", "tables.golden.txt")
	if *update {
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", path, diff)
	}
}

// TestNothingIsShortenedInWide: what a table leaves out or shortens, -o wide has whole.
func TestNothingIsShortenedInWide(t *testing.T) {
	t.Parallel()
	url := lists(t)
	whole := map[string][]string{
		"inbox list": {"2026-07-01T09:05:42.000000000Z", "e000002:00000000000000000017+00003", "sha256:1f0a6e6f7f2d1c9b8a7e6d5c4b3a29181706f5e4d3c2b1a09f8e7d6c5b4a3928", "com.github.pull_request.synchronize", "connection timeout"},
		"dlq list":   {"connection timeout", "act_0123456789abcdefghjkmnpqrs", "issue-triage"},
	}
	for _, command := range listCommands {
		text := output(t, url, command, "-o", "wide")
		if strings.Contains(text, "…") || !containsAll(text, whole[command]...) {
			t.Errorf("%s -o wide:\n%s", command, text)
		}
	}
}

func TestTimesOfLists(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 2, 0, 0, 0, time.FixedZone("CET", 3600))
	for ago, want := range map[time.Duration]string{
		0: "0s ago", 999 * time.Millisecond: "0s ago", 119 * time.Second: "119s ago", 2 * time.Minute: "2m ago", 119 * time.Minute: "119m ago",
		2 * time.Hour: "2h ago", 47 * time.Hour: "47h ago", 48 * time.Hour: "2d ago", 400 * 24 * time.Hour: "400d ago", -90 * time.Second: "in 90s",
	} {
		if got := (tableForm{now: now}).time(new(now.Add(-ago))); got != want {
			t.Errorf("%s ago is %q, want %q", ago, got, want)
		}
	}
	if got := (tableForm{now: now, iso: true}).time(&now); got != "2026-11-23T01:00:00Z" {
		t.Errorf("--time iso: %s", got)
	}
	if got := (tableForm{now: now}).time(nil) + (tableForm{now: now}).time(&time.Time{}); got != "" {
		t.Errorf("no time is %q", got)
	}
}

func TestVersionsOfLists(t *testing.T) {
	t.Parallel()
	for sortable, want := range map[string]string{
		"": "", "00000000000000000017": "17", "00000000000000000000": "0", "e000002:00000000000000000017": "e2:17", "00000000000000000017+00003": "17+3",
		"2026-07-01T09:05:42.000000000Z": "2026-07-01T09:05:42Z", "2026-07-01T09:05:42.120000000Z": "2026-07-01T09:05:42.12Z",
		"e000010:2026-07-01T09:05:42.000000000Z+00010": "e10:2026-07-01T09:05:42Z+10",
		"=01J00ABC": "=01J00ABC", "=e001:002": "=e001:002", "e000001:=a.00Z": "e1:=a.00Z",
	} {
		if got := (&env{output: "table"}).version(sortable); got != want {
			t.Errorf("%s is shown as %s, want %s", sortable, got, want)
		}
	}
}

// TestTextBelow: where the lines would be too long, the last column's texts stand whole below their rows, and not in a column.
func TestTextBelow(t *testing.T) {
	t.Parallel()
	type item struct{ topic, detail string }
	columns := []column[item]{{name: "topic", whole: true, value: func(i item) string { return i.topic }},
		{name: "action", value: func(item) string { return "keep" }},
		{name: "detail", whole: true, below: true, value: func(i item) string { return i.detail }}}
	long := strings.Repeat("copy this ", 12) + "too"
	for name, tt := range map[string]struct {
		items []item
		wide  bool
		want  string
	}{
		"fits":     {[]item{{"events.acme.orders", "as it is"}, {"b", ""}}, false, "TOPIC               ACTION  DETAIL\nevents.acme.orders  keep    as it is\nb                   keep    -\n"},
		"does not": {[]item{{"events.acme.orders", long}, {"b", ""}, {"c", "as it is"}}, false, "TOPIC               ACTION\nevents.acme.orders  keep\n  " + long + "\nb                   keep\nc                   keep\n  as it is\n"},
		"wide":     {[]item{{"a", long}}, true, "TOPIC  ACTION  DETAIL\na      keep    " + long + "\n"},
	} {
		var out bytes.Buffer
		if err := writeTable(&out, tt.items, tableForm{wide: tt.wide}, columns); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, out.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
