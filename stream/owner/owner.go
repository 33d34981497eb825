package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Owner is one subscription's member of its Kafka group. It outlives its Kafka clients, which are made again when a topic is
// created again.
type Owner struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	status  *status
	pulse   *pulse
	broker  *broker     // set by Run, before the pulse runs
	group   *kgo.Client // set by Run, before the pulse runs
	silent  int         // how often in a row the ledger did not answer; of beat
	left    atomic.Bool // a member has left, or may have: the next heartbeat is to look

	mu      sync.Mutex
	claimer *claimer // nil while none runs
}

// New makes an owner. Nothing is joined before [Owner.Run].
func New(cfg Config) (*Owner, error) {
	ms, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	o := &Owner{cfg: cfg, log: cfg.Logger, metrics: ms, status: newStatus(ms)}
	o.pulse = newPulse(cfg.SessionTimeout, cfg.HeartbeatInterval, o.beat)
	return o, nil
}

// beat sends the pulse's heartbeat. While a revoke is being drained, the client has already joined the next generation, but
// assigned is called only afterwards. So if the known generation is refused, beat tries the client's newest one.
//
// Where the group rebalances since a member was taken out, beat has the client join at once: that looks once per heartbeat interval.
func (o *Owner) beat(ctx context.Context, at session) error {
	if o.quits(ctx, at) {
		return kerr.UnknownMemberID
	}
	rebalances, err := o.broker.heartbeat(ctx, at)
	if o.left.Swap(false) && rebalances {
		o.group.ForceRebalance()
	}
	if !errors.Is(err, kerr.IllegalGeneration) {
		return err
	}
	id, generation := o.group.GroupMetadata()
	if id != at.member || generation <= at.generation {
		return err
	}
	at.generation = generation
	_, err = o.broker.heartbeat(ctx, at)
	return err
}

// Ready returns nil when the subscription's begin is stored, its group is joined, and the group has confirmed this member within the
// session timeout; otherwise an error that says what is missing. The client notices late, if at all, that brokers do not answer.
func (o *Owner) Ready() error {
	if err := o.status.ready(); err != nil {
		return err
	}
	if !o.pulse.Alive() {
		return fmt.Errorf("kafka group: not confirmed as a member: no heartbeat was accepted in the last %s, the session timeout", o.cfg.SessionTimeout)
	}
	return nil
}

// Partitions returns the assigned partitions with their states.
func (o *Owner) Partitions() []PartitionState { return o.status.partitions() }

// Alive reports whether nobody else can have been given what this member has: the group has confirmed it within the session timeout, and no
// other process can have taken it out of the group.
func (o *Owner) Alive() bool {
	s, ok := o.pulse.session()
	return ok && o.pulse.Alive() && o.cfg.Ledger.Present(s.member)
}

// Fenced is called by the lanes when they found c's fence lost. The owner drops the claim and claims again if the partition is
// still assigned. Fenced does not block, and may be called from within the Lanes.
func (o *Owner) Fenced(c *ledger.Claim) {
	o.mu.Lock()
	k := o.claimer
	o.mu.Unlock()
	if k != nil {
		k.lostFence(c)
	}
}

func (o *Owner) setClaimer(k *claimer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claimer = k
}

// Work is what claims run on.
type Work struct {
	Loop   *batch.Loop
	Lanes  Lanes
	Copier *reader.Copier // nil copies nothing
	// Cleaning is the context of all last steps: drain, mirror, release, leave. It ends when the drain timeout is over.
	Cleaning context.Context
	// Renew is called when a topic has another id than the Kafka clients hold on to. It has the clients made again.
	Renew func()
}

// Run joins the group and runs claims until ctx is done. Then it gives them up and leaves the group.
func (o *Owner) Run(ctx context.Context, topics Topics, w Work) error {
	// Mirror, pulse and polls outlive ctx: they are needed to drain. stop ends them.
	background, stop := context.WithCancel(context.Background())
	defer stop()
	mir := newMirror(o.cfg, o.metrics)
	k := &claimer{cfg: o.cfg, log: o.log, work: w, topics: topics, mirror: mir, broker: topics.broker, pulse: o.pulse,
		status: o.status, metrics: o.metrics, joins: ctx, parts: map[reader.TopicPartition]*assignment{}, running: map[*ledger.Claim]*runningClaim{}}
	callbacks := &gated{to: k, ready: make(chan struct{})}
	client, err := kgo.NewClient(append(groupOptions(o.cfg, callbacks), kgo.WithContext(w.Cleaning))...)
	if err != nil {
		return err
	}
	mir.cl, o.group, o.broker = client, client, topics.broker
	m := &member{cl: client, log: o.log}

	var running sync.WaitGroup
	running.Go(func() { mir.run(background) })
	running.Go(func() { o.pulse.run(background) })
	running.Go(func() { m.pollErrors(background, o.groupFailed) })
	running.Go(func() { o.removeAbsent(background) })
	o.setClaimer(k)
	callbacks.open()

	<-ctx.Done()
	o.log.Info("stopping", "reason", context.Cause(ctx))
	o.status.setStarting(errors.New("stopping"))
	k.close()
	s, joined := o.pulse.session()
	if m.leave(w.Cleaning) && joined && s.instance == nil {
		o.exit(w.Cleaning, s.member)
	}
	o.pulse.lost()
	o.status.leave()
	o.setClaimer(nil)
	stop()
	running.Wait()
	return nil
}

// groupFailed shows and logs an error of kgo about the group. kgo tries again by itself.
func (o *Owner) groupFailed(err error) {
	if errors.Is(err, kerr.FencedInstanceID) {
		err = fmt.Errorf("another process has joined with this one's instance id %s: give each its own kafka.instance_id and restart them: %w",
			o.cfg.InstanceID, err)
	}
	err = record.Lacks(o.group, "Read", "group "+o.cfg.Group, err)
	o.status.setGroupError(err)
	o.log.Warn("group", "error", err)
}
