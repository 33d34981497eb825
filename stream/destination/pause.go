package destination

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Pause is why a destination is paused, since when and by whom.
type Pause = ledger.Pause

// byForebay is who paused a destination that no operator paused.
const byForebay = "forebay"

// failed reports whether a class counts for the automatic pause: the destination was not reached, or it accepts nothing
// from us.
func failed(c sink.Class) bool {
	return Troubling(c) || c == sink.ClassDenied || c == sink.ClassForbidden
}

// countForPause counts failures and successes, and pauses the destination when the policy says so.
func (d *Destination) countForPause(now time.Time, o *Outcome) {
	switch {
	case answered(o.Class):
		d.failures, d.pausing, d.failing, d.succeeded = 0, 0, time.Time{}, true
	case failed(o.Class):
		d.failures++
		if d.breaker.openSince.IsZero() { // else we only look whether it is back, for as long as Pause.After allows
			d.pausing++
		}
		if d.failing.IsZero() {
			d.failing = now
		}
	}
	d.countGone(o)
	if d.paused != nil {
		return
	}
	p := d.policy.Pause
	switch {
	case d.gone > 0 && d.gone >= sink.PauseAfter(d.goneCode):
		d.pauseByForebay(now, o.Class, fmt.Sprintf("%s with status %d: it is not there any more", inARow(d.gone, "answer"), d.goneCode))
	case !failed(o.Class):
	case p.Failures > 0 && d.pausing >= p.Failures:
		d.pauseByForebay(now, o.Class, inARow(d.pausing, "failure"))
	case p.After > 0 && now.Sub(d.failing) >= p.After:
		d.pauseByForebay(now, o.Class, fmt.Sprintf("nothing but failures since %s", d.failing.UTC().Format(time.RFC3339)))
	}
}

func inARow(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss in a row", n, what)
}

// countGone counts answers in a row that say that the endpoint is gone. Attempts without an answer do not count.
func (d *Destination) countGone(o *Outcome) {
	switch {
	case !d.policy.Endpoint || o.Code == 0:
	case o.Class != sink.ClassOfStatus(o.Code) || sink.PauseAfter(o.Code) == 0:
		d.gone = 0
	case o.Code == d.goneCode:
		d.gone++
	default:
		d.gone, d.goneCode = 1, o.Code
	}
}

func (d *Destination) pauseByForebay(now time.Time, class sink.Class, reason string) {
	d.pause(&Pause{At: now, By: byForebay, Class: string(class), Reason: reason}, now)
	d.unsaved = true
	d.notifyKeeper()
}

// pause begins a pause, which by our clock began at from: p.At is the ledger's time.
func (d *Destination) pause(p *Pause, from time.Time) {
	if d.paused != nil { // another pause stands for one that has ended, or is told first
		from = slices.MinFunc([]time.Time{from, d.pausedFrom}, time.Time.Compare)
	}
	d.paused, d.pausedFrom = p, from
	d.metrics.pauses.Inc()
	level := slog.LevelWarn
	if p.By == byForebay {
		level = slog.LevelError
	}
	d.log.Log(context.Background(), level, "destination is paused: nothing is attempted until `"+p.Command("destinations", d.name)+"`",
		"by", p.By, "reason", p.Reason, "class", p.Class)
}

// resume ends a pause. Earlier failures count no more, and the destination recovers as after a hold.
func (d *Destination) resume(now time.Time) {
	d.addBlocked(d.pausedFrom, now)
	d.paused, d.unsaved = nil, false
	d.failures, d.pausing, d.failing, d.gone = 0, 0, time.Time{}, 0
	d.breaker.wait, d.breaker.base = d.policy.Breaker.Wait, 0
	d.recover(now)
	d.log.Info("destination is resumed")
	d.serve()
}

// notifyKeeper wakes the Keeper.
func (d *Destination) notifyKeeper() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
