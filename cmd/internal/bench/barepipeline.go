package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// barePipeline is the limit of anything that takes deliveries over net/http, keeps them in Kafka and calls an agent: a handler that
// reads and produces, and a consumer that calls. It verifies nothing, keeps no order, remembers nothing and retries nothing.
type barePipeline struct {
	intake, consumer *rig.Child
	agent            agentProcess
}

const bareCalls = 64 // at once, as many as a destination of ours makes by default

func (o *Options) startBare(ctx context.Context, topic string, partitions int32) (_ *barePipeline, err error) {
	p := &barePipeline{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.agent, err = startAgent(ctx); err != nil {
		return nil, err
	}
	s := serveSettings{Brokers: o.Kafka, Topic: topic, Agent: p.agent.url() + agentRun}
	if err := createTopic(ctx, s, partitions); err != nil {
		return nil, err
	}
	if p.intake, err = startServer(ctx, serveBare, s); err != nil {
		return nil, err
	}
	if p.consumer, err = startServer(ctx, serveConsumer, s); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *barePipeline) close() {
	for _, c := range []*rig.Child{p.intake, p.consumer, p.agent.Child} {
		if c != nil {
			c.Stop()
		}
	}
}

// bareConsumer reads a topic from its start and posts each record's value to the agent, until ctx ends.
func bareConsumer(ctx context.Context, s serveSettings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumerGroup(s.Topic), kgo.ConsumeTopics(s.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: bareCalls}}
	defer client.CloseIdleConnections()
	records := make(chan *kgo.Record, 1000)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(records)
	for range bareCalls {
		calls.Go(func() {
			for r := range records {
				bareCall(ctx, client, s.Agent, r)
			}
		})
	}
	for {
		fetches := cl.PollRecords(ctx, 1000)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			records <- r
		}
	}
}

// bareCall posts a record. What fails is lost, which the bench finds.
func bareCall(ctx context.Context, client *http.Client, agent string, r *kgo.Record) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, agent, bytes.NewReader(r.Value))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Ce-Deliveryid", string(r.Key)) // where the agent looks
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
}
