package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// seek asks a process to move the orders' subscription, waits for the owners, and returns the items by partition.
func (p *process) seek(to string, change ...func(*api.SeekRequest)) (map[int32]api.SeekAskedItem, error) {
	p.t.Helper()
	r := api.SeekRequest{To: to, Reason: "mapping mended", By: "ann@ops"}
	for _, c := range change {
		c(&r)
	}
	page, err := p.api.Seek(p.t.Context(), "acme", "fulfil", r)
	out := map[int32]api.SeekAskedItem{}
	if err == nil && !rig.Until(time.Minute, func() bool {
		open := false
		for _, i := range page.Items {
			if out[i.Partition] = i; i.ID == 0 {
				continue
			}
			known, err := p.api.Seeks(p.t.Context(), "acme", "fulfil")
			k := slices.IndexFunc(known.Items, func(k api.SeekAskedItem) bool { return k.ID == i.ID })
			if err != nil || k < 0 {
				p.t.Fatalf("asked for %d, listed are %+v %v", i.ID, known.Items, err)
			}
			i.State, i.From = known.Items[k].State, known.Items[k].From
			out[i.Partition], open = i, open || i.State == api.SeekWaiting
		}
		return !open
	}) {
		p.t.Fatalf("not moved in time: %+v", out)
	}
	return out, err
}

// standAt returns where a subscription stands in a partition of a log that ends at end.
func standAt(position, high, end int64) *partitionPosition {
	return &partitionPosition{partition: ledger.Partition{Topic: "events.acme.orders"}, end: end, written: end, ledger: &inbox.Standing{Fence: 1, Next: &position, High: &high}}
}

// TestSeekCounts: what was never decided is neither known as done nor decided when it is passed over, and nothing else is.
func TestSeekCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s                *partitionPosition
		begin            int64
		skipped          [][2]int64
		to               int64
		again, done, not int64
	}{
		"back over all that was decided":           {s: standAt(1010, 1010, 1010), to: 0, again: 1010, done: 1010},
		"back to before the begin":                 {s: standAt(1010, 1010, 1010), begin: 1000, to: 0, again: 1010, done: 10},
		"back to what was passed over":             {s: standAt(1010, 1010, 1010), skipped: [][2]int64{{1003, 1006}}, to: 1000, again: 10, done: 7},
		"back to the begin, which was passed over": {s: standAt(1010, 1010, 1010), begin: 1000, skipped: [][2]int64{{990, 1002}}, to: 0, again: 1010, done: 8},
		"forward to the end":                       {s: standAt(1010, 1010, 1500), to: 1500, not: 490},
		"forward over what was decided":            {s: standAt(0, 1010, 1010), to: 1010},
		"forward over what was decided, and more":  {s: standAt(0, 1010, 1500), to: 1500, not: 490},
		"forward over what was before the begin":   {s: standAt(0, 1010, 1010), begin: 1000, to: 1010, not: 1000},
		"forward over what was passed over":        {s: standAt(1000, 1010, 1010), skipped: [][2]int64{{1003, 1006}}, to: 1010, not: 3},
		"out of a log that was cut":                {s: standAt(1010, 1010, 900), to: 890, again: 10, done: 10},
	} {
		tt.s.ledger.Begin, tt.s.ledger.Skipped = &tt.begin, tt.skipped
		if i := tt.s.plan(nameInTeam{}, tt.to); *i.Again != tt.again || *i.KnownDone != tt.done || *i.Skipped != tt.not {
			t.Errorf("%s: again %d, known done %d, skipped %d; want %d, %d, %d", name, *i.Again, *i.KnownDone, *i.Skipped, tt.again, tt.done, tt.not)
		}
	}
}

// TestSeekCountsInTheLedger moves a paused subscription that began behind two records, and has decided three.
func TestSeekCountsInTheLedger(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "fulfil: {sources: [orders], begin: all", "fulfil: {sources: [orders], begin: now", 1)
	intake := r.run(config.RoleIntake)
	for rev := 1; rev <= 2; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	p := r.run(config.RoleStream)
	number := r.partitionOf(2)
	p.lag(number, func(i api.LagItem) bool { return i.Position != nil && *i.Position == 2 })
	for rev := 3; rev <= 5; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	p.lag(number, func(i api.LagItem) bool { return *i.Position == 5 })
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "to look", By: "ann@ops"}); err != nil {
		t.Fatal(err)
	}
	for rev := 6; rev <= 9; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	for _, step := range []struct {
		to               string
		again, done, not int64
	}{
		{"start", 5, 3, 0}, // of the begin's two nobody knows anything
		{"5", 0, 0, 2},     // which are passed over, and the three are done
		{"start", 5, 3, 0},
		{"7", 0, 0, 4},
		{"start", 7, 3, 0},
		{"end", 0, 0, 6},
	} {
		moved, err := p.seek(step.to, func(r *api.SeekRequest) { r.Partition = &number })
		if i := moved[number]; err != nil || i.State != api.SeekMoved || *i.Again != step.again || *i.KnownDone != step.done || *i.Skipped != step.not {
			t.Fatalf("to %s: %+v %v, counts %v", step.to, i, err, numbers(i.Again, i.KnownDone, i.Skipped))
		}
	}
}

// TestSeekIsRefused: each says what to do, and nothing is moved, of no partition.
func TestSeekIsRefused(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	began := time.Now().UTC().Truncate(time.Second)
	for rev := 1; rev <= 3; rev++ {
		p.accepted("orders", "orders-secret", order("o", rev))
	}
	agent.wait(t, 3)
	number := r.partitionOf(3)
	p.lag(number, func(i api.LagItem) bool { return i.Position != nil && *i.Position == 3 })
	if err := r.cluster.DeleteRecords("events.acme.orders", number, 2); err != nil {
		t.Fatal(err)
	}
	of := func(n int32) func(*api.SeekRequest) { return func(r *api.SeekRequest) { r.Partition = &n } }
	for _, tt := range []struct {
		to     string
		change func(*api.SeekRequest)
		kind   schemas.Kind
		says   string
	}{
		{"1", of(number), schemas.Conflict, "offset 1 is not in the log any more, which begins at 2 (`--to start`)"},
		{"4", of(number), schemas.Conflict, "offset 4 is beyond the end of the log, which is 3 (`--to end`)"},
		{began.Add(time.Hour).Format(time.RFC3339), of(number), schemas.Invalid, "is in the future"},
		{"3", func(*api.SeekRequest) {}, schemas.Invalid, "an offset is of one partition: say with --partition of which"},
		{"start", of(3), schemas.NotFound, "there is no partition 3: the topic has 3, from 0 on"},
		{"start", func(r *api.SeekRequest) { r.Topic = "events.acme.github" }, schemas.NotFound, "does not read topic events.acme.github, but events.acme.orders"},
		{"yesterday", of(number), schemas.Invalid, "is not start, end, an offset"},
		{"-5", of(number), schemas.Invalid, "is no offset; how long ago is said with a unit"},
		{"-5x", of(number), schemas.Invalid, "is not how long ago"},
		{"", of(number), schemas.Invalid, "where to"},
		{"start", func(r *api.SeekRequest) { r.Reason = "" }, schemas.Invalid, "reason"},
	} {
		items, err := p.seek(tt.to, tt.change)
		if schemas.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || len(items) > 0 {
			t.Errorf("to %q: %+v, %v, want it to say %q", tt.to, items, err, tt.says)
		}
	}
	p.lag(number, func(i api.LagItem) bool { return *i.Position == 3 })
	// What is older than the log is not there: a time before it leads to where it begins.
	planned, err := p.seek("-25h", func(r *api.SeekRequest) { r.DryRun, r.Partition = true, &number })
	if i := planned[number]; err != nil || i.State != api.SeekPlanned || i.To != 2 || *i.Again != 1 {
		t.Errorf("before the log: %+v %v", planned, err)
	}
	if all, err := p.api.Seeks(t.Context(), "acme", "fulfil"); err != nil || len(all.Items) != 0 {
		t.Errorf("%+v %v", all, err)
	}
}

// TestSeekOfAStoppedPartition: a seek ends a stop, as a move with Kafka's tools does.
func TestSeekOfAStoppedPartition(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	intake := r.run(config.RoleIntake)
	stream := r.run(config.RoleStream)
	intake.accepted("orders", "orders-secret", order("o", 1))
	agent.wait(t, 1)
	stream.clean()
	for rev := 2; rev <= 5; rev++ {
		intake.accepted("orders", "orders-secret", order("o", rev))
	}
	number := r.partitionOf(5)
	if err := r.cluster.DeleteRecords("events.acme.orders", number, 3); err != nil {
		t.Fatal(err)
	}
	owner := r.run(config.RoleStream)
	owner.stoppedPartitions(1)
	moved, err := owner.seek("4", func(r *api.SeekRequest) { r.Partition = &number })
	if i := moved[number]; err != nil || i.State != api.SeekMoved || *i.From != 1 || i.To != 4 {
		t.Fatalf("%+v %v", i, err)
	}
	// The versions of orders are dense: the last one waits for those that are gone, decided all the same.
	owner.lag(number, func(i api.LagItem) bool { return i.State == "running" && *i.Position == 5 && *i.Waiting == 1 })
	owner.stoppedPartitions(0)
}

// TestSeekInATopicThatWasCreatedAgain: the offsets of the former topic mean nothing in the new one.
func TestSeekInATopicThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("o", 1))
	agent.wait(t, 1)
	number := r.partitionOf(1)
	p.lag(number, func(i api.LagItem) bool { return i.Position != nil && *i.Position == 1 })
	p.clean()
	if _, err := kadm.NewClient(r.client()).DeleteTopic(t.Context(), "events.acme.orders"); err != nil {
		t.Fatal(err)
	}
	r.createTopics()
	stream := r.start(config.RoleStream)
	if !rig.Until(time.Minute, func() bool {
		_, err := stream.seek("start", func(r *api.SeekRequest) { r.Partition = &number })
		return schemas.KindOf(err) == schemas.Conflict && strings.Contains(err.Error(), "was deleted and created again")
	}) {
		_, err := stream.seek("start", func(r *api.SeekRequest) { r.Partition = &number })
		t.Errorf("%v", err)
	}
}
