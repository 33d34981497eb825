package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// claimTimeout bounds one try, during which the fence row is locked. A try that ran out of time is followed by one with twice the time, up
// to 16 minutes: when a topic was created again, the ledger clears what it remembers of the old log of a partition in one transaction,
// which takes ten seconds for about a million version lines. What is asked of the brokers meanwhile keeps the 30 seconds.
const claimTimeout = 30 * time.Second

// claimed is a claim and what its run has to know.
type claimed struct {
	*ledger.Claim
	member     string // whose heartbeat confirmed it
	partitions int32  // of the topic
	// grown is set if the topic has more partitions than the ledger recorded: no records are read, but open actions run, since
	// `topics rekey` waits until none are open.
	grown       *StopError
	mirrorFirst bool                // the group's commit must be overwritten before the first batch
	accepted    *ledger.Stop        // the accepted stop that the claim used; nil: none
	seekRequest *ledger.SeekRequest // the seek request that the claim has carried out; nil: none
}

// claim tries until the partition is claimed. The error is a [StopError] if the partition must be stopped, or why the assignment ended.
func (o *claimer) claim(a *assignment, wait *retry.Backoff) (claimed, error) {
	for {
		if a.stop == nil {
			o.status.set(a.at, Claiming, a.failed)
		}
		c, err := o.claimOnce(a)
		if err == nil {
			o.metrics.claims.WithLabelValues("ok").Inc()
			o.log.Info("partition claimed", "topic", a.at.Topic, "partition", a.at.Number, "epoch", c.Epoch,
				"offset", c.Next.Offset, "unclean", c.Unclean, "reads", c.grown == nil)
			if s := c.accepted; s != nil {
				o.log.Warn("partition goes on as accepted", "topic", a.at.Topic, "partition", a.at.Number, "stop", s.ID, "kind", s.Kind,
					"by", s.Accepted.By, "reason", s.Accepted.Reason)
			}
			a.stop, a.slow = nil, 0
			return c, nil
		}
		if a.ctx.Err() != nil {
			return claimed{}, context.Cause(a.ctx)
		}
		if e, ok := asStop(o.cfg.Group, ledger.Partition{Topic: a.at.Topic, Number: a.at.Number}, err); ok {
			o.metrics.claims.WithLabelValues("stopped").Inc()
			return claimed{}, e
		}
		if errors.Is(err, context.DeadlineExceeded) {
			a.slow++
		}
		result := "error"
		if errors.Is(err, errNotMember) {
			result = "refused"
		}
		o.metrics.claims.WithLabelValues(result).Inc()
		o.showFailed(a, err)
		o.log.Warn("partition not claimed; trying again", "topic", a.at.Topic, "partition", a.at.Number, "error", err)
		wait.Sleep(a.ctx)
	}
}

// claimOnce makes one attempt to claim a partition. If the topic has grown, a partition that it had before is claimed all the same, with
// the number of partitions that the ledger has recorded, and grown is set.
func (o *claimer) claimOnce(a *assignment) (claimed, error) {
	ctx, cancel := context.WithTimeout(a.ctx, claimTimeout<<min(a.slow, 5))
	defer cancel()
	t, err := o.broker.Topic(ctx, a.at.Topic)
	if err != nil {
		return claimed{}, err
	}
	got, err := o.claimOf(ctx, a, t, t.Partitions)
	e, ok := errors.AsType[*ledger.TopicError](err)
	hasGrown := ok && !e.Recreated() && e.Partitions >= e.KnownPartitions
	if !hasGrown || a.at.Number >= e.KnownPartitions {
		return got, err
	}
	grown, _ := asStop(o.cfg.Group, ledger.Partition{Topic: a.at.Topic, Number: a.at.Number}, err)
	if got, err = o.claimOf(ctx, a, t, e.KnownPartitions); err == nil {
		got.grown = grown
	}
	return got, err
}

// claimOf claims a partition of topic t. recorded is the number of partitions that the ledger has recorded for it.
func (o *claimer) claimOf(ctx context.Context, a *assignment, t reader.Topic, recorded int32) (got claimed, err error) {
	p := ledger.Partition{Topic: a.at.Topic, TopicID: t.ID, Number: a.at.Number}
	got.partitions = t.Partitions
	var standing ledger.Standing
	got.Claim, err = o.cfg.Ledger.Claim(ctx, ledger.ClaimRequest{
		Partition:  p,
		Partitions: recorded,
		Standing: func(s ledger.Standing) {
			standing = s
			if s.Stop == nil && a.stop != nil && a.stop.Stop.ID == 0 {
				standing.Stop = a.stop.Stop // a stop counts before it is stored
			}
		},
		Confirm: func(ctx context.Context, stored *ledger.Position) (st ledger.Start, err error) {
			ctx, cancel := context.WithTimeout(ctx, claimTimeout)
			defer cancel()
			s, ok := o.pulse.session()
			if !ok {
				return st, errNotMember
			}
			got.member = s.member
			st, got.mirrorFirst, err = o.confirm(ctx, a, s, facts{namespace: o.cfg.Group, generation: o.cfg.Generation, partition: p,
				stored: stored, standing: standing, begin: o.topics.begin[p]})
			got.accepted, got.seekRequest = nil, standing.SeekRequest // not of an earlier try of the transaction
			if st.Accepted != 0 {
				got.accepted = standing.Stop
			}
			return st, err
		},
	})
	return got, err
}

// confirm decides where the claim starts, and whether that must be mirrored first. It runs while the fence row is locked. It sends the
// heartbeat of s, the last session for which assigned was called, not of the client's newest one, which would be confirmed even between a
// rebalance and its revoke. So only the member to which the group assigns the partition passes, and one that passed earlier no longer
// holds the lock.
func (o *claimer) confirm(ctx context.Context, a *assignment, s session, f facts) (ledger.Start, bool, error) {
	if _, err := o.broker.heartbeat(ctx, s); err != nil {
		return ledger.Start{}, false, err
	}
	if err := o.broker.ask(ctx, &f); err != nil {
		return ledger.Start{}, false, err
	}
	if err := o.broker.refuseStaleCopy(ctx, f); err != nil {
		return ledger.Start{}, false, err
	}
	if a.ctx.Err() != nil { // revoked meanwhile: s may be the session after it
		return ledger.Start{}, false, fmt.Errorf("%w: %w", errNotMember, context.Cause(a.ctx))
	}
	return decideStart(f)
}

// ask fills in the facts that the brokers know.
func (b *broker) ask(ctx context.Context, f *facts) (err error) {
	at := reader.At(f.partition)
	if f.commit, err = b.commit(ctx, at); err != nil {
		return err
	}
	if f.start, err = b.Start(ctx, at); err != nil {
		return err
	}
	if f.end, err = b.End(ctx, at); err != nil {
		return err
	}
	if f.stored != nil && f.stored.LeaderEpoch >= 0 {
		if f.epochEnd, err = b.epochEnd(ctx, at, f.stored.LeaderEpoch); err != nil {
			return err
		}
	}
	if to, back := f.rewound(); back && to < f.end && !f.standing.Remembers.IsZero() {
		f.seekAppendedAt, err = b.AppendTime(ctx, f.partition, to)
	}
	return err
}
