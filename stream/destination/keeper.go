package destination

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Store keeps what all processes share of destinations; [ledger.Ledger] implements it.
type Store interface {
	// Destinations reads what is kept, by name. What is not in it is neither paused nor failing.
	Destinations(ctx context.Context) (map[string]ledger.DestinationState, error)
	// PauseDestination stores a pause. Where the destination is paused already, that pause stays.
	PauseDestination(ctx context.Context, name string, p ledger.Pause) (ledger.Pause, error)
	// EndedPauses reads when destinations were paused or away that are not any more, by name, as far back as retries reach.
	EndedPauses(ctx context.Context) (map[string][]ledger.Span, error)
	// FailDestination stores since when nothing succeeds, and since when the breaker is open, if it is; zero since: something
	// succeeded. Earlier times stay.
	FailDestination(ctx context.Context, name string, since, openSince time.Time) error
	// Processes returns how many processes run subscriptions.
	Processes(ctx context.Context) (int, error)
	// EndOutage stores that the breaker is open no more. Where it is an outage, the time since it opened counts for no retry.
	EndOutage(ctx context.Context, name string, outage bool) error
}

// Keeper keeps the destinations of a process and the store in step. Pauses by operators and other processes reach the
// lanes, and what this process finds out outlives it.
type Keeper struct {
	Store        Store
	Destinations map[string]*Destination
	Logger       *slog.Logger
	// Watch has notify called when others may have changed what the store has, until stop is called; nil: the keeper asks twice a second.
	Watch func(notify func()) (stop func())
	// TryAgain is called when some of what waits for its next attempt at a destination is to be tried before that; nil: nobody wants to know.
	TryAgain func(name string, which Again)
	// Tokens are those that the destinations' rates share with other processes; nil: each process has its own.
	Tokens Tokens

	syncing     sync.Mutex    // one at a time: an older answer would undo a newer one. It guards Destinations from Run on
	changed     chan struct{} // of all destinations, once Run runs; never closed
	endedLoaded bool          // see LoadEndedPauses

	agents atomic.Pointer[map[string]ledger.Pause] // as they were read last; nil: they were not yet
}

// Again is which of the actions that wait for their next attempt at a destination are to be tried now.
type Again int

const (
	AgainNone Again = iota
	AgainOne        // one: nothing gets through, and nothing was attempted for a while
	AgainAway       // what failed as everything does at a destination that is away: it is back
	AgainAll        // all: an operator says so
)

const (
	// probeEvery is how long after the last failure one action that waits is tried at the earliest; then after an eighth of the time that
	// nothing has got through.
	probeEvery  = 5 * time.Minute
	syncEvery   = time.Second / 2
	syncTimeout = 5 * time.Second
	// saveFailingAfter is how long a destination fails before that is stored: most failures are over by then.
	saveFailingAfter = time.Minute
)

// Run syncs when there is something new, here or in the store, until ctx ends, and twice a second while something fails. What the store does not
// take now it gets the next time.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	k.syncing.Lock()
	k.changed = make(chan struct{}, 1)
	for _, d := range k.Destinations {
		d.report(k.changed)
	}
	k.syncing.Unlock()
	if k.Watch != nil {
		defer k.Watch(k.wake)()
	}
	ok := true
	for {
		err := k.Sync(ctx)
		if err == nil {
			err = k.LoadEndedPauses(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if ok != (err == nil) {
			if ok = err == nil; ok {
				k.Logger.Info("pauses of destinations can be read again")
			} else {
				k.Logger.Warn("pauses of destinations cannot be read or stored; trying again", "error", err)
			}
		}
		for rests := true; rests; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				rests = k.Watch != nil && ok && k.rests()
			case <-k.changed:
				rests = false
			}
		}
	}
}

// wake has Run sync.
func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// rests reports whether there is nothing that the store would have to be told in time.
func (k *Keeper) rests() bool {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	for _, d := range k.Destinations {
		if !d.rests() {
			return false
		}
	}
	return true
}

func (d *Destination) rests() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failing.IsZero() && !d.unsaved && !d.succeeded && !d.failingSaved && !d.recovered
}

// AgentPauses returns the pauses of agents that stand, as they were read last, by their names in the ledger. It does not wait for the store.
func (k *Keeper) AgentPauses() map[string]ledger.Pause {
	if agents := k.agents.Load(); agents != nil {
		return maps.Clone(*agents)
	}
	return map[string]ledger.Pause{}
}

// Add makes the keeper responsible for another destination, also while Run runs.
func (k *Keeper) Add(d *Destination) {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	k.Destinations[d.name] = d
	if k.Tokens != nil {
		d.share(k.Tokens, 1) // before its first attempt; of how many processes, the next Sync says
	}
	if k.changed != nil {
		d.report(k.changed)
		k.wake()
	}
}

// report has the destination tell its keeper by changed that there is something to store.
func (d *Destination) report(changed chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = changed
	if d.unsaved {
		d.notifyKeeper()
	}
}

// Sync writes to the store what is new here, and takes over what is new there, once. Run calls it; others may, to have them sooner.
func (k *Keeper) Sync(ctx context.Context) error {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(k.Destinations))
	if err := k.shareRates(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if p := k.Destinations[name].toSave(); p != nil {
			kept, err := k.Store.PauseDestination(ctx, name, *p)
			if err != nil {
				return err
			}
			k.Destinations[name].saved(kept)
		}
	}
	kept, err := k.Store.Destinations(ctx)
	if err != nil {
		return err
	}
	agents := map[string]ledger.Pause{}
	for key, s := range kept {
		if s.Paused != nil && strings.HasPrefix(key, ledger.AgentDestinations("")) {
			agents[key] = *s.Paused
		}
	}
	k.agents.Store(&agents)
	for _, name := range names {
		d := k.Destinations[name]
		n := d.adopt(ledger.PauseOfDestination(kept, name, d.agent()))
		if n.again != AgainNone && k.TryAgain != nil {
			k.TryAgain(name, n.again)
		}
		if err := k.save(ctx, name, n); err != nil {
			return err // the next Sync tries again
		}
	}
	return nil
}

// shareRates has destinations share their rates with all processes: also those that have none yet, which a reload may give one.
func (k *Keeper) shareRates(ctx context.Context) (err error) {
	if k.Tokens == nil {
		return nil
	}
	all, n := slices.Collect(maps.Values(k.Destinations)), 1
	if slices.ContainsFunc(all, (*Destination).limits) {
		if n, err = k.Store.Processes(ctx); err != nil {
			return err
		}
	}
	for _, d := range all {
		d.share(k.Tokens, n)
	}
	return nil
}

// news is what the store is to be given of a destination.
type news struct {
	ended            bool      // the store has an open breaker, and it is not open any more
	outage           bool      // and that was an outage
	succeeded        bool      // something did
	again            Again     // to be tried now: nothing of the store
	since, openSince time.Time // from when nothing succeeded, and from when the breaker is open; zero since: nothing new
}

// save gives the store what is new.
func (k *Keeper) save(ctx context.Context, name string, n news) error {
	if n.ended {
		if err := k.Store.EndOutage(ctx, name, n.outage); err != nil {
			return err
		}
		k.Destinations[name].endSaved()
	}
	if !n.succeeded && n.since.IsZero() {
		return nil
	}
	if err := k.Store.FailDestination(ctx, name, n.since, n.openSince); err != nil {
		return err
	}
	if n.succeeded {
		k.Destinations[name].successSaved()
	}
	return nil
}

// LoadEndedPauses reads, once, the pauses that ended before this process began. Run calls it; others may, to have them sooner.
func (k *Keeper) LoadEndedPauses(ctx context.Context) error {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	if k.endedLoaded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	ended, err := k.Store.EndedPauses(ctx)
	if err != nil {
		return err
	}
	for name, d := range k.Destinations {
		d.mu.Lock()
		for _, s := range slices.Concat(ended[name], ended[ledger.AgentDestinations(d.policy.Agent)]) {
			d.addBlocked(s.From, s.To)
		}
		d.mu.Unlock()
	}
	k.endedLoaded = true
	return nil
}

// toSave returns a pause that is not in the store yet, or nil.
func (d *Destination) toSave() *Pause {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.unsaved {
		return nil
	}
	return d.paused
}

// saved takes the pause that the store has now.
func (d *Destination) saved(kept Pause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unsaved {
		d.paused, d.unsaved = &kept, false
	}
}

// adopt takes over what the store has, and returns what it does not have.
func (d *Destination) adopt(kept ledger.DestinationState) (n news) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if kept.Resumed.After(d.resumed) {
		d.resumed = kept.Resumed
		if d.endHoldEarly(now) || d.adopted {
			n.again = AgainAll
			if d.breaker.state == Closed {
				d.recover(now)
			}
		}
	}
	d.adopted = true
	switch {
	case d.unsaved: // paused here since the store was read
	case kept.Paused == nil && d.paused != nil:
		d.resume(now)
	case kept.Paused != nil && (d.paused == nil || !d.paused.At.Equal(kept.Paused.At)):
		d.pause(kept.Paused, kept.PausedFrom)
	}
	if kept.Failing.IsZero() {
		d.succeeded = false // the store has nothing to forget
	}
	if kept.OpenSince.IsZero() {
		d.recovered = false
	}
	switch {
	case d.succeeded:
		n.again = max(n.again, d.again(now))
		// Where the breaker of this process was not open, those of others were: that is no outage of the destination.
		n.succeeded, n.ended, n.outage = true, !kept.OpenSince.IsZero(), d.recovered
		return n
	case !kept.Failing.IsZero():
		d.failingSaved = true
		if n.ended = d.recovered; n.ended { // by an answer that is no success, such as 401
			n.outage = true
		} else {
			d.adoptOpenSince(now, kept.OpenSince)
		}
		if d.failing.IsZero() || kept.Failing.Before(d.failing) {
			d.failing = kept.Failing
		}
	case d.failingSaved: // an attempt of another process succeeded
		d.reachedElsewhere(now)
	}
	n.again = max(n.again, d.again(now))
	openSince := d.breaker.openSince
	if !openSince.IsZero() {
		openSince = later(openSince, d.failing)
	}
	switch {
	case d.failing.IsZero() || now.Sub(d.failing) < saveFailingAfter:
	case !kept.Failing.IsZero() && (openSince.IsZero() || !kept.OpenSince.IsZero()): // the store has it
	default:
		n.since, n.openSince = d.failing, openSince
	}
	return n
}

// reachedElsewhere takes over that another process got through where the store had that nobody did.
func (d *Destination) reachedElsewhere(now time.Time) {
	d.failingSaved = false
	if !d.breaker.openSince.IsZero() {
		d.recover(now)
	}
	if now.Sub(d.heard) >= probeEvery { // again and again where this process alone is cut off
		d.heard = now
		d.comesBack(now)
	}
	if d.failing = now; d.failures == 0 { // nothing has failed here
		d.failing = time.Time{}
	}
	d.serve()
}

// again returns what is to be tried now by what this process knows.
func (d *Destination) again(now time.Time) Again {
	switch {
	case d.back:
		d.back = false
		return AgainAway
	case d.probes(now):
		return AgainOne
	}
	return AgainNone
}

// adoptOpenSince takes over that the destination is away, as another process found, or one before this: nothing of that time counts for
// retries, and no more is attempted than the breaker lets begin.
func (d *Destination) adoptOpenSince(now, openSince time.Time) {
	b := &d.breaker
	if openSince.IsZero() || b.policy.Failures == 0 || d.knowsBetter(now, openSince) {
		return
	}
	openSince = later(openSince, d.reached)
	switch {
	case b.openSince.IsZero():
		b.open(now)
		b.openSince = openSince
	case openSince.Before(b.openSince):
		b.openSince = openSince
	}
}

// knowsBetter reports whether this process got through so lately that a breaker of another, open since openSince, says nothing to it: that one
// may be cut off from the destination alone. What has failed here for a window, or was not attempted for one when that breaker opened,
// is another matter.
func (d *Destination) knowsBetter(now, openSince time.Time) bool {
	lately := d.reached.Add(d.breaker.policy.Window)
	return !now.After(lately) || d.failures == 0 && !openSince.After(lately)
}

// endSaved notes that the end of an open breaker is stored.
func (d *Destination) endSaved() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recovered = false
}

// successSaved notes that the success is stored.
func (d *Destination) successSaved() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.succeeded, d.failingSaved = false, false
}
