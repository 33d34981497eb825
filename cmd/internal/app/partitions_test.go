package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// Each partition of a topic is counted once, as whoever has it sees it; nobody's is unread once that has lasted, and a new one of a topic
// that has grown at once.
func TestPartitionsAreJudged(t *testing.T) {
	t.Parallel()
	at, now := nameInTeam{"acme", "triage"}, time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	key := func(number int32) partitionKey { return partitionKey{at, "t", number} }
	stop := func(number int32, kind owner.StopReason) *owner.StopError {
		p := ledger.Partition{Topic: "t", Number: number}
		return &owner.StopError{Partition: p, Reason: kind, Stop: &ledger.Stop{Subscription: "acme.triage", Partition: p, Kind: string(kind), From: 7, To: 8, Detail: "cut", FoundAt: now.Add(-time.Hour)}}
	}
	f := partitionFacts{
		own: map[partitionKey]owner.PartitionState{
			key(0): {Topic: "t", Partition: 0, State: owner.Running},
			key(1): {Topic: "t", Partition: 1, State: owner.Claiming},
			key(2): {Topic: "t", Partition: 2, State: owner.Stopped, Err: stop(2, owner.StopTruncated)},
			key(3): {Topic: "t", Partition: 3, State: owner.Claiming, Err: errors.New("no answer")},
			key(7): {Topic: "t", Partition: 7, State: owner.Stopped, Err: stop(7, owner.StopPartitions)},
		},
		stops:   []ledger.Stop{*stop(4, owner.StopBelowStart).Stop, *stop(0, owner.StopBelowStart).Stop},
		claimed: map[partitionKey]bool{key(5): true, key(6): false},
		counts:  map[string]int32{"t": 8},
	}
	type row struct {
		Number int32
		State  string
		Mine   bool
		Since  time.Time
	}
	first := map[partitionKey]time.Time{}
	judged := func(now time.Time) (api.PartitionCounts, []row) {
		p := f.judge(map[nameInTeam][]string{at: {"t"}}, first, now)
		var rows []row
		for _, st := range p.standing {
			rows = append(rows, row{st.number, st.state, st.mine, st.since})
		}
		return p.counts[at], rows
	}
	// 1 is being claimed; 3 and 6 may be handed over at this moment.
	counts, rows := judged(now)
	if d := cmp.Diff(api.PartitionCounts{Total: 8, Running: 2, Stopped: 2, Unread: 1}, counts); d != "" {
		t.Error(d)
	}
	found := now.Add(-time.Hour)
	if d := cmp.Diff([]row{{2, "stopped", true, found}, {4, "stopped", false, found}, {7, "unread", true, found}}, rows); d != "" {
		t.Error(d)
	}
	counts, rows = judged(now.Add(unreadAfter))
	if d := cmp.Diff(api.PartitionCounts{Total: 8, Running: 2, Stopped: 2, Unread: 3}, counts); d != "" {
		t.Error(d)
	}
	want := []row{{2, "stopped", true, found}, {3, "unread", true, now}, {4, "stopped", false, found}, {6, "unread", true, now}, {7, "unread", true, found}}
	if d := cmp.Diff(want, rows); d != "" {
		t.Error(d)
	}
	delete(f.own, key(3))
	f.claimed[key(3)] = true // by another process
	judged(now.Add(unreadAfter))
	f.claimed[key(3)] = false
	if counts, _ = judged(now.Add(unreadAfter + time.Second)); counts.Unread != 2 {
		t.Errorf("what was claimed meanwhile counts from before: %+v", counts)
	}
}

// The partitions of a topic that somebody has deleted under a subscription are not forgotten with it: nobody reads them, whoever had them. A
// subscription that does not run because its topic is missing is told of as such.
func TestDeletedTopicIsTold(t *testing.T) {
	t.Parallel()
	at, barred, now := nameInTeam{"acme", "triage"}, nameInTeam{"acme", "barred"}, time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	f := partitionFacts{
		own:     map[partitionKey]owner.PartitionState{{at, "t", 0}: {Topic: "t", Partition: 0, State: owner.Claiming, Err: errors.New("UNKNOWN_TOPIC_OR_PARTITION")}},
		claimed: map[partitionKey]bool{{at, "t", 0}: false, {at, "t", 2}: true, {barred, "t", 0}: true},
		counts:  map[string]int32{},
		runs:    map[nameInTeam]bool{at: true},
	}
	first, topics := map[partitionKey]time.Time{}, map[nameInTeam][]string{at: {"t"}, barred: {"t"}}
	if got := f.judge(topics, first, now); len(got.standing) != 0 {
		t.Errorf("told at once, though one broker may not know of it for moments: %+v", got.standing)
	}
	got := f.judge(topics, first, now.Add(unreadAfter))
	if d := cmp.Diff(map[nameInTeam]api.PartitionCounts{at: {Total: 3, Unread: 3}, barred: {}}, got.counts); d != "" {
		t.Error(d)
	}
	for _, st := range got.standing {
		if st.state != stateUnread || !st.mine || !strings.Contains(st.why, "`forebay topics apply`") {
			t.Errorf("%+v", st)
		}
	}
}

// A topic whose right was taken away under a subscription may be there still: its partitions are told of by whoever has them, and what nobody has is unread for
// the right.
func TestRefusedTopicIsNotDeleted(t *testing.T) {
	t.Parallel()
	at, now := nameInTeam{"acme", "triage"}, time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)
	f := partitionFacts{
		own:     map[partitionKey]owner.PartitionState{{at, "t", 0}: {Topic: "t", Partition: 0, State: owner.Running}},
		claimed: map[partitionKey]bool{{at, "t", 1}: true, {at, "t", 2}: false},
		refused: map[string]string{"t": "user a has no right Describe on topic t"},
		runs:    map[nameInTeam]bool{at: true},
	}
	first, topics := map[partitionKey]time.Time{}, map[nameInTeam][]string{at: {"t"}}
	f.judge(topics, first, now)
	got := f.judge(topics, first, now.Add(unreadAfter))
	if d := cmp.Diff(map[nameInTeam]api.PartitionCounts{at: {Total: 3, Running: 2, Unread: 1}}, got.counts); d != "" {
		t.Error(d)
	}
	if len(got.standing) != 1 || got.standing[0].number != 2 || !strings.Contains(got.standing[0].why, "user a has no right Describe on topic t") {
		t.Errorf("%+v", got.standing)
	}
}

// A process is not ready for its stream role from the look on that sees a partition of its own, or nobody's, stand still; but it is in its
// first minute, or nobody could roll out what mends that.
func TestReadinessOfAPartitionThatStandsStill(t *testing.T) {
	t.Parallel()
	at := nameInTeam{"acme", "triage"}
	a := &attention{a: &App{log: slog.New(slog.DiscardHandler)}}
	stands := func(mine bool, runs time.Duration) error {
		a.began = time.Now().Add(-runs)
		a.last = look{at: time.Now(), partitions: partitions{standing: []standing{{partitionKey: partitionKey{at, "t", 3}, state: "stopped", mine: mine,
			since: time.Now(), seen: time.Now()}}}}
		return a.standsStill(at)
	}
	for _, c := range []struct {
		mine  bool
		runs  time.Duration
		ready bool
	}{{true, time.Second, true}, {true, 2 * time.Minute, false}, {false, 2 * time.Minute, true}} {
		if err := stands(c.mine, c.runs); (err == nil) != c.ready {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := a.standsStill(nameInTeam{"acme", "other"}); err != nil {
		t.Error(err)
	}
}
