package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/google/go-cmp/cmp"
)

// Actions that are open block the copy of a topic, unless they are to be left behind. Events that wait do not: they go along, but those
// that no reader has.
func TestRekeyDrain(t *testing.T) {
	t.Parallel()
	const read = "acme.triage has 5 records to read, from the copy then"
	at := func(open, held, waits int64) []inbox.SubscriptionStatus {
		return []inbox.SubscriptionStatus{
			{Team: "acme", Subscription: "triage", Topic: "events.acme.github", Partition: 1, OpenActions: open, HeldActions: held, Buffered: waits},
			{Team: "acme", Subscription: "fulfil", Topic: "events.acme.orders", OpenActions: 7, HeldActions: 7, Buffered: 7},
		}
	}
	for name, tt := range map[string]struct {
		status  []inbox.SubscriptionStatus
		waiting int64
		stops   []string
		leave   bool
		starts  map[int32]int64
		seeks   int64
		replays []int64
		skipped []string
		cut     int64
		want    planStep
	}{
		"nothing": {status: at(0, 0, 0), want: planStep{"drain", "done", "nothing is open; " + read}},
		"what waits goes along": {status: at(0, 0, 3), waiting: 3,
			want: planStep{"drain", "done", "nothing is open; " + read + ", and 3 events that wait, which go along"}},
		"open actions": {status: at(2, 1, 3), waiting: 3,
			want: planStep{"drain", "blocked", "acme.triage has in partition 1 2 actions to run and 1 failed or parked (while the stream runs it runs what it can; " +
				"--leave-open leaves the rest behind)"}},
		"left behind": {status: at(0, 1, 3), waiting: 3, leave: true,
			want: planStep{"drain", "done", "acme.triage has in partition 1 0 actions to run and 1 failed or parked: they stay behind and never run; " + read +
				", and 3 events that wait, which go along"}},
		"what nobody takes along": {status: at(0, 0, 3), waiting: 1,
			want: planStep{"drain", "blocked", "2 waiting events would stay behind. Either their subscription is not configured any more (--leave-open leaves them), " +
				"or the topic was created again (start the stream role first: it takes them over)"}},
		"left behind as well": {status: at(0, 0, 3), waiting: 1, leave: true,
			want: planStep{"drain", "done", "nothing is open; " + read + ", and 1 events that wait, which go along"}},
		"a stop": {status: at(0, 0, 0), stops: []string{"acme.triage is stopped in partition 1: cut"}, leave: true,
			want: planStep{"drain", "blocked", "acme.triage is stopped in partition 1: cut"}},
		"deleted unread": {status: at(0, 0, 0), starts: map[int32]int64{0: 0, 1: 4}, leave: true,
			want: planStep{"drain", "blocked", "2 records of partition 1 were deleted before acme.triage had read them: start the stream role, which stops there, and do what it says"}},
		"as read": {status: at(0, 0, 0), starts: map[int32]int64{0: 0, 1: 2}, want: planStep{"drain", "done", "nothing is open; " + read}},
		"deleted in a new partition": {status: at(0, 0, 0), starts: map[int32]int64{0: 1},
			want: planStep{"drain", "blocked", "1 records of partition 0 were deleted before acme.triage had read them (--leave-open goes on without them)"}},
		"left without": {status: at(0, 0, 0), starts: map[int32]int64{0: 1}, leave: true, want: planStep{"drain", "done", "nothing is open; " + read}},
		"cut": {status: at(0, 0, 0), cut: 3, leave: true,
			want: planStep{"drain", "blocked", "acme.triage stands at 2 in partition 1, above the log's end 1: start the stream role, which stops there, and do what it says"}},
		"a seek": {status: at(0, 0, 0), seeks: 1, leave: true,
			want: planStep{"drain", "blocked", "acme.triage has 1 seeks that are not carried out yet: start the stream role, which does so, or take them back"}},
		"a replay": {status: at(0, 0, 0), replays: []int64{7}, leave: true,
			want: planStep{"drain", "blocked", "replay 7 of acme.triage is under way: let it end, or cancel it"}},
		"passed over": {status: at(0, 0, 0), skipped: []string{"acme.triage has passed over 3"},
			want: planStep{"drain", "done", "nothing is open; " + read + "; acme.triage has passed over 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rekeying{skipped: tt.skipped, cmd: &topicsRekeyCmd{Topic: "events.acme.github", LeaveOpen: tt.leave}, starts: tt.starts, ends: map[int32]int64{0: 3, 1: 4 - tt.cut},
				readers: []ledger.Reader{{Subscription: "acme.triage", Next: map[int32]int64{1: 2}, Waiting: tt.waiting, Seeks: tt.seeks, Replays: tt.replays}}}
			if d := cmp.Diff(tt.want, r.drainStepOf(tt.status, tt.stops)); d != "" {
				t.Error(d)
			}
		})
	}
}

// What a move forward has left out is told of while the log has it: of this topic, not of one that had its name before.
func TestRekeyTellsWhatWasPassedOver(t *testing.T) {
	t.Parallel()
	r := &rekeying{from: ledger.Partition{TopicID: ledger.TopicID{1}}, starts: map[int32]int64{0: 5, 1: 0}}
	standings := []inbox.Standing{{TopicID: [16]byte{1}, Skipped: [][2]int64{{2, 4}, {4, 8}}}, {TopicID: [16]byte{1}, Partition: 1, Skipped: [][2]int64{{0, 2}}}}
	if got := r.passedOver("acme.triage", standings); !strings.HasPrefix(got, "acme.triage has passed over 5 offsets") {
		t.Errorf("%q", got)
	}
	r.from.TopicID = ledger.TopicID{2}
	if got := r.passedOver("acme.triage", standings); got != "" {
		t.Errorf("%q", got)
	}
}

// The topic of another source is no place for a copy, not even while it is empty: its own events come to it.
func TestRekeyToAnotherSourcesTopic(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	text := `version: 1
kafka: {brokers: ["127.0.0.1:1"]}
postgres: {url: "postgres://127.0.0.1:1/forebay"}
teams: {acme: {sources: {github: {preset: github, secrets: [s]}, stripe: {preset: github, secrets: [s], topic: events.acme.pay}}}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--run"}} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var out, errs bytes.Buffer
		args := append([]string{"topics", "rekey", "events.acme.github", "--partitions", "12", "--to", "events.acme.pay", "-c", file}, more...)
		code := Main(ctx, args, Options{Stdout: &out, Stderr: &errs})
		if code != exitConflict || !strings.Contains(errs.String(), "events.acme.pay is the topic of source acme/stripe; name another with --to") {
			t.Errorf("%q: exit code %d\n%s%s", more, code, out.String(), errs.String())
		}
	}
}

// Nothing tells own consumers of the switch but who runs it.
func TestRekeyTellsOfOwnConsumers(t *testing.T) {
	t.Parallel()
	r := &rekeying{cmd: &topicsRekeyCmd{Topic: "events.acme.github", To: "events.acme.github.12", Partitions: 12}, team: "acme", source: "github",
		cfg: &config.Config{Teams: map[string]*config.Team{"acme": {Sources: map[string]*config.Source{"github": {}}}}}}
	const want = "Own consumers of teams hear nothing of it: tell them to read the old topic to its end"
	if got := r.switchText(); !strings.Contains(got, want) || !strings.HasPrefix(got, "teams.acme.sources.github: {topic: events.acme.github.12, topics: {partitions: 12}}; ") {
		t.Error(got)
	}
}

// A source's own schema is in a subject that has the topic's name: the new one has none yet.
func TestRekeyTellsOfTheRegistry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		registry *config.Registry
		schema   config.SchemaCheck
		tells    bool
	}{
		"its own":                {&config.Registry{}, config.SchemaCheck{Check: "warn", Own: "{}"}, true},
		"no registry":            {nil, config.SchemaCheck{Check: "warn", Own: "{}"}, false},
		"nothing is held to it":  {&config.Registry{}, config.SchemaCheck{Check: "off", Own: "{}"}, false},
		"those of the catalogue": {&config.Registry{}, config.SchemaCheck{Check: "warn"}, false},
	} {
		r := &rekeying{cmd: &topicsRekeyCmd{Topic: "events.acme.orders", To: "events.acme.orders.12", Partitions: 12}, team: "acme", source: "orders",
			cfg: &config.Config{Registry: tt.registry, Teams: map[string]*config.Team{"acme": {Sources: map[string]*config.Source{"orders": {JSONSchema: tt.schema}}}}}}
		const push, then = "run `forebay schemas push` with that file before the intake starts, ", "; then start the processes. Until then, one that reads or writes events.acme.orders makes"
		if got := r.switchText(); strings.Contains(got, "{partitions: 12}}; "+push) != tt.tells || !strings.Contains(got, then) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
