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

func (s *seen) start(r *rig, cfg Config) *running {
	run := r.start(cfg)
	s.run.Store(run)
	return run
}

// listen notes what the brokers are asked.
func (s *seen) listen(r *rig) {
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.OffsetCommit, kmsg.LeaveGroup} {
		r.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			switch req := req.(type) {
			case *kmsg.HeartbeatRequest:
				s.inClaim("heartbeat")
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

// shown are the steps of the model that can be seen from outside.
var shown = map[string]string{
	"locks the fence": "lock", "heartbeat under the lock: a member": "heartbeat", "heartbeat under the lock: refused": "heartbeat",
	"reads the group's commit": "commit", "decides and commits its claim": "log", "its OffsetCommit arrives": "mirror",
	"opens its lanes and begins to read": "open", "applies a record": "apply", "has drained its lanes": "close",
	"releases its fence": "release", "leaves the group": "leave",
}

// follows says how many of the steps the model can take, in this order and with whatever cannot be seen in between.
func (s search) follows(steps []string) int {
	m := s.machine(asItIs)
	at := m.unseen([]world{initial(s.left, s.records())})
	for n, step := range steps {
		var next []world
		for _, w := range at {
			for _, mv := range m.moves(w) {
				if shown[mv.what] == step {
					next = append(next, mv.to)
				}
			}
		}
		if len(next) == 0 {
			return n
		}
		at = m.unseen(next)
	}
	return len(steps)
}

// unseen are all worlds that steps which cannot be seen lead to.
func (m *machine) unseen(from []world) []world {
	met := map[world]bool{}
	for todo := from; len(todo) > 0; {
		w := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; met[w] {
			continue
		}
		met[w] = true
		for _, mv := range m.moves(w) {
			if shown[mv.what] == "" {
				todo = append(todo, mv.to)
			}
		}
	}
	all := make([]world, 0, len(met))
	for w := range met {
		all = append(all, w)
	}
	return all
}

// The order of the model's steps is told again beside the code that takes them. Here the code takes them, over a broker,
// and the model must be able to follow; and what is done in another order it must not.
func TestOwnershipStepsAreTheOwners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		in   search
		do   func(t *testing.T, r *rig, s *seen, cfg func() Config)
		want string
	}{
		{"stopped, moved by an operator, started again", search{alone: true, left: budget{restarts: 2, resets: 1}},
			func(t *testing.T, r *rig, s *seen, cfg func() Config) {
				for n := range 2 {
					run := s.start(r, cfg())
					s.until(t, "all read", func() bool { return len(s.claims) == n+1 && s.next(0) == 3 })
					run.stop(t)
					r.commit(0, 1, "")
				}
			},
			"lock heartbeat commit log open apply apply apply close mirror release leave " +
				"lock heartbeat commit log mirror open apply apply close mirror release leave"},
		{"expelled while it joins", search{alone: true, left: budget{faults: 2, resets: 1, restarts: 1}},
			func(t *testing.T, r *rig, s *seen, cfg func() Config) {
				run := s.start(r, cfg())
				s.until(t, "all read", func() bool { return s.next(0) == 3 })
				r.joinsLate(t, func(member string) {
					r.expel(t, member)
					r.commit(0, 2, "")
				})
				s.until(t, "claimed and read again", func() bool { return len(s.claims) == 2 && s.next(0) == 3 })
				run.stop(t)
			},
			"lock heartbeat commit log open apply apply apply leave lock heartbeat commit log mirror open apply close mirror release leave"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			r.produce(0, 0, 1, 2)
			s := &seen{memory: newMemory()}
			s.listen(r)
			tt.do(t, r, s, func() Config {
				lanes := newLanes()
				lanes.onOpen = func() error { s.note("open"); return nil }
				lanes.onClose = func(context.Context) { s.note("close") }
				cfg := r.config(s, lanes)
				cfg.BatchRecords, cfg.MirrorInterval, cfg.HeartbeatInterval = 1, time.Hour, 2*time.Second
				return cfg
			})
			steps := s.all()
			if got := strings.Join(steps, " "); got != tt.want {
				t.Errorf("the owner does\n%s\nwant\n%s", got, tt.want)
			}
			if tt.in.left.faults > 0 { // the leave by which the test expels it is none of its own
				i := slices.Index(steps, "leave")
				steps = slices.Delete(steps, i, i+1)
			}
			if n := tt.in.follows(steps); n < len(steps) {
				t.Fatalf("the model follows %v, but not %q then", steps[:n], steps[n])
			}
			for i := 1; i < len(steps); i++ {
				if steps[i-1] == steps[i] || tt.in.left.faults > 0 { // faults that cannot be seen explain another order
					continue
				}
				other := slices.Clone(steps)
				other[i-1], other[i] = other[i], other[i-1]
				if tt.in.follows(other) == len(other) {
					t.Errorf("the model takes %q before %q too, at step %d", steps[i], steps[i-1], i)
				}
			}
		})
	}
}
