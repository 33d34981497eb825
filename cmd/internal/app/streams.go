package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/forebay-io/forebay/stream/counter"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/reader"
)

// futureSkew is how far an event's timestamp may be ahead of its append time. It is not configurable yet.
const futureSkew = 5 * time.Minute

// streams is the stream role: one ledger, one reader of payloads, and every subscription.
type streams struct {
	a        *App
	keeper   *destination.Keeper // keeps pauses in step with the other processes
	pauses   *subscriptionPauses
	counters *counter.Counters // nil until Postgres has answered
	budgets  *policy.BudgetMetrics
	limits   bodyLimits     // of what is produced here: backfills, what is redriven
	largest  int64          // the largest body that readers, producers and sinks were made for
	closing  sync.WaitGroup // of sinks that others have replaced
	leftOpen leftOpen

	making       sync.RWMutex                      // held while lanes are made, and alone while what they are made of changes; before mu
	sinks        sync.Mutex                        // guards destinations; lanes ask for them while they hold locks of their own
	destinations map[string]lane.DestinationConfig // by full name, also those that the file has no more
	fetches      *fetchers                         // guarded by making
	closed       bool                              // nothing is replaced any more; guarded by making

	mu       sync.Mutex
	ledger   *ledger.Ledger      // nil until Postgres has answered
	payloads *reader.LogPayloads // nil like ledger; set before subscriptions run, which read it without the lock
	redriver *producer.Producer  // produces redriven records; nil until one is redriven
	subs     map[nameInTeam]*stream.Subscription
	lanesOf  map[nameInTeam]*lane.Lanes
	bars     map[nameInTeam]barring            // of subscriptions that may not run
	stops    map[nameInTeam]context.CancelFunc // stops a subscription that was started
	again    map[nameInTeam]bool               // those that were stopped to begin again, as the file has them then, if it does
	begin    func(at nameInTeam)               // starts a subscription; nil: none may be started yet, or any more
	started  bool                              // those of the start were
	spaces   map[nameInTeam]*ledger.Namespace  // of subscriptions that have started
	// registering is held while a subscription registers in the ledger. A new one makes tables, which Postgres does one after the other:
	// hundreds that ask at once would wait for each other until all have run out of time.
	registering chan struct{}
}

// newStreams builds the destinations and the fetchers, and names the parts that must be ready.
func newStreams(a *App) (*streams, error) {
	s := &streams{a: a, largest: a.file().LargestBody(), subs: map[nameInTeam]*stream.Subscription{}, lanesOf: map[nameInTeam]*lane.Lanes{}, spaces: map[nameInTeam]*ledger.Namespace{},
		bars: map[nameInTeam]barring{}, stops: map[nameInTeam]context.CancelFunc{}, again: map[nameInTeam]bool{}, registering: make(chan struct{}, 4)}
	s.limits.add(a.file())
	var err error
	if s.destinations, err = destinations(a.file(), a.file, a.log, a.registry); err != nil {
		return nil, err
	}
	s.keeper = newKeeper(s.destinations, a.log)
	if s.pauses, err = newSubscriptionPauses(s); err != nil {
		return nil, err
	}
	if s.budgets, err = policy.NewBudgetMetrics(a.registry, a.log, a.budgetCaps); err != nil {
		return nil, err
	}
	metrics, err := backfill.NewMetrics(a.registry)
	if err != nil {
		return nil, err
	}
	var problems config.Problems
	if s.fetches, problems = newFetchers(a.file(), metrics, nil); len(problems) > 0 {
		return nil, problems
	}
	a.ready.set("ledger", errNotStarted)
	a.ready.set("destinations", errNotStarted)
	for _, at := range s.runs() {
		a.ready.set("subscription "+at.team+"."+at.name, errNotStarted)
	}
	s.barAll(func(at nameInTeam) string { return a.file().Barred(at.team, at.name) })
	return s, nil
}

// open opens the ledger, makes it known to s, the keeper of destinations and /readyz, and returns it. While Postgres does not answer it tries
// again. If the schema needs a migration or the configuration cannot work, it returns the error at once.
func (s *streams) open(ctx context.Context) (*ledger.Ledger, error) {
	start := s.a.file().Ledger()
	var opened *ledger.Ledger
	err := s.a.patiently(ctx, "ledger", func(ctx context.Context) error {
		cfg, err := s.a.ledgerConfig(start)
		if err != nil {
			return err
		}
		opened, err = ledger.Open(ctx, cfg)
		if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ledger, s.keeper.Store, s.counters = opened, opened, counter.New(opened, s.a.log)
	s.keeper.Tokens, s.keeper.Watch = s.counters, opened.WatchPauses
	s.keeper.TryAgain = func(name string, which destination.Again) {
		for _, lanes := range s.allLanes() {
			if lanes.TryAgain(name, which) && which == destination.AgainOne {
				return
			}
		}
	}
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
	payloads, err := reader.NewPayloads(reader.PayloadsConfig{Client: KafkaOptions(s.a.file(), config.RoleStream), MaxRecordBytes: s.recordBytes()})
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
		s.a.log.Warn("the ended pauses of destinations cannot be read yet; trying again", "error", err)
	}
	s.a.ready.set("destinations", nil)
	if err := s.a.patiently(ctx, "subscriptions' pauses", s.pauses.sync); err != nil {
		return err
	}
	s.a.ready.set("subscriptions' pauses", nil)
	g, gctx := errgroup.WithContext(ctx)
	counting, stopCounting := context.WithCancel(context.WithoutCancel(ctx)) // until the last attempt has ended
	var counted sync.WaitGroup
	counted.Go(func() { s.counters.Run(counting) })
	defer func() { stopCounting(); counted.Wait() }()
	g.Go(func() error { s.sweep(gctx, l); return nil })
	g.Go(func() error { s.keeper.Run(gctx); return nil })
	g.Go(func() error { s.pauses.run(gctx, l); return nil })
	g.Go(func() error { s.tellQuestions(gctx, l); return nil })
	s.sayElsewhere()
	g.Go(func() error {
		<-gctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begin = nil
		return nil
	})
	s.mu.Lock()
	s.begin = func(at nameInTeam) { s.start(gctx, g, l, at) }
	for _, at := range s.runs() {
		s.begin(at)
	}
	s.started = true
	s.mu.Unlock()
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
			s.a.log.Warn("the sweep of the ledger failed, which opens new tables and drops old ones; trying again", "error", err)
		case len(swept.Opened)+len(swept.Dropped) > 0:
			s.a.log.Info("ledger swept", "opened", len(swept.Opened), "dropped", len(swept.Dropped))
		}
		s.endReplaysAlone(ctx, l)
		s.leave(ctx, l)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// endReplaysAlone ends the replays of subscriptions that the file does not have any more, or has with another ledger. What the process has left out
// of a team is not gone.
func (s *streams) endReplaysAlone(ctx context.Context, l *ledger.Ledger) {
	box := inbox.New(l)
	names, _, err := box.Names(ctx)
	gone := slices.DeleteFunc(names, func(name string) bool {
		at := subscriptionOf(name)
		return s.a.file().HasLedger(at.team, at.name) || s.a.file().LeftOut(at.team)
	})
	var ids []int64
	if err == nil {
		ids, err = box.EndReplaysAlone(ctx, gone)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		s.a.log.Warn("replays that nobody runs any more could not be ended; trying again", "error", err)
	case len(ids) > 0:
		s.a.log.Warn("replays ended: their subscriptions are not configured any more, or have another ledger", "replays", ids)
	}
}

// recordBytes returns how many bytes a client must be ready to read at once: the largest record of our topics and its batch.
func (s *streams) recordBytes() int {
	return max(64<<20, int(s.a.file().LargestBody())+topics.HeaderRoom+1<<20)
}

// subscription registers one subscription in the ledger, and runs it with its lanes and backfills until ctx is done or one of them
// fails. later: the process ran before, and is ready until the
// subscription has begun and then cannot go on.
func (s *streams) subscription(ctx context.Context, l *ledger.Ledger, at nameInTeam, later bool) error {
	group := at.team + "." + at.name
	file := s.a.file()
	if !file.Runs(at.team, at.name) {
		return nil
	}
	var ns *ledger.Namespace
	err := s.a.patiently(ctx, "subscription "+group, func(context.Context) (err error) {
		select {
		case s.registering <- struct{}{}:
			defer func() { <-s.registering }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, tryTimeout) // the wait for a turn is none for Postgres
		defer cancel()
		ns, err = l.Namespace(ctx, specOf(file, at))
		return err
	})
	if err != nil {
		return err
	}
	metrics := &registered{to: s.a.registry}
	defer metrics.remove()
	sub, lanes, fetches, requests, err := s.make(l, file, at, ns, metrics)
	switch {
	case err != nil && ctx.Err() != nil: // it is to begin again by another file
		return ctx.Err()
	case err != nil && later: // no team's edit takes processes out of service
		s.bar(at, "cannot_be_made", fmt.Sprintf("it cannot be made as the file has it: %v; change that", err))
		return nil
	case err != nil:
		return err
	}
	s.pauses.follow(ctx, at) // it may have been paused before this process began
	var begun atomic.Bool
	begun.Store(!later)
	s.a.ready.probe("subscription "+group, func(context.Context) error {
		err := errors.Join(sub.Ready(), ns.Stuck(unreadAfter), s.a.waits.standsStill(at))
		if err == nil {
			begun.Store(true)
		}
		if !begun.Load() { // no team's edit takes processes out of service
			return nil
		}
		return err
	})
	s.a.ready.note("subscription "+group, func() string { return s.waits(at) })

	// The lanes end after the subscription's Run, since that closes its claims in the lanes while it drains.
	lanesCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var lanesErr, backfillErr error
	running.Go(func() { lanesErr = lanes.Run(lanesCtx) })
	if requests != nil {
		running.Go(func() { backfillErr = s.backfill(lanesCtx, fetches, requests) })
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

// make makes a subscription with its lanes as a file has it, and what asks for its backfills, if anything does.
func (s *streams) make(l *ledger.Ledger, file *config.Config, at nameInTeam, ns *ledger.Namespace, metrics prometheus.Registerer) (*stream.Subscription, *lane.Lanes, *fetchers, *batch.BackfillRequests, error) {
	s.making.RLock() // until the lanes can be found by whoever replaces what they are made of
	defer s.making.RUnlock()
	cfg := s.config(file, at, ns)
	cfg.Registerer = metrics
	if wantsBackfill(file.Teams[at.team].Subscriptions[at.name]) {
		cfg.Backfills = batch.NewBackfillRequests(ns)
	}
	sub, err := stream.New(cfg)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	ofLanes := s.lanes(file, at, ns, sub)
	ofLanes.Registerer, ofLanes.Later = metrics, later(file, s.a.agentKeys, l.ID())
	if ofLanes.Guard, err = guards(guarding{s, file, at, l, ns}); err != nil {
		return nil, nil, nil, nil, err
	}
	lanes, err := lane.New(ofLanes)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[at], s.lanesOf[at], s.spaces[at] = sub, lanes, ns
	return sub, lanes, s.fetches, cfg.Backfills, nil
}

// subscriptionIn returns a subscription of a file; an empty one where a reload has just taken it out.
func subscriptionIn(c *config.Config, at nameInTeam) *config.Subscription {
	if t := c.Teams[at.team]; t != nil && t.Subscriptions[at.name] != nil {
		return t.Subscriptions[at.name]
	}
	return &config.Subscription{}
}

// processName is this process as others name it.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// specOf returns a subscription as the ledger needs to know it: how long it keeps what, its policy and its actions.
func specOf(c *config.Config, at nameInTeam) ledger.Spec {
	sub := subscriptionIn(c, at)
	spec := ledger.Spec{
		Name: at.team + "." + at.name, Owner: processName(), Window: sub.Dedupe.Window.Std(), Latest: sub.Backlog == config.BacklogLatest,
		Done: sub.Retention.Done.Std(), Dead: sub.Retention.Dead.Std(), MaxAge: sub.Gap.MaxWait.Std(), Forget: sub.Expire.Std(),
		Policy: gate.Policy{
			Order: gate.Order(sub.Order), Start: gate.Start(sub.Start), Equal: gate.Equal(sub.Equal),
			Stale:   gate.OnStale{Snapshot: gate.StaleDo(sub.Stale.Snapshot), Delta: gate.StaleDo(sub.Stale.Delta)},
			GapWait: sub.Gap.Wait.Std(), Then: gate.Then(sub.Gap.Then), LateSnapshots: sub.Gap.Late == "run",
			BackfillWait: sub.Gap.Within.Std(), Otherwise: gate.Then(sub.Gap.Otherwise),
			MaxPerEntity: sub.Gap.MaxEvents.Entity, MaxBuffered: sub.Gap.MaxEvents.Subscription,
			MaxBytesPerEntity: int64(sub.Gap.MaxBytes.Entity), MaxBytes: int64(sub.Gap.MaxBytes.Subscription), FutureSkew: futureSkew,
		}.Share(len(sub.Sources)), // the ledger divides each share among the partitions
	}
	if sub.Dedupe.Also != nil {
		spec.Policy.Also = sub.Dedupe.Also.Window.Std()
	}
	for _, act := range sub.Actions {
		to, ok := c.Destination(at.team, act.To)
		if !ok {
			continue // it is barred: see lost
		}
		spec.Actions = append(spec.Actions, ledger.ActionSpec{Name: act.Name, Destination: to.FullName(), OnDead: ledger.OnDead(act.OnDead)})
	}
	return spec
}

// lanes returns the configuration of a subscription's lanes, without Later and Registerer. The caller holds making.
func (s *streams) lanes(file *config.Config, at nameInTeam, ns *ledger.Namespace, sub *stream.Subscription) lane.Config {
	its, largest := map[string]lane.DestinationConfig{}, int64(0)
	for _, source := range file.SourcesOf(at.team, at.name) {
		largest = max(largest, file.MaxBody(source.Team, source.Name))
	}
	for _, d := range file.DestinationsOf(at.team, at.name) {
		its[d.FullName()] = s.destination(d.FullName())
	}
	var told []string // actions with on_newer: cancel
	for _, a := range subscriptionIn(file, at).Actions {
		if a.OnNewer == config.OnNewerCancel {
			told = append(told, a.Name)
		}
	}
	var cancels func(action string) bool
	if len(told) > 0 {
		cancels = func(action string) bool { return slices.Contains(told, action) }
	}
	return lane.Config{
		Subscription: at.team + "." + at.name, Latest: file.Teams[at.team].Subscriptions[at.name].Backlog == config.BacklogLatest,
		Ledger: ns, Payloads: s.payloads, Codec: lane.Codec{Pack: record.PackEvent, Unpack: record.UnpackEvent}, Enrich: s.fetches.enricher(), Destinations: its, Find: s.finder(at.team),
		MaxInFlight: inFlight(file, at), CancelOnNewer: cancels,
		MaxBody: largest, Tracer: s.a.telemetry.tracer, Alive: sub.Alive, OnFenced: sub.Fenced, Logger: s.a.log,
	}
}

// finder returns the function that finds the destination of an action that was made for another one than the subscription has now. It
// goes by the name that actions of the team call it by: a destination that the team had for itself and shares now is the same to them,
// as is one that it has for itself again.
func (s *streams) finder(team string) func(name string) (string, lane.DestinationConfig, bool) {
	return func(name string) (string, lane.DestinationConfig, bool) {
		d, ok := s.a.file().Destination(team, strings.TrimPrefix(name, team+"/"))
		if !ok {
			return "", lane.DestinationConfig{}, false
		}
		made := s.destination(d.FullName())
		return d.FullName(), made, made.Sink != nil
	}
}

// inFlight returns how many attempts of a subscription may be under way: as many as all of its destinations take, so that those that
// hang leave room for the others. Actions of before may be for destinations that it names no more.
func inFlight(c *config.Config, at nameInTeam) int {
	sum, counted := 0, map[string]bool{}
	for _, action := range c.Teams[at.team].Subscriptions[at.name].Actions {
		if d, ok := c.Destination(at.team, action.To); ok && !counted[action.To] {
			counted[action.To] = true
			sum += d.Concurrency
		}
	}
	return max(256, sum)
}

// config returns the configuration of a subscription, without its backfills and Registerer.
func (s *streams) config(file *config.Config, at nameInTeam, ns *ledger.Namespace) stream.Config {
	sub := file.Teams[at.team].Subscriptions[at.name]
	begin, err := config.ParseBegin(sub.Begin)
	if err != nil {
		panic(err) // config.Load has checked it
	}
	var names []string
	retention := map[string]time.Duration{}
	for _, source := range file.SourcesOf(at.team, at.name) {
		names = append(names, source.Topic)
		retention[source.Topic] = source.Topics.Retention.Std()
	}
	selects, err := selection(sub)
	if err != nil {
		panic(err) // config.Load has checked it
	}
	return stream.Config{
		Select: selects,
		Group:  at.team + "." + at.name, Topics: names, Client: KafkaOptions(file, config.RoleStream), Filter: reader.Globs(sub.Types),
		Begin: owner.Begin{All: begin.All, At: begin.At}, Ledger: ns, Replays: ns, Decides: decides(file, at), Payloads: s.payloads,
		Export: true, Retention: retention, Tracer: s.a.telemetry.tracer, Logger: s.a.log,
		MaxRecordBytes: s.recordBytes(), SessionTimeout: file.Kafka.SessionTimeout.Std(), UnreadAfter: file.Kafka.UnreadAfter.Std(), BatchPace: file.Kafka.BatchWait.Std(), InstanceID: file.Kafka.InstanceID,
		// The rest of the drain budget is for the parts that stop before and after the lanes.
		DrainTimeout: s.a.cfg.Drain * 2 / 3,
	}
}

// selection compiles match and the second key of a subscription.
func selection(sub *config.Subscription) (func(*schemas.Event) (bool, gate.Also, error), error) {
	key := ""
	if sub.Dedupe.Also != nil {
		key = sub.Dedupe.Also.Key
	}
	return policy.Select(sub.Match, key)
}

// close closes what the subscriptions shared, after they have ended. All parts close at the same time: one that hangs takes no time from
// the others.
func (s *streams) close(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	s.making.Lock() // a reload may be under way
	s.closed = true
	for name, d := range s.destinations {
		all.Go(func() { s.closeSink(ctx, name, d.Sink) })
	}
	fetches := s.fetches
	s.making.Unlock()
	all.Go(s.closing.Wait)
	all.Go(fetches.close)
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
func (a *App) subscriptionItems(ctx context.Context) []api.SubscriptionItem {
	waits, err := a.waits.look(ctx, attentionKept)
	if err != nil {
		waits = a.waits.seen()
	}
	var items []api.SubscriptionItem
	c := a.file()
	for _, team := range sortedKeys(c.Teams) {
		for _, name := range sortedKeys(c.Teams[team].Subscriptions) {
			item := api.SubscriptionItem{People: peopleOf(c, team, name), Team: team, Subscription: name, Sources: c.Teams[team].Subscriptions[name].Sources,
				Missing: "this process has no stream role", Partitions: []api.PartitionItem{}}
			switch at := (nameInTeam{team, name}); {
			case a.stream == nil:
			case !c.HasLedger(team, name):
				item.Missing = "elsewhere: " + a.elsewhere(at.team+"."+at.name).Error()
			default:
				a.stream.describe(nameInTeam{team, name}, &item)
				waits.describe(nameInTeam{team, name}, &item)
			}
			items = append(items, item)
		}
	}
	return items
}

// describe adds to item how a subscription is doing in this process: whether it is ready, and its partitions.
func (s *streams) describe(at nameInTeam, item *api.SubscriptionItem) {
	s.mu.Lock()
	sub, barred := s.subs[at], s.bars[at].why
	s.mu.Unlock()
	if barred != "" {
		item.Missing = barred
		return
	}
	if sub == nil {
		item.Missing = errNotStarted.Error()
		if !s.a.file().Runs(at.team, at.name) {
			item.Missing, item.Paused = "elsewhere: this process does not run it, by its --subscriptions; ask one that does, by --url", s.pauses.pauseItemOf(at)
		}
		return
	}
	err := sub.Ready()
	item.Ready, item.Missing, item.Paused = err == nil, "", s.pauses.pauseItemOf(at)
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

// describe adds to item how its partitions are doing in all processes, and what waits for an operator. A subscription of which a partition
// stands still is not ready.
func (l look) describe(at nameInTeam, item *api.SubscriptionItem) {
	if sum, more, known := l.ofSubscription(at); known {
		item.Attention, item.AttentionMore = &sum, more
	}
	n, known := l.partitions.counts[at]
	if !known {
		return
	}
	item.Counts = &n
	if item.Ready && n.Stopped+n.Unread > 0 {
		item.Ready, item.Missing = false, standText(n)+"; `forebay attention` says what to run"
	}
}

// standText says how many partitions stand still.
func standText(n api.PartitionCounts) string {
	var parts []string
	if n.Stopped > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d partitions are stopped", n.Stopped, n.Total))
	}
	if n.Unread > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d partitions are read by nobody", n.Unread, n.Total))
	}
	return strings.Join(parts, ", ")
}
