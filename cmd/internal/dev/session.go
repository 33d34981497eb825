package dev

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/provider"
	httpsink "github.com/forebay-io/forebay/sinks/http"
	"github.com/forebay-io/forebay/stream/ledger"
)

// session is one run of dev or demo: its parts and their state.
type session struct {
	Options
	lines     *lines // what Options.Lines asks for
	path      string // of the configuration file
	config    *config.Config
	broker    *embedded.Broker   // nil: the file names brokers
	postgres  *embedded.Postgres // nil: the file names a database
	agent     *agent             // nil: the file has no sample agent
	app       *app.App
	watch     func(ctx context.Context, reload func(*config.Config) error) // calls reload when the file has changed
	temporary bool                                                         // the data is removed at the end
	token     string                                                       // to ask the operator's listener with; empty: it wants none
}

// startParts starts an embedded broker and Postgres, if the file names none, and the sample agent, if the file is the sample's. Then it
// creates the topics and the ledger's tables.
func (s *session) startParts(ctx context.Context) error {
	var err error
	if len(s.config.Kafka.Brokers) == 0 {
		s.broker, err = embedded.StartBroker(ctx, embedded.BrokerConfig{Dir: filepath.Join(s.Data, "broker"), Logger: s.Logger})
		if err != nil {
			return s.unusable(fmt.Errorf("start the embedded broker: %w", err))
		}
		s.config.Kafka.Brokers = s.broker.Addrs()
		fmt.Fprintln(s.Stderr, embedded.BrokerBanner)
	}
	if s.config.Postgres.URL.IsZero() {
		cfg := embedded.PostgresConfig{Dir: filepath.Join(s.Data, "postgres"), Logger: s.Logger}
		if s.temporary {
			cfg.Temporary = s.Data
		}
		s.postgres, err = embedded.StartPostgres(ctx, cfg)
		if err != nil {
			return s.unusable(fmt.Errorf("start the embedded Postgres: %w", err))
		}
		s.config.Postgres.URL = s.postgres.URL()
		fmt.Fprintf(s.Stderr, "postgres: %s in %s\n", s.postgres.Origin(), s.postgres.DataDir())
		if own := s.config.TakenTogether(); len(own) > 0 {
			fmt.Fprintf(s.Stderr, "the ledgers of %s, which have postgres of their own in the file, are kept there, too\n", strings.Join(own, ", "))
		}
	}
	if s.Config == "" {
		if err := s.startAgent(); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.makeToken(ctx)
}

// startAgent makes the sample agent, which listens on the address of the sample's destination. It makes none if the user has changed the
// file so that the destination is not the sample agent any more.
func (s *session) startAgent() error {
	to, ok := s.config.Destination("demo", "agent")
	if !ok {
		return nil
	}
	keys, ok := to.Keys.(*httpsink.Config)
	if !ok {
		return nil // another type of destination
	}
	u, err := url.Parse(keys.URL)
	if err != nil {
		return err
	}
	if !net.ParseIP(u.Hostname()).IsLoopback() || u.Port() == "" || u.Path != samplePath {
		return nil // an agent of the user's own
	}
	if s.agent, err = newAgent(u.Host); errors.Is(err, syscall.EADDRINUSE) {
		const key = "teams.demo.destinations.agent.url"
		return errors.New(s.config.Problem(key, u.Host+" is taken by another program: write another port for the sample agent, or stop that program; if it is an agent of yours, write its own path").String())
	}
	return err
}

// prepare creates the topics and the ledger's tables. Outside of dev, `forebay topics apply` and `forebay migrate` do that.
func (s *session) prepare(ctx context.Context) error {
	if err := createTopics(ctx, s.config); err != nil {
		return err
	}
	_, err := ledger.Migrate(ctx, ledger.Config{URL: s.config.Postgres.URL, Schema: s.config.Postgres.Schema, Logger: s.Logger})
	return err
}

// createTopics creates the topics of a configuration that do not exist, and changes settings as `forebay topics apply` does.
func createTopics(ctx context.Context, c *config.Config) error {
	client, err := kgo.NewClient(app.KafkaOptions(c, config.RoleTopics)...)
	if err != nil {
		return err
	}
	defer client.Close()
	changes, err := topics.Apply(ctx, client, topics.Wanted(c, func(team, source string) int64 { return maxBody(c, team, source) }), false)
	if err == nil {
		err = topics.Problems(changes)
	}
	if err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	return nil
}

// maxBody returns the largest body of a source, as its compiled preset has it.
func maxBody(c *config.Config, team, source string) int64 {
	compiled, err := provider.Compile(c.Source(team, source))
	if err != nil {
		return 0 // app.New is about to return this error
	}
	return compiled.MaxBody
}

// reload is take, and says what came of it where an operator looks: a file that is refused is in `forebay attention`.
func (s *session) reload(ctx context.Context, read *config.Config) error {
	err := s.take(ctx, read)
	if err != nil {
		s.app.Refused(config.Problems{{File: s.path, Message: err.Error()}})
	} else {
		s.app.Refused(nil)
	}
	return err
}

// take takes a changed configuration: with the addresses of the embedded broker and Postgres, and after the topics of new sources were
// created, which nobody else would do.
func (s *session) take(ctx context.Context, read *config.Config) error {
	if s.broker != nil {
		read.Kafka.Brokers = s.config.Kafka.Brokers
	}
	if s.postgres != nil {
		read.Postgres.URL = s.config.Postgres.URL
	}
	taken, waits := s.app.Take(read)
	if err := createTopics(ctx, taken); err != nil {
		return err
	}
	if err := s.app.Reload(read); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "%s was read again and is in force\n", s.path)
	for _, w := range waits {
		fmt.Fprintf(s.Stderr, "but for %s, which is taken when forebay dev is started again\n", w.Path)
	}
	s.printNotes(read)
	return nil
}

// watchPostgres returns an error, which ends the session, if the embedded server ends by itself.
func (s *session) watchPostgres(ctx context.Context) error {
	if s.postgres == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.postgres.Done():
		return errors.New("the embedded Postgres has ended; its log is in " + filepath.Join(s.Data, "postgres"))
	}
}

// intake returns the base URL of the intake.
func (s *session) intake() string { return "http://" + s.app.Addr("intake").String() }

// operator returns the base URL of the operator's listener.
func (s *session) operator() string {
	scheme := "http://"
	if s.config.OperatorTLS() != nil {
		scheme = "https://"
	}
	return scheme + s.app.Addr("operator").String()
}

func (s *session) client() (*api.Client, error) {
	c, err := api.NewClient(s.operator())
	if err != nil {
		return nil, err
	}
	if own := s.config.OperatorTLS(); own != nil {
		c = c.WithCertificate(own.CertFile)
	}
	return c.WithToken(s.token)
}

// waitReady asks, as /readyz answers, until all is ready, and for so long at most in which no more became ready. Its error says what is not ready: nobody
// can ask a process that stops.
func waitReady(ctx context.Context, ask func(context.Context) (*api.Readiness, error), within time.Duration) error {
	enough := errors.New("enough")
	waits, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(within, func() { cancel(enough) })
	defer limit.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var lacks []string
	fewest := math.MaxInt
	for {
		select {
		case <-waits.Done():
			if !errors.Is(context.Cause(waits), enough) {
				return context.Cause(ctx)
			}
			return fmt.Errorf("nothing more was ready for %s, so it stops: %s; mend that, and run the same command again", within, strings.Join(lacks, "; "))
		case <-tick.C:
		}
		p, err := ask(waits)
		switch {
		case waits.Err() != nil: // what was known before counts
		case err != nil:
			lacks = []string{err.Error()}
		case p.Ready:
			return nil
		default:
			lacks = nil
			for _, c := range p.Checks {
				if !c.OK {
					lacks = append(lacks, c.Name+": "+c.Error)
				}
			}
			if len(lacks) < fewest {
				fewest = len(lacks)
				limit.Reset(within)
			}
		}
	}
}

// close stops the sample agent, the embedded broker and the embedded Postgres, those of them that were started. The app, which uses them,
// has ended before. A temporary session's Postgres is removed with its data.
func (s *session) close() {
	if s.agent != nil {
		s.agent.server.Close()
		s.agent.listener.Close()
	}
	if s.broker != nil {
		if err := s.broker.Close(); err != nil {
			s.Logger.Error("stop the embedded broker", "error", err)
		}
	}
	if s.postgres == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stop := s.postgres.Stop
	if s.temporary { // the data may lie outside the data directory, which is removed next
		stop = s.postgres.Discard
	}
	if err := stop(ctx); err != nil {
		s.Logger.Error("stop the embedded Postgres", "error", err)
	}
}
