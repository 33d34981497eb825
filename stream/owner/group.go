package owner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/reader"
)

// member holds the subscription's place in its Kafka group, and nothing else: its client fetches no records, commits
// only what [mirror] tells it to, and its own idea of positions is never asked.
//
// That is sound with kgo (v1.22.2): a group is joined from metadata updates, not from polls; offsets are loaded and
// fetching begins only after the assigned callback has returned, and that callback pauses all topics; assigned is
// called for every new session, even with nothing new, after the revoke of what the session before had more; and
// sessions follow one another, so that inside a callback GroupMetadata is the session's own.
type member struct {
	cl  *kgo.Client
	log *slog.Logger
}

// assignee is told what the group gives and takes. Calls never overlap.
type assignee interface {
	// assigned is called at the beginning of every session, with what is new.
	assigned(s session, parts []reader.TopicPartition)
	// revoked returns when parts are given up; the group waits for it.
	revoked(parts []reader.TopicPartition)
	// lost: the group has given parts away already.
	lost(parts []reader.TopicPartition)
}

// gated holds callbacks back until their receiver is complete: kgo joins as soon as its client exists, and the receiver
// needs the client.
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

func groupOptions(cfg Config, to assignee) []kgo.Opt {
	opts := append(append([]kgo.Opt{}, cfg.Client...),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.MetadataMaxAge(30*time.Second), // by then new partitions are somebody's, who says that they are not read
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(cfg.HeartbeatInterval),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), // never read from; without it a missing commit is an error to nobody
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

func flatten(m map[string][]int32) []reader.TopicPartition {
	var parts []reader.TopicPartition
	for t, numbers := range m {
		for _, n := range numbers {
			parts = append(parts, reader.TopicPartition{Topic: t, Number: n})
		}
	}
	return parts
}

// drain takes kgo's notes about the group out of its poll queue and gives them to note, until ctx is done.
func (m *member) drain(ctx context.Context, note func(error)) {
	for ctx.Err() == nil {
		for _, e := range m.cl.PollFetches(ctx).Errors() {
			if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, kgo.ErrClientClosed) {
				return
			}
			note(e.Err)
		}
	}
}

// leave gives the membership back. Static members keep theirs until the session times out.
func (m *member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if err := m.cl.LeaveGroupContext(ctx); err != nil {
		m.log.Warn("group not left; its partitions wait for the session timeout", "error", err)
	}
	m.cl.Close()
}
