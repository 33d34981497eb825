package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// ran runs a subscription until it has read to an offset, and stops it: its ledger and its mirror are then both there.
func ran(t *testing.T, r *rig, m *memory, to int64) {
	t.Helper()
	before := len(m.claims)
	run := r.start(r.config(m, newLanes()))
	m.until(t, "all read", func() bool { return len(m.claims) > before && m.next(0) == to })
	run.stop(t)
	m.check(t)
}

// ranThree is a ledger that has decided the three records of a log of one partition.
func ranThree(t *testing.T) (*rig, *memory) {
	t.Helper()
	r, m := newRig(t, 1), newMemory()
	r.Produce(0, 0, 1, 2)
	ran(t, r, m, 3)
	return r, m
}

func (m *memory) lastClaim() *given {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims[len(m.claims)-1]
}

func TestSeekByAnOperator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		to   int64
	}{{"back", 1}, {"forward", 5}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, m := ranThree(t)
			r.Produce(0, 3, 4, 5)
			r.Commit(0, tt.to, "")
			// Before the first batch after a seek, the group's commit is our mirror of it.
			var before atomic.Pointer[string]
			m.onApply = func(context.Context, []ledger.Slice) error {
				if before.Load() == nil {
					at, _ := r.Committed(0)
					before.Store(&at.Metadata)
				}
				return nil
			}
			ran(t, r, m, 6)
			c := m.lastClaim()
			if d := cmp.Diff(&ledger.Seek{From: 3, To: tt.to}, c.Seek); d != "" || c.Next.Offset != tt.to {
				t.Errorf("claimed at %d\n%s", c.Next.Offset, d)
			}
			if meta := before.Load(); meta == nil {
				t.Error("no batch")
			} else if *meta != r.marker(tt.to) {
				t.Errorf("the first batch ran over a commit with metadata %q", *meta)
			}
			// The seek is not found twice.
			ran(t, r, m, 6)
			if c := m.lastClaim(); c.Seek != nil || c.Next.Offset != 6 {
				t.Errorf("claimed again at %+v with seek %+v", c.Next, c.Seek)
			}
		})
	}
}

// Expired commits and deleted groups are no seek: the ledger knows where to go on.
func TestCommitGone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, r *rig){
		"group deleted": func(t *testing.T, r *rig) {
			if _, err := r.Adm.DeleteGroup(r.Ctx(), testGroup); err != nil {
				t.Fatal(err)
			}
		},
		"commit expired": func(t *testing.T, r *rig) {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = testGroup
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = testTopic
			rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: 0})
			req.Topics = append(req.Topics, rt)
			resp, err := req.RequestWith(r.Ctx(), r.Client)
			if err != nil || resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatalf("delete commit: %+v, %v", resp, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, m := ranThree(t)
			lose(t, r)
			if _, ok := r.Committed(0); ok {
				t.Fatal("the commit is still there")
			}
			r.Produce(0, 3)
			ran(t, r, m, 4)
			if c := m.lastClaim(); c.Next.Offset != 3 || c.Seek != nil || c.Unclean {
				t.Errorf("claimed at %+v with seek %+v", c.Next, c.Seek)
			}
			if at, ok := r.Committed(0); !ok || at.At != 4 {
				t.Error("the mirror did not come back")
			}
		})
	}
}

// An error is never read as "no commit": a seek would be lost by it.
func TestCommitErrorsAreRetried(t *testing.T) {
	t.Parallel()
	r, m := ranThree(t)
	r.Commit(0, 1, "")
	var fails atomic.Int32
	fails.Store(3)
	r.Cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		of := req.(*kmsg.OffsetFetchRequest)
		if !of.RequireStable || len(of.Groups) == 0 || len(of.Groups[0].Topics) > 0 || fails.Add(-1) < 0 {
			return nil, nil, false // the group client's own question, or ours after three failures
		}
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = testGroup
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID = testTopic, r.TopicID()
		gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		gp.Offset, gp.ErrorCode = -1, kerr.UnstableOffsetCommit.Code
		gt.Partitions = append(gt.Partitions, gp)
		g.Topics = append(g.Topics, gt)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	ran(t, r, m, 3)
	if fails.Load() >= 0 {
		t.Fatal("the commit was never asked for")
	}
	if c := m.lastClaim(); c.Seek == nil || c.Seek.To != 1 {
		t.Errorf("claimed at %+v with seek %+v", c.Next, c.Seek)
	}
}

// One partition that cannot go on is stopped and told; the others go on.
func TestStoppedPartition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, r *rig, m *memory)
		want  owner.StopReason
	}{
		{"records deleted unread", func(t *testing.T, r *rig, _ *memory) {
			r.Produce(0, 3, 4)
			if err := r.Cluster.DeleteRecords(testTopic, 0, 4); err != nil {
				t.Fatal(err)
			}
		}, owner.StopBelowStart},
		{"log shorter than read", func(t *testing.T, _ *rig, m *memory) { m.place(t, 0, 9) }, owner.StopAboveEnd},
		{"mirror ahead of the ledger", func(t *testing.T, _ *rig, m *memory) { m.restore(t, 2) }, owner.StopHistory},
		{"refused by the ledger", func(_ *testing.T, _ *rig, m *memory) {
			m.onClaim = func(req ledger.ClaimRequest) error {
				if req.Partition.Number == 0 {
					return schemas.Errorf(schemas.Conflict, "claim", "not this one")
				}
				return nil
			}
		}, owner.StopRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2)
			r.Produce(0, 0, 1, 2)
			m := newMemory()
			ran(t, r, m, 3)
			tt.spoil(t, r, m)
			r.Produce(1, 8)
			reg := prometheus.NewRegistry()
			cfg := r.config(m, newLanes())
			cfg.Registerer = reg
			run := r.start(cfg)
			m.until(t, "the other partition read", func() bool { return m.next(1) == 1 })
			parts := run.until(t, "partition 0 stopped, partition 1 running", func(parts []owner.PartitionState) bool {
				return len(parts) == 2 && parts[0].State == owner.Stopped && parts[1].State == owner.Running
			})
			e, ok := errors.AsType[*owner.StopError](parts[0].Err)
			if !ok || e.Reason != tt.want {
				t.Errorf("partition 0 is %+v, want a stop for %s", parts[0], tt.want)
			}
			run.untilReady(t)
			if n := counter(t, reg, "forebay_stream_stops_total"); n != 1 {
				t.Errorf("%v stops counted", n)
			}
		})
	}
}

// A log that was cut and has grown again has the offset, but not in the epoch in which it was read.
func TestTruncatedAndRegrown(t *testing.T) {
	t.Parallel()
	r, m := ranThree(t)
	stored, _ := m.db.Next(m.lastClaim().Partition)
	epoch := stored.LeaderEpoch
	if epoch < 0 {
		t.Fatal("the leader epoch was not stored")
	}
	r.Cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.Cluster.KeepControl()
		p := req.(*kmsg.OffsetForLeaderEpochRequest).Topics[0].Partitions[0]
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = testTopic
		rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, 2
		if p.LeaderEpoch != epoch {
			t.Errorf("asked for epoch %d, stored is %d", p.LeaderEpoch, epoch)
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	run := r.start(r.config(m, newLanes()))
	parts := run.untilStopped(t, 0)
	if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopTruncated {
		t.Errorf("got %v", parts[0].Err)
	}
}

// A log that loses unread records under a running claim stops it with a report, instead of jumping over the hole.
func TestDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2, 3)
	m, lanes := newMemory(), newLanes()
	hold := r.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: testTopic, Err: kerr.ReplicaNotAvailable, Count: -1})
	run := r.start(r.config(m, lanes))
	if err := hold.Wait(r.Ctx(), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.Cluster.DeleteRecords(testTopic, 0, 3); err != nil {
		t.Fatal(err)
	}
	hold.Remove()
	parts := run.untilStopped(t, 0)
	if e, ok := errors.AsType[*owner.StopError](parts[0].Err); !ok || e.Reason != owner.StopBelowStart {
		t.Errorf("got %v", parts[0].Err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lines) > 0 {
		t.Errorf("read on behind the hole: %q", m.lines)
	}
	if want := []string{"open 0", "close 0"}; !slices.Equal(lanes.calls, want) {
		t.Errorf("calls %q, want %q: the lanes are drained, not dropped", lanes.calls, want)
	}
}

// slowLedger is a memory whose first claims fail, and which notes how long each was given.
type slowLedger struct {
	*memory
	fails []error
	given []time.Duration
}

func (l *slowLedger) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	end, _ := ctx.Deadline()
	l.given = append(l.given, time.Until(end).Round(10*time.Second))
	if n := len(l.given); n <= len(l.fails) {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "claim", Err: l.fails[n-1]}
	}
	return l.memory.Claim(ctx, req)
}

// A claim for which the ledger had too little time is tried again with more; other errors change nothing, and the next claim has
// the usual time.
func TestClaimsThatTakeLongAreGivenMoreTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0)
	late := fmt.Errorf("timeout: %w", context.DeadlineExceeded)
	m := &slowLedger{memory: newMemory(), fails: []error{errors.New("away"), late, late, errors.New("away")}}
	run := r.start(r.config(m, newLanes()))
	m.until(t, "first read", func() bool { return m.next(0) == 1 })
	m.take(0, -1)
	r.Produce(0, 1)
	m.until(t, "all read", func() bool { return m.next(0) == 2 })
	run.stop(t)
	if d := cmp.Diff([]time.Duration{30 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 2 * time.Minute, 30 * time.Second}, m.given); d != "" {
		t.Error(d)
	}
}
