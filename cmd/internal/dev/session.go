package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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

// session is one run of dev: its parts and their state.
type session struct {
	Options
	path     string
	config   *config.Config
	broker   *embedded.Broker   // nil: the file names brokers
	postgres *embedded.Postgres // nil: the file names a database
	agent    *agent             // nil: the file is the user's own
	app      *app.App
	watch    func(ctx context.Context, reload func(*config.Config) error)
	// temporary forgets everything at the end.
	temporary bool
}

// startParts supplies what the file leaves out, then the topics and the ledger.
func (s *session) startParts(ctx context.Context) error {
	var err error
	if len(s.config.Kafka.Brokers) == 0 {
		s.broker, err = embedded.StartBroker(ctx, embedded.BrokerConfig{Dir: filepath.Join(s.Data, "broker"), Logger: s.Logger})
		if err != nil {
			return fmt.Errorf("start the embedded broker: %w", err)
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
			return fmt.Errorf("start the embedded Postgres: %w", err)
		}
		s.config.Postgres.URL = s.postgres.URL()
		fmt.Fprintf(s.Stderr, "postgres: %s in %s\n", s.postgres.Origin(), s.postgres.DataDir())
	}
	if s.Config == "" {
		if err := s.startAgent(); err != nil {
			return err
		}
	}
	return s.prepare(ctx)
}

// startAgent listens where the sample configuration's destination points.
func (s *session) startAgent() error {
	team := s.config.Teams["demo"]
	if team == nil || team.Destinations["agent"] == nil {
		return nil // the file was changed: there is no sample agent any more
	}
	called, ok := team.Destinations["agent"].Keys.(*httpsink.Config)
	if !ok {
		return nil // it is of another type now
	}
	u, err := url.Parse(called.URL)
	if err != nil {
		return err
	}
	if !net.ParseIP(u.Hostname()).IsLoopback() || u.Port() == "" {
		return nil // it points to an agent of the user's own
	}
	s.agent, err = newAgent(u.Host)
	return err
}

// prepare creates topics and tables, which production leaves to commands of their own.
func (s *session) prepare(ctx context.Context) error {
	if err := createTopics(ctx, s.config); err != nil {
		return err
	}
	_, err := ledger.Migrate(ctx, ledger.Config{URL: s.config.Postgres.URL, Schema: s.config.Postgres.Schema, Logger: s.Logger})
	return err
}

func createTopics(ctx context.Context, c *config.Config) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Kafka.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	changes, err := topics.Apply(ctx, kadm.NewClient(client), topics.Wanted(c, func(team, source string) int64 { return maxBody(c, team, source) }), false)
	if err == nil {
		err = topics.Problems(changes)
	}
	if err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	return nil
}

func maxBody(c *config.Config, team, source string) int64 {
	compiled, err := provider.Compile(c.Source(team, source))
	if err != nil {
		return 0 // app.New says what is wrong with the source
	}
	return compiled.MaxBody
}

// reload takes in what has changed in the file. Topics of new sources are made first: nobody else would.
func (s *session) reload(ctx context.Context, read *config.Config) error {
	if s.broker != nil {
		read.Kafka.Brokers = s.config.Kafka.Brokers
	}
	if s.postgres != nil {
		read.Postgres.URL = s.config.Postgres.URL
	}
	if len(config.Live(s.config, read)) == 0 {
		if err := createTopics(ctx, read); err != nil {
			return err
		}
	}
	if err := s.app.Reload(read); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "%s has changed and is in force\n", s.path)
	return nil
}

// watchPostgres ends the session when the embedded server ends by itself.
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

func (s *session) intake() string { return "http://" + s.config.Listen.Intake }

func (s *session) client() (*api.Client, error) {
	return api.NewClient("http://" + s.config.Listen.Operator)
}

// waitReady polls /readyz.
func (s *session) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready after %s; see http://%s/readyz", readyWithin, s.config.Listen.Operator))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.config.Listen.Operator+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// close stops the embedded parts, the database last: everything else writes to it.
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
	if s.temporary { // its data may lie outside the directory, where another user can reach them
		stop = s.postgres.Discard
	}
	if err := stop(ctx); err != nil {
		s.Logger.Error("stop the embedded Postgres", "error", err)
	}
}

// printHowToLook says where to look, with the program by the name that it was called by: in a fresh clone that is bin/forebay.
func (s *session) printHowToLook() {
	o := s.config.Listen.Operator
	at := ""
	if o != usual.operator {
		at = " --url http://" + o
	}
	fmt.Fprintf(s.Stdout, "\nForebay serves on %s; Ctrl-C stops it, the next start goes on from there. How to look:\n", s.intake())
	fmt.Fprintf(s.Stdout, "  %s inbox list%s\n", os.Args[0], at)
	fmt.Fprintf(s.Stdout, "  %s inbox list%s --decision stale\n", os.Args[0], at)
	fmt.Fprintf(s.Stdout, "  %s quarantine list%s\n", os.Args[0], at)
	fmt.Fprintf(s.Stdout, "  %s subscriptions list%s\n", os.Args[0], at)
	if s.agent != nil {
		fmt.Fprintf(s.Stdout, "  curl %s/calls\n", s.agent.url())
		fmt.Fprintf(s.Stdout, "  %s send demo/github --sample github/push -c %s\n", os.Args[0], s.path)
	}
}
