package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/backfill"
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// futureSkew is how far an event's timestamp may be ahead of its append time. It is not configurable yet.
const futureSkew = 5 * time.Minute

// streams is the stream role: one ledger, one reader of payloads, and every subscription.
type streams struct {
	a            *App
	destinations map[string]lane.Destination // by "<team>/<destination>"
	keeper       *destination.Keeper         // keeps pauses in step with the other processes
	fetches      *fetchers

	mu       sync.Mutex
	ledger   *ledger.Ledger      // nil until Postgres has answered
	payloads *reader.LogPayloads // nil like ledger; set before subscriptions run, which read it without the lock
	redriver *producer.Producer  // produces redriven records; nil until one is redriven
	subs     map[nameInTeam]*stream.Subscription
	lanesOf  map[nameInTeam]*lane.Lanes
}

// newStreams builds the destinations and the fetchers, and names the parts that must be ready.
func newStreams(a *App) (*streams, error) {
	s := &streams{a: a, subs: map[nameInTeam]*stream.Subscription{}, lanesOf: map[nameInTeam]*lane.Lanes{}}
	var err error
	if s.destinations, err = destinations(a.file(), a.log, a.registry); err != nil {
		return nil, err
	}
	s.keeper = newKeeper(s.destinations, a.log)
	metrics, err := backfill.NewMetrics(a.registry)
	if err != nil {
		return nil, err
	}
	var problems config.Problems
	if s.fetches, problems = newFetchers(a.file(), metrics); len(problems) > 0 {
		return nil, problems
	}
	a.ready.set("ledger", errNotStarted)
	a.ready.set("destinations", errNotStarted)
	for team, t := range a.file().Teams {
		for name := range t.Subscriptions {
			a.ready.set("subscription "+team+"."+name, errNotStarted)
		}
	}
	return s, nil
}

// ledgerConfig returns the configuration of the ledger.
func ledgerConfig(c *config.Config, log *slog.Logger) ledger.Config {
	return ledger.Config{
		URL: c.Postgres.URL, Schema: c.Postgres.Schema, MaxConns: int32(c.Postgres.MaxConns), StatementConns: int32(c.Statements()),
		TxTimeout: time.Duration(c.Postgres.TransactionTimeout), Logger: log,
	}
}

// open waits for Postgres and opens the ledger. It does not wait, but returns an error, which ends the process, if the schema needs a
// migration or the configuration cannot work.
func (s *streams) open(ctx context.Context) (*ledger.Ledger, error) {
	file := s.a.file()
	var opened *ledger.Ledger
	err := s.a.patiently(ctx, "ledger", func(ctx context.Context) error {
		l, err := ledger.Open(ctx, ledgerConfig(file, s.a.log))
		if err != nil {
			return err
		}
		opened = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ledger, s.keeper.Store = opened, opened
	s.mu.Unlock()
	s.a.ready.probe("ledger", opened.Ping)
	return opened, nil
}

// run runs every subscription until ctx is done or one fails.
func (s *streams) run(ctx context.Context) error {
	l, err := s.open(ctx)
	if err != nil {
		return err
	}
	payloads, err := reader.NewPayloads(reader.PayloadsConfig{Client: KafkaOptions(s.a.file()), MaxRecordBytes: s.recordBytes()})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.payloads = payloads
	s.mu.Unlock()
	// No attempt may start before this process knows which destinations are paused.
	if err := s.a.patiently(ctx, "destinations", s.keeper.Sync); err != nil {
		return err
	}
	if err := s.keeper.LoadEndedPauses(ctx); err != nil { // the keeper's Run tries again
		s.a.log.Warn("what destinations were paused before cannot be read yet", "error", err)
	}
	s.a.ready.set("destinations", nil)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.sweep(gctx, l); return nil })
	g.Go(func() error { s.keeper.Run(gctx); return nil })
	for _, team := range sortedKeys(s.a.file().Teams) {
		for _, name := range sortedKeys(s.a.file().Teams[team].Subscriptions) {
			g.Go(func() error { return s.subscription(gctx, l, nameInTeam{team, name}) })
		}
	}
	return g.Wait()
}

// sweepEvery is how often each process sweeps the ledger, for all processes.
const sweepEvery = 5 * time.Minute

// sweep opens new dedupe windows and drops old ones, until ctx is done. After an error it tries again at the next tick.
func (s *streams) sweep(ctx context.Context, l *ledger.Ledger) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		swept, err := l.Sweep(ctx, ledger.SweepConfig{Horizon: config.RedeliveryHorizon.Std()})
		switch {
		case err != nil && ctx.Err() == nil:
			s.a.log.Warn("sweep of the ledger; it is tried again", "error", err)
		case len(swept.Opened)+len(swept.Dropped) > 0:
			s.a.log.Info("ledger swept", "opened", len(swept.Opened), "dropped", len(swept.Dropped))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// recordBytes returns how many bytes a client must be ready to read at once: the largest record of our topics and its batch.
func (s *streams) recordBytes() int {
	return max(64<<20, int(s.a.file().LargestBody())+topics.HeaderRoom+1<<20)
}

// subscription registers one subscription in the ledger, and runs it with its lanes and backfills until ctx is done or one of them
// fails.
func (s *streams) subscription(ctx context.Context, l *ledger.Ledger, at nameInTeam) error {
	group := at.team + "." + at.name
	var ns *ledger.Namespace
	err := s.a.patiently(ctx, "subscription "+group, func(ctx context.Context) (err error) {
		ns, err = l.Namespace(ctx, specOf(s.a.file(), at))
		return err
	})
	if err != nil {
		return err
	}
	cfg := s.config(at, ns)
	if wantsBackfill(s.a.file().Teams[at.team].Subscriptions[at.name]) {
		cfg.Backfills = batch.NewBackfillRequests(ns)
	}
	sub, err := stream.New(cfg)
	if err != nil {
		return err
	}
	lanes, err := lane.New(s.lanes(at, ns, sub))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.subs[at], s.lanesOf[at] = sub, lanes
	s.mu.Unlock()
	s.a.ready.probe("subscription "+group, func(context.Context) error { return sub.Ready() })

	// The lanes end after the subscription's Run, since that closes its claims in the lanes while it drains.
	lanesCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var lanesErr, backfillErr error
	running.Go(func() { lanesErr = lanes.Run(lanesCtx) })
	if cfg.Backfills != nil {
		running.Go(func() { backfillErr = s.backfill(lanesCtx, cfg.Backfills) })
	}
	err = sub.Run(ctx, lanes)
	stop()
	running.Wait()
	if err == nil && lanesErr == nil && ctx.Err() == nil {
		err = errors.New("ended without having been stopped")
	}
	if err = errors.Join(err, lanesErr, backfillErr); err != nil {
		return fmt.Errorf("subscription %s: %w", group, err)
	}
	return nil
}

// specOf returns a subscription as the ledger needs to know it: how long it keeps what, its policy and its actions.
func specOf(c *config.Config, at nameInTeam) ledger.Spec {
	sub := c.Teams[at.team].Subscriptions[at.name]
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	spec := ledger.Spec{
		Name: at.team + "." + at.name, Owner: fmt.Sprintf("%s/%d", host, os.Getpid()), Window: sub.Dedupe.Window.Std(), Latest: sub.Backlog == config.BacklogLatest,
		Done: sub.Retention.Done.Std(), Dead: sub.Retention.Dead.Std(), MaxAge: sub.Gap.MaxWait.Std(), Forget: sub.Expire.Std(),
		Policy: gate.Policy{
			Order: gate.Order(sub.Order), Start: gate.Start(sub.Start), Equal: gate.Equal(sub.Equal),
			Stale:   gate.OnStale{Snapshot: gate.StaleDo(sub.Stale.Snapshot), Delta: gate.StaleDo(sub.Stale.Delta)},
			GapWait: sub.Gap.Wait.Std(), Then: gate.Then(sub.Gap.Then),
			BackfillWait: sub.Gap.Within.Std(), Otherwise: gate.Then(sub.Gap.Otherwise),
			MaxPerEntity: sub.Gap.MaxEvents.Entity, MaxBuffered: sub.Gap.MaxEvents.Subscription,
			MaxBytesPerEntity: int64(sub.Gap.MaxBytes.Entity), MaxBytes: int64(sub.Gap.MaxBytes.Subscription), FutureSkew: futureSkew,
		}.Share(len(sub.Sources)), // the ledger divides each share among the partitions
	}
	for _, act := range sub.Actions {
		spec.Actions = append(spec.Actions, ledger.ActionSpec{Name: act.Name, Destination: at.team + "/" + act.To, OnDead: ledger.OnDead(act.OnDead)})
	}
	return spec
}

// lanes returns the configuration of a subscription's lanes. They get all destinations of the team, not only those that its actions name
// now: older actions may be open that are for others.
func (s *streams) lanes(at nameInTeam, ns *ledger.Namespace, sub *stream.Subscription) lane.Config {
	ofTeam, largest := map[string]lane.Destination{}, int64(0)
	for _, source := range s.a.file().Teams[at.team].Subscriptions[at.name].Sources {
		largest = max(largest, s.a.file().MaxBody(at.team, source))
	}
	for name := range s.a.file().Teams[at.team].Destinations {
		ofTeam[at.team+"/"+name] = s.destinations[at.team+"/"+name]
	}
	return lane.Config{
		Subscription: at.team + "." + at.name, Latest: s.a.file().Teams[at.team].Subscriptions[at.name].Backlog == config.BacklogLatest,
		Ledger: ns, Payloads: s.payloads, Codec: codec, Enrich: s.fetches.enricher(), Destinations: ofTeam,
		MaxInFlight: inFlight(s.a.file().Teams[at.team], at.name),
		MaxBody:     largest, Later: later(s.a.file()), Alive: sub.Alive, OnFenced: sub.Fenced, Logger: s.a.log, Registerer: s.a.registry,
	}
}

// inFlight returns how many attempts of a subscription may be under way: as many as all of its destinations take, so that those that
// hang leave room for the others. Actions of before may be for destinations that it names no more.
func inFlight(team *config.Team, subscription string) int {
	sum, counted := 0, map[string]bool{}
	for _, action := range team.Subscriptions[subscription].Actions {
		if !counted[action.To] {
			counted[action.To] = true
			sum += team.Destinations[action.To].Concurrency
		}
	}
	return max(256, sum)
}

// codec packs an event as the record that it is in the log, for payload copies in the ledger.
var codec = lane.Codec{
	Pack: func(e *schemas.Event) ([]byte, error) { return record.Pack(record.Encode("", e)), nil },
	Unpack: func(b []byte) (*schemas.Event, error) {
		r, err := record.Unpack(b)
		if err != nil {
			return nil, err
		}
		return record.Decode(r)
	},
}

// config returns the configuration of a subscription, without its backfills.
func (s *streams) config(at nameInTeam, ns *ledger.Namespace) stream.Config {
	file := s.a.file()
	sub := file.Teams[at.team].Subscriptions[at.name]
	begin, err := config.ParseBegin(sub.Begin)
	if err != nil {
		panic(err) // config.Load has checked it
	}
	names := make([]string, len(sub.Sources))
	retention := make(map[string]time.Duration, len(names))
	for i, source := range sub.Sources {
		names[i] = file.Teams[at.team].Sources[source].Topic
		retention[names[i]] = file.Teams[at.team].Sources[source].Topics.Retention.Std()
	}
	return stream.Config{
		Group: at.team + "." + at.name, Topics: names, Client: KafkaOptions(file), Filter: reader.Globs(sub.Types),
		Begin: owner.Begin{All: begin.All, At: begin.At}, Ledger: ns, Payloads: s.payloads, Export: true, Retention: retention, Logger: s.a.log, Registerer: s.a.registry,
		MaxRecordBytes: s.recordBytes(), SessionTimeout: file.Kafka.SessionTimeout.Std(), UnreadAfter: file.Kafka.UnreadAfter.Std(), BatchPace: file.Kafka.BatchPace.Std(), InstanceID: file.Kafka.InstanceID,
		// The rest of the drain budget is for the parts that stop before and after the lanes.
		DrainTimeout: s.a.cfg.Drain * 2 / 3,
	}
}

// close closes what the subscriptions shared, after they have ended. All parts close at the same time: one that hangs takes no time from
// the others.
func (s *streams) close(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for name, d := range s.destinations {
		all.Go(func() {
			if err := d.Sink.Close(ctx); err != nil {
				s.a.log.Warn("close destination", "destination", name, "error", err)
			}
		})
	}
	all.Go(s.fetches.close)
	s.mu.Lock()
	defer s.mu.Unlock()
	if redriver := s.redriver; redriver != nil {
		all.Go(func() {
			if err := redriver.Close(ctx); err != nil {
				s.a.log.Warn("close the producer of what is redriven", "error", err)
			}
		})
	}
	if s.payloads != nil {
		all.Go(s.payloads.Close)
	}
	if s.ledger != nil {
		all.Go(s.ledger.Close)
	}
}

// subscriptionItems lists the subscriptions for the API.
func (a *App) subscriptionItems() []api.SubscriptionItem {
	var items []api.SubscriptionItem
	c := a.file()
	for _, team := range sortedKeys(c.Teams) {
		for _, name := range sortedKeys(c.Teams[team].Subscriptions) {
			item := api.SubscriptionItem{Team: team, Subscription: name, Sources: c.Teams[team].Subscriptions[name].Sources,
				Missing: "this process has no stream role", Partitions: []api.PartitionItem{}}
			if a.stream != nil {
				a.stream.describe(nameInTeam{team, name}, &item)
			}
			items = append(items, item)
		}
	}
	return items
}

// describe adds to item how a subscription is doing in this process: whether it is ready, and its partitions.
func (s *streams) describe(at nameInTeam, item *api.SubscriptionItem) {
	s.mu.Lock()
	sub := s.subs[at]
	s.mu.Unlock()
	if sub == nil {
		item.Missing = errNotStarted.Error()
		return
	}
	err := sub.Ready()
	item.Ready, item.Missing = err == nil, ""
	if err != nil {
		item.Missing = err.Error()
	}
	for _, p := range sub.Partitions() {
		part := api.PartitionItem{Topic: p.Topic, Partition: p.Partition, State: string(p.State), Stopped: stopOf(p.Err)}
		if p.Err != nil {
			part.Detail = p.Err.Error()
		}
		item.Partitions = append(item.Partitions, part)
	}
}
