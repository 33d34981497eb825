package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/stream/backfill"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/sink"
)

// fetchers has the fetchers that ask sources' APIs for missing events and for the bodies of thin events. All subscriptions share
// them, so that the process as a whole keeps a source's rate.
type fetchers struct {
	of      *config.Config // that they were made of
	metrics *backfill.Metrics
	gaps    map[string]*backfill.Source  // for missing events, by "/<team>/<source>"
	bodies  map[string]*backfill.Fetcher // for the bodies of thin events, by the same
	thin    *backfill.Thin               // completes thin events with bodies
	clients []*guard.Client              // of all fetchers; close closes them
}

// newFetchers makes the fetchers of all sources without connecting. m may be nil. A source that asks for the same in the same way keeps those
// that it has in before, which may be nil, and with them what it has used up of its rate.
func newFetchers(c *config.Config, m *backfill.Metrics, before *fetchers) (f *fetchers, problems config.Problems) {
	f = &fetchers{of: c, metrics: m, gaps: map[string]*backfill.Source{}, bodies: map[string]*backfill.Fetcher{}}
	if before != nil {
		f.clients = slices.Clone(before.clients)
	}
	for _, team := range sortedKeys(c.Teams) {
		for _, name := range sortedKeys(c.Teams[team].Sources) {
			s, path := c.Teams[team].Sources[name], "teams."+team+".sources."+name
			if before != nil && sameFetches(before.of, c, team, name) {
				f.keep(before, "/"+team+"/"+name)
				continue
			}
			if err := f.addGap(c, team, name, s); err != nil {
				problems = append(problems, c.Problem(path+".backfill", err.Error()))
			}
			if err := f.body("/"+team+"/"+name, s.Thin); err != nil {
				problems = append(problems, c.Problem(path+".thin", err.Error()))
			}
		}
	}
	f.thin = backfill.NewThin(f.bodies, m)
	return f, problems
}

// sameFetches reports whether two configurations have a source ask for missing events and for bodies in the same way.
func sameFetches(before, now *config.Config, team, name string) bool {
	t := before.Teams[team]
	if t == nil || t.Sources[name] == nil {
		return false
	}
	a, b := t.Sources[name], now.Teams[team].Sources[name]
	return a.Topic == b.Topic && reflect.DeepEqual(a.Thin, b.Thin) && reflect.DeepEqual(a.Backfill, b.Backfill) &&
		(a.Backfill == nil || reflect.DeepEqual(before.BackfillEvent(team, name), now.BackfillEvent(team, name)))
}

// keep takes over the fetchers of a source, where it has any.
func (f *fetchers) keep(before *fetchers, source string) {
	if s := before.gaps[source]; s != nil {
		f.gaps[source] = s
	}
	if b := before.bodies[source]; b != nil {
		f.bodies[source] = b
	}
}

// close closes idle connections.
func (f *fetchers) close() {
	for _, c := range f.clients {
		c.Close()
	}
}

// enricher returns the enricher that completes thin events; nil if no source has thin events.
func (f *fetchers) enricher() lane.Enricher {
	if len(f.bodies) == 0 {
		return nil
	}
	return f.thin
}

// runner makes a runner that fills the requests of a store and produces what it fetches to log. The caller runs it.
func (f *fetchers) runner(store backfill.Store, log *producer.Producer, logger *slog.Logger) (*backfill.Runner, error) {
	return backfill.NewRunner(backfill.Config{Store: store, Log: synthetic{log}, Sources: f.gaps, Logger: logger, Metrics: f.metrics})
}

// synthetic produces synthetic events. It has no deadline, since no provider waits for them.
type synthetic struct{ *producer.Producer }

func (s synthetic) Append(ctx context.Context, topic string, e *schemas.Event) error {
	return s.Producer.Append(ctx, time.Time{}, topic, e)
}

// backfillProducer returns the producer of synthetic events, with the intake's settings. It connects with the first event; the
// caller closes it.
func backfillProducer(c *config.Config) (*producer.Producer, error) {
	var limits bodyLimits
	limits.add(c)
	return producer.New(producer.Config{Brokers: c.Kafka.Brokers, MaxBody: c.LargestBody(), TopicMaxBody: limits.of, Options: KafkaOptions(c, config.RoleStream)})
}

// addGap adds what fetches a source's missing events, if the file has backfill for it.
func (f *fetchers) addGap(c *config.Config, team, name string, s *config.Source) error {
	b := s.Backfill
	if b == nil {
		return nil
	}
	nameEvent, err := elementEvent(c, team, name)
	if err != nil {
		return err
	}
	fetcher, err := f.fetcher(backfill.FetcherConfig{
		Source: "/" + team + "/" + name, Use: backfill.Gap, URL: b.URL, Headers: b.Headers, Timeout: b.Timeout.Std(), MaxBytes: int64(b.MaxBody),
		Retry: sink.RetryPolicy{Attempts: b.Retry.Attempts, Within: b.Retry.Within.Std(), Min: b.Retry.Min.Std(), Max: b.Retry.Max.Std()},
	}, b.Rate, b.AllowNetworks)
	if err != nil {
		return err
	}
	src, err := backfill.NewSource(backfill.SourceConfig{Topic: s.Topic, Fetcher: fetcher, Items: b.Items, Name: nameEvent})
	if err == nil {
		f.gaps["/"+team+"/"+name] = src
	}
	return err
}

// body adds the fetcher for the bodies of a source's thin events, if it has such events.
func (f *fetchers) body(source string, t *config.Thin) error {
	if t == nil {
		return nil
	}
	fetcher, err := f.fetcher(backfill.FetcherConfig{
		Source: source, Use: backfill.Body, URL: t.URL, Headers: t.Headers, Timeout: t.Timeout.Std(), MaxBytes: int64(t.MaxBody),
	}, t.Rate, t.AllowNetworks)
	if err == nil {
		f.bodies[source] = fetcher
	}
	return err
}

// fetcher completes cfg and makes a fetcher of it: with a client of its own that calls allowed addresses only, and with the classes that
// destinations have for statuses.
func (f *fetchers) fetcher(cfg backfill.FetcherConfig, r *config.Rate, allowed []netip.Prefix) (*backfill.Fetcher, error) {
	// The client's limits are a little above the fetcher's own, which should be met first.
	client, err := guard.New(guard.Config{AllowNetworks: allowed, Timeout: cfg.Timeout + time.Second, MaxResponse: cfg.MaxBytes + 1, MaxIdle: 8})
	if err != nil {
		return nil, err
	}
	f.clients = append(f.clients, client)
	cfg.Client, cfg.ClassOf, cfg.RetryAfter, cfg.Metrics = client, sink.ClassOfStatus, guard.RetryAfter, f.metrics
	cfg.Agent = "Forebay/" + cmp.Or(buildVersion(), "dev")
	if r != nil {
		cfg.PerSecond, cfg.Burst = r.PerSecond(), r.Burst
	}
	return backfill.NewFetcher(cfg)
}

// elementEvent returns the function that makes an event of an element in a backfill's answer. The catalogue compiles whole sources only, so
// this makes a source whose deliveries are the elements. Its secret is random, and nothing is verified with it. The catalogue also needs
// an id and an entity: if the file has none for elements, they are made up here and removed from each event; the runner sets them.
func elementEvent(c *config.Config, team, name string) (func(element []byte) (*schemas.Event, error), error) {
	event := c.BackfillEvent(team, name)
	ownID, ownEntity := event.ID != "", event.Entity != nil
	if !ownID {
		event.ID = "sha256:body"
	}
	if !ownEntity {
		event.Entity = []string{}
	}
	src, err := provider.Compile(provider.Config{Team: team, Name: name, Preset: "generic", Event: event,
		Secrets: []schemas.Secret{schemas.NewSecret(rand.Text())}, Verify: &verify.Params{Scheme: verify.SchemeToken, Header: "X-Nobody"}})
	if err != nil {
		return nil, err
	}
	return func(element []byte) (*schemas.Event, error) {
		e, err := src.Event(&verify.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: element}, time.Now().UTC())
		if err != nil {
			return nil, err
		}
		if !ownID {
			e.ID = ""
		}
		if !ownEntity {
			e.Entity = ""
		}
		return e, nil
	}, nil
}
