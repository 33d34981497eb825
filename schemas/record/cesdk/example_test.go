package cesdk_test

import (
	"context"
	"fmt"
	"io"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/client"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record/cesdk"
)

// topic is what the SDK's client needs of a protocol, over a client of franz-go.
type topic struct{ kafka *kgo.Client }

// Send produces one event and waits for the acknowledgement.
func (t topic) Send(ctx context.Context, m binding.Message, transformers ...binding.Transformer) error {
	r := &kgo.Record{}
	err := cesdk.WriteRecord(ctx, m, r, transformers...)
	if err == nil {
		err = t.kafka.ProduceSync(ctx, r).FirstErr()
	}
	return m.Finish(err)
}

// Receive returns the next event. When ctx is done it says io.EOF, which is what ends the SDK's client.
func (t topic) Receive(ctx context.Context) (binding.Message, error) {
	fetches := t.kafka.PollRecords(ctx, 1)
	if ctx.Err() != nil {
		return nil, io.EOF
	}
	if err := fetches.Err(); err != nil {
		return nil, err
	}
	return cesdk.NewMessage(fetches.Records()[0]), nil
}

// The SDK's own client sends an event to a topic and receives it from there.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events.acme.orders"))
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...),
		kgo.DefaultProduceTopic("events.acme.orders"), kgo.ConsumeTopics("events.acme.orders"))
	if err != nil {
		panic(err)
	}
	defer kafka.Close()
	events, err := client.New(topic{kafka}, client.WithTimeNow(), client.WithPollGoroutines(1))
	if err != nil {
		panic(err)
	}

	e := event.New()
	e.SetID("evt-1")
	e.SetSource("/acme/orders")
	e.SetType("order.updated")
	e.SetSubject("A-17")
	if err := e.SetData("application/json", map[string]int{"rev": 2}); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := events.Send(ctx, e); err != nil {
		panic(err)
	}
	err = events.StartReceiver(ctx, func(e event.Event) {
		fmt.Println(e.ID(), e.Type(), e.Subject(), string(e.Data()))
		stop()
	})
	if err != nil && ctx.Err() == nil {
		panic(err)
	}
	// Output: evt-1 order.updated A-17 {"rev":2}
}
