package simulation

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
)

// maxBody is what the sources take.
const maxBody = 2 << 20

// intake is a process with the intake role.
type intake struct {
	node   string
	net    *network
	log    *producer.Producer
	server *http.Server
	done   sync.WaitGroup
}

func startIntake(node string, n *network, brokers []string, options []kgo.Opt, sources []kind, payload schemas.PayloadKind) (*intake, error) {
	in := &intake{node: node, net: n}
	compiled := map[string]*ingest.Source{}
	var err error
	for _, source := range sources {
		if compiled[string(source)], err = sourceOf(source, payload); err != nil {
			return nil, err
		}
	}
	if in.log, err = producer.New(producer.Config{Brokers: brokers, MaxBody: maxBody, Options: options}); err != nil {
		return nil, err
	}
	handler, err := ingest.New(ingest.Config{Log: in.log, MaxBody: maxBody, Sources: func(of, name string) (*ingest.Source, bool) {
		s, ok := compiled[name]
		return s, ok && of == team
	}})
	if err != nil {
		return nil, err
	}
	in.server = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 60 * time.Second, IdleTimeout: 120 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	listener, err := n.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return nil, err
	}
	in.done.Go(func() {
		if err := in.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	})
	return in, nil
}

// kill ends the process at once: nothing of it goes out any more.
func (in *intake) kill() {
	in.net.kill(in.node)
	in.server.Close()
	in.done.Wait()
}

// releaseLeftovers closes what a killed intake still has in this process.
func (in *intake) releaseLeftovers() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = in.log.Close(ctx)
}

// stop ends it as SIGTERM does.
func (in *intake) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if in.server.Shutdown(ctx) != nil {
		in.server.Close()
	}
	in.done.Wait()
	_ = in.log.Close(ctx)
}
