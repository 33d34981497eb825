package simulation

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	httpsink "github.com/forebay-io/forebay/sinks/http"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	agentTimeout   = 5 * time.Second
	sessionTimeout = 6 * time.Second
	drainTimeout   = 10 * time.Second
	retryTimeout   = 10 * time.Second
)

// ledgerHandle is a process's way to the ledger.
type ledgerHandle interface {
	stream.Ledger
	lane.Ledger
	Kill()
	Freeze()
	Thaw()
	Away()
	Back()
}

// process is one with the stream role, wired as the app does it. A restart is another process.
type process struct {
	node     string
	w        *world
	ledger   ledgerHandle
	sub      *stream.Subscription
	payloads *reader.LogPayloads
	sink     *httpsink.Sink
	cancel   context.CancelFunc
	done     chan struct{} // closed when it has ended
	err      error
}

func startProcess(w *world, node string) (*process, error) {
	p := &process{node: node, w: w, done: make(chan struct{})}
	options := w.broker.options(node)
	var err error
	if p.ledger, err = w.open(node); err != nil {
		return nil, err
	}
	if p.payloads, err = reader.NewPayloads(reader.PayloadsConfig{Client: options}); err != nil {
		return nil, err
	}
	p.sink, err = httpsink.New(httpsink.Config{URL: "http://127.0.0.1:9000/run", Dial: w.net.dialer(node),
		Common: spec.Common{Version: node, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		return nil, err
	}
	log := slog.New(w.trace.handler(node))
	shared, err := destination.New(destination.Config{Name: "acme/agent", Policy: destination.Policy{Concurrency: 16, Endpoint: true}, Logger: log})
	if err != nil {
		return nil, err
	}
	topics := make([]string, len(w.plan.sources))
	for i, source := range w.plan.sources {
		topics[i] = topicOf(source)
	}
	p.sub, err = stream.New(stream.Config{
		Group: group, Topics: topics, Client: options, Begin: owner.Begin{All: true}, Ledger: p.ledger,
		Payloads: p.payloads, Logger: log, BatchRecords: w.plan.batchRecords, BatchBytes: w.plan.batchBytes,
		SessionTimeout: sessionTimeout, HeartbeatInterval: time.Second, RebalanceTimeout: 20 * time.Second, DrainTimeout: drainTimeout,
		MirrorInterval: time.Second,
	})
	if err != nil {
		return nil, err
	}
	lanes, err := lane.New(lane.Config{
		Subscription: group, Ledger: p.ledger, Payloads: p.payloads, Codec: lane.Codec{Pack: record.PackEvent, Unpack: record.UnpackEvent}, Latest: w.plan.latest,
		Destinations: map[string]lane.DestinationConfig{"acme/agent": {Sink: p.sink, Shared: shared, Timeout: agentTimeout,
			Retry: sink.RetryPolicy{Attempts: 30, Within: 24 * time.Hour, Min: 500 * time.Millisecond, Max: 8 * time.Second}}},
		MaxInFlight: 16, MaxOpen: w.plan.maxOpen, LaneWindow: w.plan.laneWindow, MaxBytes: w.plan.laneBytes, MaxBody: maxBody,
		Alive: p.sub.Alive, OnFenced: p.sub.Fenced, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	p.run(lanes)
	return p, nil
}

// run is what the app does: lanes outlive the subscription's Run, which closes their claims while it drains.
func (p *process) run(lanes *lane.Lanes) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		lctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		var lanesErr error
		running.Go(func() { lanesErr = lanes.Run(lctx) })
		err := p.sub.Run(ctx, lanes)
		stop()
		running.Wait()
		p.err = errors.Join(err, lanesErr)
		_ = p.sink.Close(context.Background())
		p.payloads.Close()
	}()
}

// stop is SIGTERM, and the wait for its end.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

// kill is kill -9: from here on nothing of it reaches anybody. What it still has in this process goes in its own time.
func (p *process) kill() {
	p.w.net.kill(p.node)
	p.ledger.Kill()
	p.cancel()
}

// freeze is SIGSTOP, as well as one process can play it: nothing of it reaches anybody, until thaw.
func (p *process) freeze() {
	p.w.net.hang(p.node, p.w.ports()...)
	p.ledger.Freeze()
}

func (p *process) thaw() {
	p.w.net.heal(p.node, p.w.ports()...)
	p.ledger.Thaw()
}
