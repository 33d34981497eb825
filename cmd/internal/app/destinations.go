package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// policyOf returns the policy that the configuration gives a destination with this sink.
func policyOf(d config.NamedDestination, s sink.Sink) destination.Policy {
	_, endpoint := s.(sink.Endpoint)
	p := destination.Policy{
		Concurrency: d.Concurrency, MaxHold: d.MaxHold.Std(), Recovery: d.Recovery.Std(), Endpoint: endpoint, Agent: cmp.Or(d.Agent, d.Name),
		Breaker: destination.Breaker{Failures: d.Breaker.Failures, Window: d.Breaker.Window.Std(),
			Wait: d.Breaker.Wait.Std(), MaxWait: d.Breaker.MaxWait.Std(), Floor: d.Breaker.Floor},
		Pause: destination.AutoPause{Failures: d.Pause.Failures, After: d.Pause.After.Std()},
	}
	if r := d.Rate; r != nil {
		p.Rate = destination.Rate{Limit: r.Limit, Per: r.Per.Std(), Burst: r.Burst, OnLimit: destination.OnLimit(r.OnLimit)}
	}
	return p
}

// newKeeper makes the keeper of these destinations: it takes over pauses from the ledger and writes automatic ones there. It has no
// store yet: streams.open gives it the ledger.
func newKeeper(all map[string]lane.DestinationConfig, log *slog.Logger) *destination.Keeper {
	k := &destination.Keeper{Destinations: map[string]*destination.Destination{}, Logger: log}
	for name, d := range all {
		k.Destinations[name] = d.Shared
	}
	return k
}

// destinationsAPI answers questions about destinations by what this process knows, and pauses them in the ledger, for all processes.
type destinationsAPI struct{ s *streams }

// Destinations lists the configured destinations that this process runs, the shared ones first, as AllDestinations has them, then those
// that actions wait for and the file has no more.
func (p destinationsAPI) Destinations(context.Context) ([]api.DestinationItem, error) {
	return p.items(p.s.waiting()), nil
}

// items lists them, of which waiting says what waits for them.
func (p destinationsAPI) items(waiting map[string]lane.Waiting) (items []api.DestinationItem) {
	for _, d := range p.s.a.file().AllDestinations() {
		state := p.s.destination(d.FullName()).Shared
		if state == nil {
			continue // a reload is just adding it
		}
		item := destinationItem(state.Status())
		item.URL = p.s.where(d.FullName())
		item.Team, item.Destination, item.Teams = d.Team, d.Name, d.Teams
		item.Type, item.Concurrency, item.Waiting = d.Type, d.Concurrency, waiting[d.FullName()].Actions
		item.Rate = rateItem(d.Rate)
		item.Elsewhere = p.s.a.file().UsedElsewhere(d)
		items = append(items, item)
	}
	return append(items, p.missing()...)
}

// missing returns the destinations that actions in the lanes are for and that their team may not use any more, as the team's own.
func (p destinationsAPI) missing() (items []api.DestinationItem) {
	waiting := map[nameInTeam]lane.Waiting{}
	for of, lanes := range p.s.allLanes() {
		for full, n := range lanes.Waiting() {
			at := nameInTeam{of.team, strings.TrimPrefix(full, of.team+"/")}
			if _, there := p.s.a.file().Destination(at.team, at.name); !there && n.Actions > 0 {
				waiting[at] = waiting[at].With(n)
			}
		}
	}
	for at, n := range waiting {
		items = append(items, api.DestinationItem{Team: at.team, Destination: at.name, State: api.DestinationMissing, Waiting: n.Actions, FailingSince: timeOrNull(n.Since)})
	}
	slices.SortFunc(items, func(a, b api.DestinationItem) int {
		return cmp.Or(strings.Compare(a.Team, b.Team), strings.Compare(a.Destination, b.Destination))
	})
	return items
}

// where returns the URL that a destination calls, for operators to read; empty if it calls none, or this process does not run it.
func (s *streams) where(name string) string {
	if l, ok := s.destination(name).Sink.(sink.Located); ok {
		return l.Where()
	}
	return ""
}

// waiting returns what waits in the lanes of all subscriptions, by destination. What a paused subscription has is held.
func (s *streams) waiting() map[string]lane.Waiting {
	sum := map[string]lane.Waiting{}
	for at, lanes := range s.allLanes() {
		paused := s.pauses.of(at).Paused != nil
		for destination, n := range lanes.Waiting() {
			if paused {
				n.Held = n.Actions
			}
			sum[destination] = sum[destination].With(n)
		}
	}
	return sum
}

// forgotten returns the actions that no lane of this process has, by subscription and partition.
func (s *streams) forgotten() map[nameInTeam]map[ledger.Partition]int {
	all := map[nameInTeam]map[ledger.Partition]int{}
	for at, lanes := range s.allLanes() {
		all[at] = lanes.Forgotten()
	}
	return all
}

// waitsNoted is for how long an action must have waited for it to be said of the subscription.
const waitsNoted = time.Minute

// waits says in words how many actions of a subscription wait in this process, for what and since when; empty where none has waited for
// waitsNoted. It names no address.
func (s *streams) waits(at nameInTeam) string {
	s.mu.Lock()
	lanes := s.lanesOf[at]
	s.mu.Unlock()
	if lanes == nil { // it runs no more
		return ""
	}
	if p := s.pauses.of(at).Paused; p != nil {
		return fmt.Sprintf("%s.%s is paused since %s by %s: %s", at.team, at.name, timeText(p.At), p.By, p.Reason)
	}
	var sum lane.Waiting
	var why []string
	waiting := lanes.Waiting()
	for _, name := range sortedKeys(waiting) {
		sum = sum.With(waiting[name])
		due := waiting[name].Due
		if d := s.destination(name).Shared; d != nil && !due.IsZero() && time.Since(due) >= waitsNoted {
			why = append(why, "destination "+strings.TrimPrefix(name, at.team+"/")+" "+inWords(d.Status()))
		}
	}
	if sum.Since.IsZero() || time.Since(sum.Since) < waitsNoted {
		return ""
	}
	switch {
	case sum.Held == sum.Actions:
		why = []string{"they wait for an approval or a budget"}
	case sum.Held > 0:
		why = append(why, fmt.Sprintf("%d of them wait for an approval or a budget", sum.Held))
	}
	return fmt.Sprintf("%d actions of %s.%s wait since %s: %s", sum.Actions, at.team, at.name, api.DurationText(time.Since(sum.Since)), strings.Join(why, "; "))
}

// inWords says what keeps a destination from its attempts.
func inWords(s destination.Status) string {
	switch {
	case s.Paused != nil:
		return fmt.Sprintf("is paused by %s: %s", s.Paused.By, s.Paused.Reason)
	case !s.OnHoldUntil.IsZero():
		return "has asked for no calls until " + timeText(s.OnHoldUntil)
	case s.Failing.IsZero() || s.Last == nil:
		return "is slow, at its rate or without a free slot, or actions wait for their next attempt"
	}
	cause := s.Last.Error[strings.LastIndex(s.Last.Error, ": ")+1:] // what is before it has the address
	cause = strings.TrimSpace(ledger.Clean(cause, 100))
	switch s.Last.Class {
	case sink.ClassTimeout, sink.ClassNetwork, sink.ClassDNS:
		return "does not answer (" + cause + ")"
	}
	if s.Last.Code > 0 {
		return fmt.Sprintf("answers %d", s.Last.Code)
	}
	return "fails (" + cause + ")"
}

// destinationItem returns a state as the API has it. The caller adds what the configuration says of the destination.
func destinationItem(s destination.Status) api.DestinationItem {
	item := api.DestinationItem{State: string(s.State), Breaker: string(s.Breaker), Running: s.Running, ConsecutiveFailures: s.Failures,
		FailingSince: timeOrNull(s.Failing), OnHoldUntil: timeOrNull(s.OnHoldUntil), OpenUntil: timeOrNull(s.OpenUntil)}
	if f := s.Last; f != nil {
		item.LastError = &api.FailureItem{At: f.At.UTC(), Class: string(f.Class), Code: f.Code, Error: f.Error}
	}
	if s.Paused != nil {
		item.Paused = pauseItem(*s.Paused)
	}
	return item
}

func rateItem(r *config.CallRate) *api.RateItem {
	if r == nil {
		return nil
	}
	return &api.RateItem{Limit: r.Limit, Per: r.Per.String(), Burst: r.Burst, OnLimit: r.OnLimit}
}

func pauseItem(p ledger.Pause) *api.PauseItem {
	p.At = p.At.UTC()
	return &p
}

// Destination returns one destination of the configuration. One without a team is shared.
func (p destinationsAPI) Destination(ctx context.Context, team, name string) (*api.DestinationItem, error) {
	items, err := p.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].Team == team && items[i].Destination == name {
			return &items[i], nil
		}
	}
	full := fullName(team, name)
	if team != "" && slices.ContainsFunc(items, func(i api.DestinationItem) bool { return i.Team == "" && i.Destination == name }) {
		return nil, schemas.Errorf(schemas.NotFound, "", "%s is no destination of team %s alone: it is shared, and called %s", full, team, name)
	}
	var known []names.Name
	for _, i := range items {
		known = append(known, names.Name{Team: i.Team, Name: i.Destination})
	}
	return nil, names.Destination.Unknown(names.Name{Team: team, Name: name}, known)
}

func fullName(team, name string) string {
	return config.NamedDestination{Team: team, Name: name}.FullName()
}

// Pause pauses a destination. If it is paused already, the error says by whom.
func (p destinationsAPI) Pause(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error) {
	full := fullName(team, name)
	return p.change(ctx, team, name, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		return pauseOnce(full, now, r, func(by string) (ledger.Pause, error) {
			return l.PauseDestination(ctx, full, ledger.Pause{By: by, Reason: r.Reason})
		})
	})
}

// pauseOnce pauses by the call pause what has the pause now, nil: none. In a dry run it only says whether that could be done.
func pauseOnce(name string, now *ledger.Pause, r api.PauseRequest, pause func(by string) (ledger.Pause, error)) error {
	if now == nil && !r.DryRun {
		by := cmp.Or(r.By, "unknown")
		paused, err := pause(by)
		if err != nil || paused.By == by && paused.Reason == r.Reason {
			return err
		}
		now = &paused // another operator paused it after it was read
	}
	if now != nil {
		return schemas.Errorf(schemas.Conflict, "", "%s is paused already, since %s by %s: %s", name, timeText(now.At), now.By, now.Reason)
	}
	return nil
}

// Resume ends a pause, and a hold that the destination asked for, in all processes, and has what waits for its next attempt there tried now; the
// latter also where nothing gets through. If this process knows of none of them, that is an error of kind
// Conflict: the ledger's, or in a dry run one from here.
func (p destinationsAPI) Resume(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error) {
	full, by := fullName(team, name), cmp.Or(r.By, "unknown")
	return p.change(ctx, team, name, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		switch item, err := p.Destination(ctx, team, name); {
		case err != nil || now != nil:
		case item.Paused != nil && item.Paused.Scope != "":
			return schemas.Errorf(schemas.Conflict, "", "%s is not paused alone: `%s`", full, item.Paused.Command("destinations", ""))
		case (item.OnHoldUntil != nil || item.FailingSince != nil) && r.DryRun:
			return nil
		case item.OnHoldUntil != nil || item.FailingSince != nil:
			return l.EndHold(ctx, full, by, r.Reason)
		}
		if r.DryRun && now == nil {
			return schemas.Errorf(schemas.Conflict, "", "%s is not paused", full)
		}
		if r.DryRun {
			return nil
		}
		_, err := l.ResumeDestination(ctx, full, by, r.Reason)
		return err
	})
}

// change calls do with the pause that the ledger has for a destination, nil if it is not paused, and returns the destination as it is
// then. do is called in a dry run, too, and must not write then. Otherwise this process follows the ledger at once, the others within a second.
func (p destinationsAPI) change(ctx context.Context, team, name string, dryRun bool, do func(l *ledger.Ledger, now *ledger.Pause) error) (*api.DestinationItem, error) {
	if _, err := p.Destination(ctx, team, name); err != nil {
		return nil, err
	}
	l, err := p.s.openLedger()
	if err != nil {
		return nil, err
	}
	states, err := l.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(l, states[fullName(team, name)].Paused); err != nil {
		return nil, err
	}
	if !dryRun {
		if err := p.s.keeper.Sync(ctx); err != nil {
			return nil, err
		}
	}
	return p.Destination(ctx, team, name)
}
