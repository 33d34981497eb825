package app

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// pulse tells a process that stands still from one that works or waits for others: it takes the locks that all work takes, in rounds, and a round
// that does not end says that one of them is held for ever. No round asks anybody outside the process. Safe for concurrent use.
//
// What stands still without a lock, such as the loop of one subscription, it does not find: that shows as lag. Brokers and Postgres may keep a
// loop up for as long, and a new process would help neither.
type pulse struct {
	take  func() // takes the locks, and gives them back
	log   *slog.Logger
	after time.Duration // for how long a round is under way when the process stands still

	mu   sync.Mutex
	last *round // nil: there was none
}

// round is one time that the locks were taken.
type round struct {
	began time.Time
	ended chan struct{} // closed then
	said  sync.Once     // in the log
}

const (
	pulseEvery = 10 * time.Second // a round that ended is good for so long, however many ask
	stillAfter = 30 * time.Second
	pulseWait  = time.Second // for a round that is under way: a process that was frozen goes on where it was
)

// round returns the round that is under way, or the last one if it began less than recent ago; else a new one.
func (p *pulse) round(recent time.Duration) *round {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.last; r != nil && (!r.isOver() || time.Since(r.began) < recent) {
		return r
	}
	r := &round{began: time.Now(), ended: make(chan struct{})}
	p.last = r
	go func() { defer close(r.ended); p.take() }()
	return r
}

func (r *round) isOver() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// lives returns an error if the process stands still. It takes pulseWait at most.
func (p *pulse) lives() error {
	r := p.round(pulseEvery)
	timer := time.NewTimer(pulseWait)
	defer timer.Stop()
	select {
	case <-r.ended:
		return nil
	case <-timer.C:
	}
	still := time.Since(r.began)
	if still < p.after {
		return nil
	}
	r.said.Do(func() {
		stacks := make([]byte, 4<<20)
		p.log.Error("the process stands still, which is a fault of forebay: please report it with this line; /livez fails until it is restarted",
			"for", still.Round(time.Second), "stacks", string(stacks[:runtime.Stack(stacks, true)]))
	})
	return fmt.Errorf("the process has stood still for %s: restart it; its log has what it waits for", still.Round(time.Second))
}

// beats waits until a round has ended, or ctx.
func (p *pulse) beats(ctx context.Context) {
	select {
	case <-p.round(0).ended:
	case <-ctx.Done():
	}
}

// run looks every pulseEvery until ctx is done, so that the log says what stands still, whoever asks.
func (p *pulse) run(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		_ = p.lives()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeLocks takes the locks that the work of this process takes: one after the other, and with the metrics those of all lanes, batches, destinations
// and deliveries.
func (a *App) takeLocks() {
	takeLock(&a.ready.mu)
	if s := a.stream; s != nil {
		takeLock(&s.mu)
		takeLock(&s.sinks)
		takeLock(&s.pauses.mu)
	}
	_, _ = a.registry.Gather()
}

func takeLock(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
