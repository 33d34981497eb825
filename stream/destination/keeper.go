package destination

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Store keeps what all processes share of destinations; [ledger.Ledger] implements it.
type Store interface {
	// Destinations reads what is kept, by name. What is not in it is neither paused nor failing.
	Destinations(ctx context.Context) (map[string]ledger.DestinationState, error)
	// Pause keeps a pause. Where the destination is paused already, that pause stays.
	PauseDestination(ctx context.Context, name string, p ledger.Pause) (ledger.Pause, error)
	// EndedPauses reads when destinations were paused that are not any more, by name, as far back as retries reach.
	EndedPauses(ctx context.Context) (map[string][]ledger.Span, error)
	// FailDestination keeps since when nothing succeeds; zero: something did. An earlier time stays.
	FailDestination(ctx context.Context, name string, since time.Time) error
}

// Keeper brings the destinations of a process and the store together: pauses of people and of other processes reach
// the lanes, and what a process finds out outlives it.
type Keeper struct {
	Store        Store
	Destinations map[string]*Destination
	Logger       *slog.Logger

	looking sync.Mutex // one after the other: an old answer would undo what a newer one has brought
	learnt  bool       // what was before this process
}

const (
	lookEvery = time.Second
	askWithin = 5 * time.Second
	// failingFor is how long a destination fails before the store is told: most have mended by then.
	failingFor = time.Minute
)

// Run looks about every second until ctx ends. What the store does not take now it gets the next time.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := make(chan struct{}, 1) // never closed
	for _, d := range k.Destinations {
		d.mu.Lock()
		d.changed = told
		if d.unsaved {
			d.tell()
		}
		d.mu.Unlock()
	}
	well := true
	for {
		err := k.Look(ctx)
		if err == nil {
			err = k.Learn(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if well != (err == nil) {
			if well = err == nil; well {
				k.Logger.Info("pauses of destinations are read again")
			} else {
				k.Logger.Warn("pauses of destinations cannot be read or kept; it is tried again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-told:
		}
	}
}

// Look tells the store what it does not know and takes over what it knows, once. Run does it; others may, to be sooner.
func (k *Keeper) Look(ctx context.Context) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	names := slices.Sorted(maps.Keys(k.Destinations))
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
	for _, name := range names {
		if since, tell := k.Destinations[name].meet(kept[name]); tell {
			if err := k.Store.FailDestination(ctx, name, since); err != nil {
				return err // and told again
			}
			if since.IsZero() {
				k.Destinations[name].toldSuccess()
			}
		}
	}
	return nil
}

// Learn tells destinations, once, of the pauses that ended before this process began. Run does it; others may, to be sooner.
func (k *Keeper) Learn(ctx context.Context) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	if k.learnt {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	ended, err := k.Store.EndedPauses(ctx)
	if err != nil {
		return err
	}
	for name, d := range k.Destinations {
		d.mu.Lock()
		for _, s := range ended[name] {
			d.note(s.From, s.To)
		}
		d.mu.Unlock()
	}
	k.learnt = true
	return nil
}

// toSave is a pause that the store does not know.
func (d *Destination) toSave() *Pause {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.unsaved {
		return nil
	}
	return d.paused
}

// saved says what the store keeps now.
func (d *Destination) saved(kept Pause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unsaved {
		d.paused, d.unsaved = &kept, false
	}
}

// meet takes over what the store keeps. It says what the store is to be told of since when nothing succeeds, and
// whether it is.
func (d *Destination) meet(kept ledger.DestinationState) (since time.Time, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	switch {
	case d.unsaved: // found since
	case kept.Paused == nil && d.paused != nil:
		d.resume(now)
	case kept.Paused != nil && (d.paused == nil || !d.paused.At.Equal(kept.Paused.At)):
		d.pause(kept.Paused, kept.PausedFrom)
	}
	if kept.Failing.IsZero() {
		d.succeeded = false // the store has nothing to forget
	}
	switch {
	case d.succeeded: // here or, until now, elsewhere
		return time.Time{}, true
	case !kept.Failing.IsZero():
		d.kept = true
		if d.failing.IsZero() || kept.Failing.Before(d.failing) {
			d.failing = kept.Failing
		}
	case d.kept: // another process has got through
		d.kept = false
		if !d.failing.IsZero() {
			d.failing = now
		}
	case !d.failing.IsZero() && now.Sub(d.failing) >= failingFor:
		return d.failing, true
	}
	return since, false
}

// toldSuccess says that the store knows that something has got through.
func (d *Destination) toldSuccess() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.succeeded, d.kept = false, false
}
