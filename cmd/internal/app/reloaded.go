package app

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// reload makes what differs between two configurations, and returns the function that has it in force, and the one that gives it up instead; nothing
// has changed before either is called.
// It is to be called once the second configuration is that of the process.
//
// A destination is replaced in the lanes, whose attempts under way end with the one before. A subscription that differs in itself, or in what it
// reads or may call, is stopped as with the process, and begins again; so no subscription is touched by what others have changed.
func (s *streams) reload(before, now *config.Config) (inForce func(), giveUp func() error, err error) {
	made, err := s.remake(before, now)
	if err != nil {
		return nil, nil, err
	}
	fetches, problems := newFetchers(now, s.fetches.metrics, s.fetches)
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems, made.discard())
	}
	return func() {
		s.limits.add(now)
		s.replace(now, made, fetches)
		s.restartChanged(before, now)
		for _, lanes := range s.allLanes() {
			lanes.AskAgain(ledger.WaitingBudget)
		}
	}, made.discard, nil
}

// remade are destinations that a reload has made, by their full names, and the metrics of those that are new.
type remade struct {
	list    map[string]lane.DestinationConfig
	metrics registered
}

// remake builds the destinations that differ. Those that are new get what all subscriptions share of them.
func (s *streams) remake(before, now *config.Config) (*remade, error) {
	made := &remade{list: map[string]lane.DestinationConfig{}, metrics: registered{to: s.a.registry}}
	old := map[string]config.NamedDestination{}
	for _, d := range before.AllDestinations() {
		old[d.FullName()] = d
	}
	for _, d := range now.AllDestinations() {
		name := d.FullName()
		if was, ok := old[name]; ok && sameDestination(before, was, now, d) {
			continue
		}
		m, err := makeDestination(now, d, s.a.file, s.a.log)
		if err == nil {
			m.Shared = s.destination(name).Shared // of one that was taken out and is back, too
			made.list[name] = m
			if m.Shared == nil {
				m.Shared, err = destination.New(destination.Config{Name: name, Policy: policyOf(d, m.Sink), Logger: s.a.log, Registerer: &made.metrics})
				made.list[name] = m
			}
		}
		if err != nil {
			return nil, errors.Join(err, made.discard())
		}
	}
	return made, nil
}

// sameDestination reports whether two configurations make the same of a destination: of its keys, and of the parameters of actions that go there.
func sameDestination(before *config.Config, was config.NamedDestination, now *config.Config, is config.NamedDestination) bool {
	return reflect.DeepEqual(was.Destination, is.Destination) && before.DirOf(was) == now.DirOf(is) && reflect.DeepEqual(before.ActionParams(was), now.ActionParams(is)) &&
		reflect.DeepEqual(before.HiddenOf(was), now.HiddenOf(is))
}

// discard closes sinks that are not used after all, and takes back the metrics of their destinations: the next reload may make them again.
func (made *remade) discard() (err error) {
	made.metrics.remove()
	for _, d := range made.list {
		err = errors.Join(err, d.Sink.Close(context.Background())) // it has not connected
	}
	return err
}

// replace has attempts made at other destinations from now on, and subscriptions made with other fetchers.
func (s *streams) replace(now *config.Config, made *remade, fetches *fetchers) {
	s.making.Lock()
	defer s.making.Unlock()
	if s.closed {
		if err := made.discard(); err != nil {
			s.a.log.Warn("close destinations", "error", err)
		}
		return
	}
	s.fetches = fetches
	for _, d := range now.AllDestinations() {
		m, ok := made.list[d.FullName()]
		if !ok {
			continue
		}
		before := s.destination(d.FullName())
		s.sinks.Lock()
		s.destinations[d.FullName()] = m
		s.sinks.Unlock()
		if before.Shared == nil {
			s.keeper.Add(m.Shared)
		} else if err := m.Shared.SetPolicy(policyOf(d, m.Sink)); err != nil {
			s.a.log.Error("a destination keeps its rate, breaker and concurrency", "destination", d.FullName(), "error", err) // config.Load has checked them
		}
		s.replaceIn(d.FullName(), before.Sink, m)
	}
}

// replaceIn replaces a destination in all lanes, and closes the sink of before, if there is one, when no attempt uses it any more.
func (s *streams) replaceIn(name string, before sink.Sink, m lane.DestinationConfig) {
	var used []<-chan struct{}
	for _, lanes := range s.allLanes() {
		unused, err := lanes.Replace(name, m)
		if err != nil {
			s.a.log.Error("a destination stays as it was until the process starts again", "destination", name, "error", err) // config.Load has checked it
			return
		}
		used = append(used, unused)
	}
	if before == nil {
		return
	}
	s.closing.Go(func() {
		for _, unused := range used {
			<-unused
		}
		s.closeSink(context.Background(), name, before)
	})
}

func (s *streams) closeSink(ctx context.Context, name string, of sink.Sink) {
	if err := of.Close(ctx); err != nil {
		s.a.log.Warn("close destination", "destination", name, "error", err)
	}
}

// allLanes returns those of all subscriptions that run.
func (s *streams) allLanes() map[nameInTeam]*lane.Lanes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lanesOf)
}

// destination returns a destination by its full name; the zero value if there is none.
func (s *streams) destination(name string) lane.DestinationConfig {
	s.sinks.Lock()
	defer s.sinks.Unlock()
	return s.destinations[name]
}

// restartChanged starts the subscriptions that are new or may run again, stops those that are gone, and has those begin again that differ.
func (s *streams) restartChanged(before, now *config.Config) {
	s.mu.Lock()
	var freed []nameInTeam
	for at := range s.bars {
		if now.Runs(at.team, at.name) && now.Barred(at.team, at.name) == "" && lost(now, at) == "" {
			freed = append(freed, at)
			delete(s.bars, at)
		}
	}
	s.mu.Unlock()
	s.barAll(func(at nameInTeam) string {
		if why := now.Barred(at.team, at.name); why != "" {
			return why
		}
		return lost(now, at)
	})
	same := sameSubscriptions(before, now, s.allLanes())
	all := map[nameInTeam]bool{}
	for _, n := range slices.Concat(configured(before).subscriptions, configured(now).subscriptions) {
		all[nameInTeam{n.Team, n.Name}] = true
	}
	for at := range all {
		ran, runs := before.Runs(at.team, at.name), now.Runs(at.team, at.name)
		switch {
		case runs && !ran:
			s.a.ready.set("subscription "+at.team+"."+at.name, nil)
			s.restart(at)
		case ran && !runs, ran && runs && (slices.Contains(freed, at) || !same(at)):
			s.restart(at)
		}
	}
}

// lost says what a subscription cannot run without that is not there any more: of one that keeps what it had, something else may have gone. Empty:
// nothing.
func lost(c *config.Config, at nameInTeam) string {
	if len(c.SourcesOf(at.team, at.name)) == 0 {
		return "team " + at.team + " has none of its sources any more"
	}
	for _, action := range c.Teams[at.team].Subscriptions[at.name].Actions {
		if _, ok := c.Destination(at.team, action.To); !ok {
			return "team " + at.team + " has no destination " + action.To + " any more"
		}
	}
	return ""
}

// sameSubscriptions returns what reports whether two configurations have a subscription do the same, with the lanes that it has. A destination that
// is new is found when it is needed: only lanes with actions that have waited for it begin again.
func sameSubscriptions(before, now *config.Config, lanes map[nameInTeam]*lane.Lanes) func(at nameInTeam) bool {
	had, has := namesOfDestinations(before), namesOfDestinations(now)
	return func(at nameInTeam) bool {
		old, names, its := had[at.team], has[at.team], lanes[at]
		if its == nil && len(old) != len(names) || its != nil && its.Lacks() {
			return false
		}
		gone := slices.ContainsFunc(old, func(name string) bool { return !slices.Contains(names, name) })
		return !gone && sameSubscription(before, now, at)
	}
}

// namesOfDestinations returns by team which destinations open actions may be for.
func namesOfDestinations(c *config.Config) map[string][]string {
	names := map[string][]string{}
	for _, d := range c.AllDestinations() {
		for team := range c.Teams {
			if use, ok := c.Destination(team, d.Name); ok && use.FullName() == d.FullName() {
				names[team] = append(names[team], d.FullName()+" "+d.Agent)
			}
		}
	}
	return names
}

// sameSubscription is sameSubscriptions of all but where the actions of the team may go.
func sameSubscription(before, now *config.Config, at nameInTeam) bool {
	of := func(c *config.Config) any {
		sub := *c.Teams[at.team].Subscriptions[at.name]
		sub.Owners, sub.Contact = nil, ""
		sub.Budget, sub.Actions = nil, slices.Clone(sub.Actions) // budgets are read at every attempt
		for i := range sub.Actions {
			sub.Actions[i].Budget = nil
		}
		type source struct {
			name, topic    string
			retention      config.Duration
			maxBody        int64
			thin, backfill any
			element        any
		}
		var sources []source
		for _, s := range c.SourcesOf(at.team, at.name) {
			one := source{s.FullName(), s.Topic, s.Topics.Retention, c.MaxBody(s.Team, s.Name), s.Thin, s.Backfill, nil}
			if s.Backfill != nil {
				one.element = c.BackfillEvent(s.Team, s.Name)
			}
			sources = append(sources, one)
		}
		return []any{sub, sources, inFlight(c, at), c.Policy, c.Teams[at.team].Policy}
	}
	return reflect.DeepEqual(of(before), of(now))
}

// registered takes metrics that are removed again.
type registered struct {
	to   prometheus.Registerer
	mu   sync.Mutex
	list []prometheus.Collector
}

// Register implements [prometheus.Registerer].
func (r *registered) Register(c prometheus.Collector) error {
	err := r.to.Register(c)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, c)
	}
	return err
}

// MustRegister implements [prometheus.Registerer].
func (r *registered) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements [prometheus.Registerer].
func (r *registered) Unregister(c prometheus.Collector) bool { return r.to.Unregister(c) }

// remove unregisters all of them.
func (r *registered) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.list {
		r.to.Unregister(c)
	}
}
