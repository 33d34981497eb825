package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Owner is one subscription's member of its Kafka group, over all the clients that it has one after the other.
type Owner struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	status  *status
	pulse   *pulse
	broker  *broker     // set by Run, before the pulse runs
	group   *kgo.Client // as well

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

// beat is the pulse's heartbeat. The group may have gone on to a generation that this member has joined, while what the rebalance
// takes from it is still being drained: assigned tells of it only afterwards. Then the newest generation counts.
func (o *Owner) beat(ctx context.Context, at session) error {
	err := o.broker.heartbeat(ctx, at)
	if !errors.Is(err, kerr.IllegalGeneration) {
		return err
	}
	id, generation := o.group.GroupMetadata()
	if id != at.member || generation <= at.generation {
		return err
	}
	at.generation = generation
	return o.broker.heartbeat(ctx, at)
}

// Ready is nil when the subscription's begin is stored and its group is joined. Otherwise it says what is missing.
func (o *Owner) Ready() error { return o.status.ready() }

// Partitions are the assigned partitions and how they are.
func (o *Owner) Partitions() []PartitionState { return o.status.partitions() }

// Alive reports whether the group has confirmed this member within the session timeout.
func (o *Owner) Alive() bool { return o.pulse.Alive() }

// Fenced tells that c's fence was found lost, by lanes that recorded a result. The claim is dropped and made again if the
// partition is still assigned. It does not wait, and may be called from within the Lanes.
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
	// Cleaning is what every last step lives by, whatever it is made for: it ends when stopping has taken its time.
	Cleaning context.Context
	// Renew is called where a topic has another id than the clients know: they are made again.
	Renew func()
}

// Run belongs to the group from joining it to leaving it, which it does once ctx is done and everything is given up.
func (o *Owner) Run(ctx context.Context, topics Topics, w Work) error {
	// The parts outlive ctx: they are needed to drain. stop ends them.
	parts, stop := context.WithCancel(context.Background())
	defer stop()
	mir := newMirror(o.cfg, o.metrics)
	k := &claimer{cfg: o.cfg, log: o.log, work: w, topics: topics, mirror: mir, broker: topics.broker, pulse: o.pulse,
		status: o.status, metrics: o.metrics, parts: map[reader.TopicPartition]*assignment{}, running: map[*ledger.Claim]*held{}}
	callbacks := &gated{to: k, ready: make(chan struct{})}
	client, err := kgo.NewClient(append(groupOptions(o.cfg, callbacks), kgo.WithContext(w.Cleaning))...)
	if err != nil {
		return err
	}
	mir.cl, o.group, o.broker = client, client, topics.broker
	in := &member{cl: client, log: o.log}

	var running sync.WaitGroup
	running.Go(func() { mir.run(parts) })
	running.Go(func() { o.pulse.run(parts) })
	running.Go(func() { in.drain(parts, o.noted) })
	o.setClaimer(k)
	callbacks.open()

	<-ctx.Done()
	o.log.Info("stopping", "reason", context.Cause(ctx))
	o.status.start(errors.New("stopping"))
	k.close()
	in.leave(w.Cleaning)
	o.pulse.lost()
	o.status.leave()
	o.setClaimer(nil)
	stop()
	running.Wait()
	return nil
}

// noted takes kgo's notes about the group, which it retries by itself.
func (o *Owner) noted(err error) {
	if errors.Is(err, kerr.FencedInstanceID) {
		err = fmt.Errorf("another process has joined with this one's instance id %s: give each its own kafka.instance_id and restart them: %w",
			o.cfg.InstanceID, err)
	}
	o.status.note(err)
	o.log.Warn("group", "error", err)
}
