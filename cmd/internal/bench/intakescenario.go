package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

const (
	// intakeBar is what the project asks beside a handler that only reads and produces.
	intakeBar        = 0.80
	intakePartitions = 12
	intakeEntities   = 8 // of a connection
)

// intakeSizes are the scenario's dimensions.
type intakeSizes struct {
	// warm is how many records are sent before the first figure is taken: a broker's JVM serves three times as much once it is warm.
	warm  int64
	conns []int // keep-alive connections; the first is the one that intake/bare names
}

var intakeScale = intakeSizes{warm: 100_000, conns: []int{64, 256}}

func (sizes intakeSizes) run(ctx context.Context, o Options, r *Report) error {
	stop, err := o.startKafka(ctx)
	if err != nil {
		return err
	}
	defer stop()
	settings := serveSettings{Brokers: o.Kafka, Topic: "events.bench.github", Secret: "a-secret-of-the-bench"}
	if err := createTopic(ctx, settings, intakePartitions); err != nil {
		return err
	}
	servers := map[string]*rig.Child{}
	for _, kind := range []string{serveBare, serveOurs} {
		s, err := startServer(ctx, kind, settings)
		if err != nil {
			return err
		}
		defer s.Stop()
		servers[kind] = s
	}
	r.Settings["intake.body"] = fmt.Sprintf("%d bytes, of %d entities a connection, signed, GitHub preset", deliveryBody, intakeEntities)
	r.Settings["intake.kafka"] = fmt.Sprintf("Apache Kafka, 1 broker, %d partitions, acks=all, lz4, no linger", intakePartitions)
	r.Settings["intake.http"] = "net/http with read, write and idle timeouts on both sides"
	if err := o.warm(ctx, servers, settings.Secret, sizes); err != nil {
		return err
	}
	for i, conns := range sizes.conns {
		name := "intake/bare"
		if i > 0 {
			name = fmt.Sprintf("intake/bare_%d", conns)
		}
		if err := o.intakeTurns(ctx, r, name, servers, settings.Secret, conns); err != nil {
			return err
		}
	}
	return nil
}

// warm sends the broker its first records, half through each server.
func (o Options) warm(ctx context.Context, servers map[string]*rig.Child, secret string, sizes intakeSizes) error {
	o.logf("warming the broker with %d records", sizes.warm)
	for _, s := range servers {
		for sent := int64(0); sent < sizes.warm/2; {
			n, _, err := intakeSenders(s.Addr, secret, sizes.conns[0]).runFor(ctx, min(time.Second, o.Round))
			if err != nil {
				return err
			}
			sent += n
		}
	}
	return nil
}

// intakeTurns measures both servers in turns on conns connections.
func (o Options) intakeTurns(ctx context.Context, r *Report, name string, servers map[string]*rig.Child, secret string, conns int) error {
	sideOf := func(kind string) *side {
		s := servers[kind]
		return &side{name: kind, run: func(ctx context.Context) (m measured, err error) {
			before := cpuOf(s.PID(), false)
			m.events, m.elapsed, err = intakeSenders(s.Addr, secret, conns).runFor(ctx, o.Round)
			m.own = cpuOf(s.PID(), false) - before
			return m, err
		}}
	}
	bare, ours := sideOf(serveBare), sideOf(serveOurs)
	if err := o.inTurns(ctx, turns{scenario: fmt.Sprintf("intake on %d connections,", conns)}, bare, ours); err != nil {
		return err
	}
	r.Ratios = append(r.Ratios, ratioOf(name, fmt.Sprintf("requests/s on %d connections", conns), intakeBar, ours.rates, bare.rates))
	for _, s := range []*side{ours, bare} {
		r.cost(fmt.Sprintf("intake/cpu_%s_%d", s.name, conns), "us", float64(s.own.Microseconds()), s.events)
	}
	return nil
}

// intakeSenders returns senders of signed deliveries to a server.
func intakeSenders(addr, secret string, conns int) *senders {
	begin := time.Now().Add(-30 * 24 * time.Hour)
	return &senders{addr: addr, conns: conns, mix: []share{{kind: 0, weight: 1, entities: intakeEntities}},
		newTemplate: func() *requestTemplate { return newRequestTemplate("bench", "github", secret, begin) }}
}

func startServer(ctx context.Context, kind string, settings serveSettings) (*rig.Child, error) {
	text, err := json.Marshal(settings) //nolint:gosec // G117: the secret is made up, and goes to our own child
	if err != nil {
		return nil, err
	}
	s, err := rig.StartChild(ctx, nil, serveCommand, kind, string(text))
	if err != nil {
		return nil, fmt.Errorf("start the %s server: %w", kind, err)
	}
	return s, nil
}

// createTopic makes the topic of some settings, and removes what there was of it.
func createTopic(ctx context.Context, s serveSettings, partitions int32) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.DeleteTopics(ctx, s.Topic); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err = adm.CreateTopic(ctx, partitions, 1, nil, s.Topic)
		if err == nil || waitUntil(ctx, time.Now().Add(100*time.Millisecond)) != nil { // a deletion takes a moment
			return err
		}
	}
}

// startKafka starts one broker through the script and puts its address into o, unless there is one.
func (o *Options) startKafka(ctx context.Context) (stop func(), err error) {
	if len(o.Kafka) > 0 {
		return func() {}, nil
	}
	o.logf("starting Apache Kafka; the first time it is fetched")
	k, err := rig.StartKafka(ctx, o.KafkaScript, o.data)
	if err != nil {
		return nil, fmt.Errorf("start Apache Kafka with %s (run it from the checkout, or name brokers with --kafka): %w", o.KafkaScript, err)
	}
	o.Kafka, o.kafkaPID = strings.Split(k.Bootstrap(), ","), k.PID(1)
	return func() { _ = k.Discard() }, nil
}
