package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// serveSettings go to a server as its last argument.
type serveSettings struct {
	Brokers []string
	Topic   string
	Secret  string // of the source; only ours has one
	Agent   string // what a consumer posts to
	Memory  int64  // that ours has for deliveries, and MaxBody the largest; 0: the defaults
	MaxBody int64
}

// The kinds of servers: an intake of ours and a bare one, and the bare pipeline's consumer.
const (
	serveOurs     = "ours"
	serveBare     = "bare"
	serveConsumer = "consumer"
)

// serve runs a server of a kind and with settings until its standard input is closed. It prints its address first; a consumer, which
// has none, its topic.
func serve(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a server takes its kind and its settings, not %q", args)
	}
	var s serveSettings
	if err := json.Unmarshal([]byte(args[1]), &s); err != nil {
		return err
	}
	if args[0] == serveConsumer {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		fmt.Println(s.Topic)
		return bareConsumer(ctx, s)
	}
	handler, stop, err := s.handler(args[0])
	if err != nil {
		return err
	}
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	// Both have the timeouts of our intake's listener, as any server on the net must.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func (s serveSettings) handler(kind string) (http.Handler, func(), error) {
	if kind == serveBare {
		// The same client as ours: see ingest/producer.
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
			kgo.MaxBufferedRecords(1<<20), record.Compressor())
		if err != nil {
			return nil, nil, err
		}
		return bareHandler(cl, s.Topic), cl.Close, nil
	}
	source, err := provider.Compile(provider.Config{Team: "bench", Name: "github", Preset: "github", Secrets: []schemas.Secret{schemas.NewSecret(s.Secret)}})
	if err != nil {
		return nil, nil, err
	}
	p, err := producer.New(producer.Config{Brokers: s.Brokers})
	if err != nil {
		return nil, nil, err
	}
	sources := map[string]*ingest.Source{} // two, of which one may be quiet while the other floods
	for _, name := range []string{"github", quietSource} {
		sources[name] = &ingest.Source{Source: source, Topic: s.Topic, QuarantineTopic: "quarantine.bench.github"}
	}
	h, err := ingest.New(ingest.Config{Log: p, Limits: ingest.Limits{Memory: s.Memory}, MaxBody: s.MaxBody, Sources: func(team, name string) (*ingest.Source, bool) {
		of, ok := sources[name]
		return of, ok && team == "bench"
	}})
	if err != nil {
		return nil, nil, err
	}
	return h, func() { _ = p.Close(context.Background()) }, nil
}
