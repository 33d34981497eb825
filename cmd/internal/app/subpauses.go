package app

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
)

// subscriptionPauses keeps the subscriptions of this process in step with the ledger: paused there, paused here. Safe for concurrent use.
type subscriptionPauses struct {
	s      *streams
	paused *prometheus.GaugeVec
	wakes  chan struct{} // capacity 1, never closed: run is to sync

	syncing sync.Mutex // one at a time: an older answer would undo a newer one
	mu      sync.Mutex
	states  map[string]ledger.SubscriptionState // by "<team>.<subscription>"
	shown   map[string]bool                     // by the gauge; only sync uses it
}

func newSubscriptionPauses(s *streams) (*subscriptionPauses, error) {
	p := &subscriptionPauses{s: s, wakes: make(chan struct{}, 1), states: map[string]ledger.SubscriptionState{}, paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "forebay", Subsystem: "subscription", Name: "paused", Help: "1 while the subscription is paused: nothing is decided and nothing is attempted."},
		[]string{"subscription"})}
	return p, s.a.registry.Register(p.paused)
}

const (
	pausesAgain   = time.Second / 2 // after a failure
	pausesTimeout = 5 * time.Second
)

// run syncs when pauses may have changed, until ctx is done.
func (p *subscriptionPauses) run(ctx context.Context, l *ledger.Ledger) {
	defer l.WatchPauses(p.wake)()
	ok := true
	for {
		err := p.sync(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case ok && err != nil:
			p.s.a.log.Warn("pauses of subscriptions cannot be read; trying again", "error", err)
		case !ok && err == nil:
			p.s.a.log.Info("pauses of subscriptions can be read again")
		}
		var again <-chan time.Time
		if ok = err == nil; !ok {
			again = time.After(pausesAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wakes:
		case <-again:
		}
	}
}

// wake has run sync.
func (p *subscriptionPauses) wake() {
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// sync takes over what the ledger has, once.
func (p *subscriptionPauses) sync(ctx context.Context) error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pausesTimeout)
	defer cancel()
	l, err := p.s.openLedger()
	if err != nil {
		return err
	}
	states, err := l.Subscriptions(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	before := p.states
	p.states = states
	p.mu.Unlock()
	shown := p.shown
	p.shown = map[string]bool{}
	for at := range p.s.topicsOf() {
		name := at.team + "." + at.name
		p.shown[name] = true
		was, _ := ledger.PauseOfSubscription(before, name)
		is, by := ledger.PauseOfSubscription(states, name)
		p.show(name, by, was, is)
		if samePause(was.Paused, is.Paused) && len(was.Ended) == len(is.Ended) {
			continue
		}
		p.apply(ctx, at)
	}
	for name := range shown {
		if !p.shown[name] { // it was taken out
			p.paused.DeleteLabelValues(name)
		}
	}
	return nil
}

// show sets the gauge, and logs what has changed.
func (p *subscriptionPauses) show(name, by string, before, now ledger.SubscriptionState) {
	value := 0.0
	if now.Paused != nil {
		value = 1
	}
	p.paused.WithLabelValues(name).Set(value)
	switch {
	case samePause(before.Paused, now.Paused):
	case now.Paused != nil:
		p.s.a.log.Warn("subscription is paused: nothing is decided and nothing attempted until `"+resumeCommand(by)+"`", "subscription", name,
			"since", now.Paused.At.UTC(), "by", now.Paused.By, "reason", now.Paused.Reason)
	default:
		p.s.a.log.Info("subscription is resumed", "subscription", name)
	}
}

func samePause(a, b *ledger.Pause) bool {
	return (a == nil) == (b == nil) && (a == nil || a.At.Equal(b.At))
}

// follow has a subscription that has just begun here follow what was read last. It waits for a sync under way: what that reads is newer.
func (p *subscriptionPauses) follow(ctx context.Context, at nameInTeam) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.apply(ctx, at)
	p.wake() // for the gauge
}

// apply pauses or resumes a subscription of this process, as the table of pauses said when it was read last. The lanes come first: that
// of the reader may wait. The caller holds syncing.
func (p *subscriptionPauses) apply(ctx context.Context, at nameInTeam) {
	p.s.mu.Lock()
	sub, lanes := p.s.subs[at], p.s.lanesOf[at]
	p.s.mu.Unlock()
	state := p.of(at)
	if lanes != nil {
		lanes.SetPauses(lane.Pauses{Since: state.Since, Ended: state.Ended})
	}
	if sub != nil {
		sub.Pause(ctx, state.Paused != nil)
	}
}

// of returns what was read last of a subscription.
func (p *subscriptionPauses) of(at nameInTeam) ledger.SubscriptionState {
	p.mu.Lock()
	defer p.mu.Unlock()
	state, _ := ledger.PauseOfSubscription(p.states, at.team+"."+at.name)
	return state
}

// own returns the pause of a subscription itself; nil: it has none.
func (p *subscriptionPauses) own(at nameInTeam) *ledger.Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[at.team+"."+at.name].Paused
}

// scopePauses returns the pauses of all, of teams and of agents that stand, as this process knows them, by their names in the ledger.
func (s *streams) scopePauses() map[string]ledger.Pause {
	all := s.keeper.AgentPauses()
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	for key, state := range s.pauses.states {
		if _, _, ok := scopeOf(key); ok && state.Paused != nil {
			all[key] = *state.Paused
		}
	}
	return all
}

// by returns the name of the widest pause that keeps a subscription from going on; empty: none does.
func (p *subscriptionPauses) by(at nameInTeam) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, by := ledger.PauseOfSubscription(p.states, at.team+"."+at.name)
	return by
}

// pauseItemOf returns the pause of a subscription as the API has it; nil if it is not paused.
func (p *subscriptionPauses) pauseItemOf(at nameInTeam) *api.PauseItem {
	if paused := p.of(at).Paused; paused != nil {
		return pauseItem(*paused)
	}
	return nil
}

// Pause pauses a subscription in all processes. If it is paused already, the error says by whom.
func (s *steeringAPI) Pause(ctx context.Context, team, name string, r api.PauseRequest) (*api.SubscriptionItem, error) {
	full := team + "." + name
	return s.changePause(ctx, nameInTeam{team, name}, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		return pauseOnce(full, now, r, func(by string) (ledger.Pause, error) { return l.PauseSubscription(ctx, full, by, r.Reason) })
	})
}

// Resume ends a pause. If there is none, that is an error of kind Conflict: the ledger's, or in a dry run one from here.
func (s *steeringAPI) Resume(ctx context.Context, team, name string, r api.PauseRequest) (*api.SubscriptionItem, error) {
	full := team + "." + name
	return s.changePause(ctx, nameInTeam{team, name}, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		if by := s.a.stream.pauses.by(nameInTeam{team, name}); now == nil && by != "" && by != full {
			return schemas.Errorf(schemas.Conflict, "", "%s is not paused alone: `%s`", full, resumeCommand(by))
		}
		if r.DryRun && now == nil {
			return schemas.Errorf(schemas.Conflict, "", "%s is not paused", full)
		}
		if r.DryRun {
			return nil
		}
		_, err := l.ResumeSubscription(ctx, full, cmp.Or(r.By, "unknown"), r.Reason)
		return err
	})
}

// changePause calls do with the pause that the ledger has for a subscription, nil if it is not paused, and returns the subscription as it is
// then. Without dryRun this process follows the ledger at once; the other processes do within a second.
func (s *steeringAPI) changePause(ctx context.Context, at nameInTeam, dryRun bool, do func(l *ledger.Ledger, now *ledger.Pause) error) (*api.SubscriptionItem, error) {
	if err := s.configured(at); err != nil {
		return nil, err
	}
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	states, err := l.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(l, states[at.team+"."+at.name].Paused); err != nil {
		return nil, err
	}
	if !dryRun {
		if err := s.a.stream.pauses.sync(ctx); err != nil {
			return nil, err
		}
	}
	return (&stopsAPI{s.a}).Subscription(ctx, at.team, at.name)
}
