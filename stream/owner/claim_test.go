package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// The heartbeat under the fence's lock is what a late claim does not pass: here the group has moved on while the claim
// waited for the lock.
func TestLateClaimNeverTakesTheFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	b := newBroker(r.NewClient(), testGroup)
	m := r.ledger()
	o := &claimer{cfg: r.config(m), broker: b, pulse: newPulse(time.Minute, time.Second, nil)}
	joined := make(chan session, 8)
	first := r.NewClient(groupOptions(o.cfg, assignedOnly{joined})...)
	s := <-joined
	o.pulse.joined(s)
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &assignment{at: reader.TopicPartition{Topic: testTopic}, ctx: ctx}
	if _, err := o.claimOnce(a); err != nil {
		t.Fatalf("the member itself: %v", err)
	}

	// A second member makes a new generation. Ours knows only its old one until its callback has run.
	second := make(chan session, 8)
	r.NewClient(groupOptions(o.cfg, assignedOnly{second})...)
	<-second
	if _, err := o.claimOnce(a); !errors.Is(err, errNotMember) {
		t.Fatalf("generation %d claimed in the next one: %v", s.generation, err)
	}
	// A member that has left is refused, too.
	if err := first.LeaveGroupContext(r.Ctx()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.claimOnce(a); !errors.Is(err, errNotMember) {
		t.Fatalf("claimed after leaving: %v", err)
	}
	cancel(errRevoked)
	if _, err := o.claimOnce(a); err == nil {
		t.Fatal("claimed after the revoke")
	}
	o.pulse.lost()
	a.ctx = t.Context()
	if _, err := o.claimOnce(a); !errors.Is(err, errNotMember) {
		t.Fatalf("claimed without a session: %v", err)
	}
	if m.claims != 1 {
		t.Errorf("%d claims went through", m.claims)
	}
}

// TestSeekToWhatIsDeletedMeanwhile: a seek that is asked for and leads out of the log stops the partition, as one by a tool does. Another one
// leads away from there.
func TestSeekToWhatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	b := newBroker(r.NewClient(), testGroup)
	m := r.ledger()
	ms, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.config(m)
	o := &claimer{cfg: cfg, log: cfg.Logger, broker: b, pulse: newPulse(time.Minute, time.Second, nil), metrics: ms, status: newStatus(ms)}
	joined := make(chan session, 8)
	r.NewClient(groupOptions(o.cfg, assignedOnly{joined})...)
	o.pulse.joined(<-joined)
	a := &assignment{at: reader.TopicPartition{Topic: testTopic}, ctx: t.Context()}
	c, err := o.claimOnce(a)
	if err != nil {
		t.Fatal(err)
	}
	r.Produce(0, 0, 1, 2)
	if err := r.Cluster.DeleteRecords(testTopic, 0, 2); err != nil {
		t.Fatal(err)
	}
	seek := func(to int64) {
		t.Helper()
		if _, err := m.memory.AskSeek(c.ID, c.Partition.TopicID, to, "ann", "mapping mended"); err != nil {
			t.Fatal(err)
		}
	}
	seek(1)
	_, err = o.claim(a, &retry.Backoff{})
	e, ok := errors.AsType[*StopError](err)
	if !ok || e.Reason != StopBelowStart || e.Stop.From != 1 || e.Stop.To != 2 {
		t.Fatalf("claimed, or stopped for another reason: %v", err)
	}
	o.showStopped(a, e)
	if outcome, _ := m.memory.SeekOutcome(c.ID); outcome != "" || len(m.memory.Stops(ledger.StopFilter{})) != 1 {
		t.Errorf("to 1: %q, %+v", outcome, m.memory.Stops(ledger.StopFilter{}))
	}
	seek(3)
	got, err := o.claim(a, &retry.Backoff{})
	if err != nil || got.Next.Offset != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if outcome, from := m.memory.SeekOutcome(c.ID); outcome != "moved" || from != 0 {
		t.Errorf("to 3: %q from %d", outcome, from)
	}
	if stops := m.memory.Stops(ledger.StopFilter{}); len(stops) != 0 {
		t.Errorf("stopped still: %+v", stops)
	}
}

// assignedOnly tells of sessions, and gives up what it must at once.
type assignedOnly struct{ sessions chan<- session }

func (a assignedOnly) assigned(s session, _ []reader.TopicPartition) { a.sessions <- s }

func (assignedOnly) revoked([]reader.TopicPartition) {}

func (assignedOnly) lost([]reader.TopicPartition) {}

// The group client fetches nothing, ever, however much there is to fetch.
func TestGroupClientFetchesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 1, 2, 3)
	r.Commit(0, 0, "")
	fetched := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	joined := make(chan session, 8)
	cl := r.NewClient(groupOptions(r.config(r.ledger()), assignedOnly{joined})...)
	<-joined
	ctx, cancel := context.WithTimeout(r.Ctx(), 300*time.Millisecond) // a client that fetches does so as soon as it has joined
	defer cancel()
	if fs := cl.PollFetches(ctx); fs.NumRecords() > 0 {
		t.Errorf("polled %d records", fs.NumRecords())
	}
	if n := fetched.Hits(); n > 0 {
		t.Errorf("%d fetch requests", n)
	}
}

// The heartbeat under the fence's lock carries the instance id: a claim of the older of two processes with one id is
// refused, although it was assigned in the generation that still runs.
func TestClaimOfAFencedInstanceIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	b := newBroker(r.NewClient(), testGroup)
	m := r.ledger()
	cfg := r.config(m)
	cfg.InstanceID = "stream-0"
	claim := func(s session) error {
		o := &claimer{cfg: cfg, broker: b, pulse: newPulse(time.Minute, time.Second, nil)}
		o.pulse.joined(s)
		_, err := o.claimOnce(&assignment{at: reader.TopicPartition{Topic: testTopic}, ctx: t.Context()})
		return err
	}
	sessions := make(chan session, 16)
	r.NewClient(groupOptions(cfg, assignedOnly{sessions})...)
	older := <-sessions
	if err := claim(older); err != nil {
		t.Fatal(err)
	}
	r.NewClient(groupOptions(cfg, assignedOnly{sessions})...)
	newer := <-sessions
	if older.generation != newer.generation || older.member == newer.member || newer.instance == nil {
		t.Fatalf("%+v, then %+v", older, newer)
	}
	if err := claim(older); !errors.Is(err, errNotMember) || !errors.Is(err, kerr.FencedInstanceID) {
		t.Errorf("the older's claim: %v", err)
	}
	if err := claim(newer); err != nil {
		t.Errorf("the newer's claim: %v", err)
	}
	if m.claims != 2 {
		t.Errorf("%d claims went through", m.claims)
	}
}
