package api

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/jsonschema"
)

var update = flag.Bool("update", false, "rewrite testdata/wire.jsonl")

// TestWireFormat holds what scripts read of the inbox, dead letters, destinations and stops to the byte: some of these types are the inbox's
// own. With everything, and with as little as there can be.
func TestWireFormat(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 20, 30, 405_000_000, time.UTC)
	n := int64(7)
	item := InboxItem{Team: "acme", Subscription: "triage", Source: "github", EventID: "e-1", Entity: "1/2", Type: "com.x", Version: "00000000000000000001",
		VersionKind: "sequence", VersionClock: "issue", Generation: 3, Status: "parked", Decision: "applied", Reason: "fits", Attempts: 2, Duplicates: 4, NextActionAt: &at,
		LastError: "<no> answer", Owner: "host-1", Topic: "events.acme.github", Partition: 5, Offset: 9, ReceivedAt: &at, DecidedAt: at}
	item.Behind, item.BehindAtLeast = &n, &n
	item.Redriven = &RedrivenItem{At: at, By: "ann", Reason: "mended"}
	fitsSchema(t, item)
	attempt := AttemptItem{Attempt: 1, At: at, Class: "busy", Code: 503, LatencyMS: 1.5, Error: "503", Response: "\xffno", TraceID: "ab"}
	var out []byte
	for _, v := range []any{
		InboxItem{}, item, Page[InboxItem]{Items: []InboxItem{item}, Next: "c"},
		InboxDetail{InboxItem: item, Title: "It fails", Sender: &SenderItem{ID: "21031067", Login: "codertocat", Kind: "human"}, Actions: []ActionItem{{ID: "a", Name: "run", Destination: "acme/agent", Status: "failed", LaneSeq: 8, NextAt: &at, Attempts: []AttemptItem{attempt, {}}}}},
		RedriveItem{InboxItem: item, Action: ActionProduce, State: StateDone, Detail: "d", Command: 6, To: &PlaceItem{Topic: "t", Partition: 1, Offset: 2}},
		DeadLetterItem{}, DeadLetterGroup{},
		DeadLetterGroup{Group: "ab12", Class: "rejected", Destination: "acme/agent", Type: "com.x", Count: 9, Entities: 2, Flagged: 1, First: at, Last: at},
		DeadLetterDetail{History: []AttemptItem{attempt}, Commands: []CommandItem{{}, {ID: 1, Kind: "replay", By: "ann", Reason: "r", AskedAt: at, EndedAt: &at, Outcome: "done"}}},
		DeadLetterAnswer{DeadLetterItem: DeadLetterItem{Behind: &n, BehindAtLeast: &n, FirstAt: &at}, Verb: VerbReplay, State: StateAsked, Detail: "d", Command: 6},
		DestinationItem{}, pausedItem, StopItem{},
		AttentionItem{}, Attention{Items: []AttentionItem{{Kind: KindStopped, ID: "acme.triage", Partition: new(int32(5)), Offset: &n, Since: &at}}, Counts: []AttentionCount{{Kind: KindStopped, Count: 1, More: true}},
			Unknown: []AttentionUnknown{{Kind: KindKeys, Why: "no intake"}}},
		SourceItem{}, SourceItem{Seen: &SeenItem{Verified: 3, Refused: 2, VerifiedAt: &at, Mismatches: 1, MismatchedAt: &at,
			Secrets: []SecretItem{{Since: at, Verified: 3, LastUsed: &at}, {Since: at}}, Skew: &SkewItem{Deliveries: 3, Least: -0.5, Most: 2.25}}},
		SubscriptionItem{}, SubscriptionItem{Counts: &PartitionCounts{Total: 4, Running: 1, Stopped: 1, Unread: 1}, Attention: &n, AttentionMore: true},
		SourceItem{People: People{Owners: []string{"ann", "bob"}, Contact: "#acme"}}, AttentionItem{People: People{Contact: "#acme"}},
	} {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	const file = "testdata/wire.jsonl"
	if *update {
		if err := os.WriteFile(file, out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(out)); diff != "" {
		t.Errorf("the wire format has changed (-want +got):\n%s", diff)
	}
}

// fitsSchema holds an item to the schema forebay.decision, which must have all of its fields.
func fitsSchema(t *testing.T, item InboxItem) {
	t.Helper()
	schema, _ := jsonschema.Of("forebay.decision")
	never := item
	never.NextActionAt, never.ReceivedAt, never.Redriven = nil, nil, nil
	never.Discarded, never.DeliveryID = item.Redriven, "d-1"
	for _, item := range []InboxItem{item, never} {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if verdict, why := schema.Check(text); verdict != jsonschema.Fits {
			t.Errorf("%s %s: %s", verdict, why, text)
		}
		var written struct{ Properties map[string]any }
		var fields map[string]any
		if err := errors.Join(json.Unmarshal(schema.Text(), &written), json.Unmarshal(text, &fields)); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if written.Properties[name] == nil {
				t.Errorf("the schema has no %s", name)
			}
		}
	}
}
