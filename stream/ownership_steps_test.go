package stream

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
)

// seen is what the real owner does, as brokers, ledger and lanes see it, in order.
type seen struct {
	*memory
	run      atomic.Pointer[running]
	mu       sync.Mutex
	steps    []string
	claiming bool
}

func (s *seen) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

// inClaim is note for requests that others send too, at other times.
func (s *seen) inClaim(step string) {
	s.mu.Lock()
	claiming := s.claiming
	s.mu.Unlock()
	if claiming {
		s.note(step)
	}
}

// beat notes the heartbeat of a claim, which comes right behind its lock. A claim that takes long on a busy machine sees the session's, too.
func (s *seen) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claiming && s.steps[len(s.steps)-1] == "lock" {
		s.steps = append(s.steps, "heartbeat")
	}
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

func (s *seen) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	confirm := req.Confirm
	req.Confirm = func(ctx context.Context, stored *ledger.Position) (ledger.Start, error) {
		s.note("lock")
		s.alive(ctx) // the pulse of the session has been asked for: the heartbeat that comes is the claim's
		s.now(true)
		defer s.now(false)
		return confirm(ctx, stored)
	}
	return s.memory.Claim(ctx, req)
}

func (s *seen) alive(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if run := s.run.Load(); run != nil && run.Alive() {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *seen) now(claiming bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claiming = claiming
}

func (s *seen) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	s.note("apply")
	return s.memory.Apply(ctx, batch)
}

func (s *seen) Release(ctx context.Context, c *ledger.Claim) error {
	s.note("release")
	return s.memory.Release(ctx, c)
}

func (s *seen) start(r *rig, cfg setup) *running {
	run := r.start(cfg)
	s.run.Store(run)
	return run
}

// atStart is the timestamp of a question for a log's start.
const atStart = -2

// listen notes what the brokers are asked.
func (s *seen) listen(r *rig) {
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.OffsetCommit, kmsg.LeaveGroup} {
		r.Cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.Cluster.KeepControl()
			switch req := req.(type) {
			case *kmsg.HeartbeatRequest:
				s.beat()
			case *kmsg.OffsetFetchRequest:
				if len(req.Topics) == 0 && (len(req.Groups) == 0 || len(req.Groups[0].Topics) == 0) { // the group client asks for its own
					s.inClaim("commit")
				}
			case *kmsg.ListOffsetsRequest:
				if req.Topics[0].Partitions[0].Timestamp == atStart { // the group client asks for the end
					s.inClaim("log")
				}
			case *kmsg.OffsetCommitRequest:
				if req.Generation >= 0 { // not the operator's
					s.note("mirror")
				}
			case *kmsg.LeaveGroupRequest:
				s.note("leave")
			}
			return nil, nil, false
		})
	}
}

// What the owner does over a broker, in order. Package owner has a model of it that must be able to follow.
func TestOwnershipStepsAreTheOwners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, r *rig, s *seen, cfg func() setup)
		want string
	}{
		{"stopped, moved by an operator, started again",
			func(t *testing.T, r *rig, s *seen, cfg func() setup) {
				for n := range 2 {
					run := s.start(r, cfg())
					s.until(t, "all read", func() bool { return len(s.claims) == n+1 && s.next(0) == 3 })
					run.stop(t)
					r.Commit(0, 1, "")
				}
			},
			streamtest.StepsOverASeek},
		{"expelled while it joins",
			func(t *testing.T, r *rig, s *seen, cfg func() setup) {
				run := s.start(r, cfg())
				s.until(t, "all read", func() bool { return s.next(0) == 3 })
				r.joinsLate(t, func(member string) {
					r.expel(t, member)
					r.Commit(0, 2, "")
				})
				s.until(t, "claimed and read again", func() bool { return len(s.claims) == 2 && s.next(0) == 3 })
				run.stop(t)
			},
			streamtest.StepsOfTheExpelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			r.Produce(0, 0, 1, 2)
			s := &seen{memory: newMemory()}
			s.listen(r)
			tt.do(t, r, s, func() setup {
				lanes := newLanes()
				lanes.onOpen = func() error { s.note("open"); return nil }
				lanes.onClose = func(context.Context) { s.note("close") }
				cfg := r.config(s, lanes)
				cfg.BatchRecords, cfg.MirrorInterval, cfg.HeartbeatInterval = 1, time.Hour, 2*time.Second
				return cfg
			})
			if got := strings.Join(s.all(), " "); got != tt.want {
				t.Errorf("the owner does\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
