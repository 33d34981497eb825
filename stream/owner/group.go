package owner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/reader"
)

// member is the subscription's membership in its Kafka group, and nothing else: its client fetches no records, commits only what
// [mirror] commits, and nobody asks it for positions.
//
// This relies on kgo (v1.22.2) in four points. It joins a group when its metadata is updated, not when it is polled. It loads
// offsets and fetches only after the assigned callback has returned, and that callback pauses all topics. It calls assigned for
// every new session, even if no partition is new, and after the revoke of partitions that the session has lost. Sessions do not
// overlap, so inside a callback GroupMetadata is that of its session.
type member struct {
	cl  *kgo.Client
	log *slog.Logger
}

// assignee gets the callbacks about assigned partitions. Calls never overlap.
type assignee interface {
	// assigned is called at the beginning of every session, with the partitions that are new in it.
	assigned(s session, parts []reader.TopicPartition)
	// revoked returns when parts are given up; the group waits for that.
	revoked(parts []reader.TopicPartition)
	// lost is called when the group has given parts away already.
	lost(parts []reader.TopicPartition)
}

// gated is an assignee that passes calls on, once open is called, and blocks them before: kgo may join as soon as its client exists, and
// the receiver of the calls needs the client first.
type gated struct {
	to    assignee
	ready chan struct{} // closed by open
}

func (g *gated) open() { close(g.ready) }

func (g *gated) assigned(s session, parts []reader.TopicPartition) {
	<-g.ready
	g.to.assigned(s, parts)
}
func (g *gated) revoked(parts []reader.TopicPartition) { <-g.ready; g.to.revoked(parts) }
func (g *gated) lost(parts []reader.TopicPartition)    { <-g.ready; g.to.lost(parts) }

// groupOptions returns the options of the client that is the member of the group and reads no records. to gets its callbacks.
func groupOptions(cfg Config, to assignee) []kgo.Opt {
	opts := append(append([]kgo.Opt{}, cfg.Client...),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.MetadataMaxAge(30*time.Second), // by then new partitions are assigned, and their owners report that they are not read
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(cfg.HeartbeatInterval),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), // never read from: this client fetches nothing
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, m map[string][]int32) {
			cl.PauseFetchTopics(cfg.Topics...)
			id, generation := cl.GroupMetadata()
			s := session{member: id, generation: generation}
			if cfg.InstanceID != "" {
				s.instance = &cfg.InstanceID
			}
			to.assigned(s, flatten(m))
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { to.revoked(flatten(m)) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { to.lost(flatten(m)) }),
	)
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	return opts
}

// flatten returns the partitions of a map of numbers by topic.
func flatten(m map[string][]int32) []reader.TopicPartition {
	var parts []reader.TopicPartition
	for t, numbers := range m {
		for _, n := range numbers {
			parts = append(parts, reader.TopicPartition{Topic: t, Number: n})
		}
	}
	return parts
}

// pollErrors calls report with kgo's errors about the group, which a poll returns, until ctx is done.
func (m *member) pollErrors(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		for _, e := range m.cl.PollFetches(ctx).Errors() {
			if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, kgo.ErrClientClosed) {
				return
			}
			report(e.Err)
		}
	}
}

// leave leaves the group and closes the client. A static member stays in the group until its session times out.
func (m *member) leave(ctx context.Context) (left bool) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	err := m.cl.LeaveGroupContext(ctx)
	if err != nil {
		m.log.Warn("group not left; its partitions wait until another process takes this member out, or for the session timeout", "error", err)
	}
	m.cl.Close()
	return err == nil
}
