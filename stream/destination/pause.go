package destination

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// Pause is why a destination is paused, since when and by whom.
type Pause = ledger.Pause

// itself is who pauses a destination that nobody paused.
const itself = "forebay"

// failed reports whether a class counts among the failures that pause a destination: nobody got through to it, or it
// takes nothing from us.
func failed(c sink.Class) bool {
	return troubling(c) || c == sink.ClassDenied || c == sink.ClassForbidden
}

// count keeps what pauses the destination, and pauses it.
func (d *Destination) count(now time.Time, o *Outcome) {
	switch {
	case answered(o.Class):
		d.failures, d.failing, d.succeeded = 0, time.Time{}, true
	case failed(o.Class):
		d.failures++
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
		d.pauseItself(now, o.Class, fmt.Sprintf("%s with status %d: it is not there any more", inARow(d.gone, "answer"), d.goneCode))
	case !failed(o.Class):
	case p.Failures > 0 && d.failures >= p.Failures:
		d.pauseItself(now, o.Class, inARow(d.failures, "failure"))
	case p.After > 0 && now.Sub(d.failing) >= p.After:
		d.pauseItself(now, o.Class, fmt.Sprintf("nothing but failures since %s", d.failing.UTC().Format(time.RFC3339)))
	}
}

func inARow(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss in a row", n, what)
}

// countGone counts answers in a row that the place is gone. Attempts that nobody answered are no part of the row.
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

func (d *Destination) pauseItself(now time.Time, class sink.Class, reason string) {
	d.pause(&Pause{At: now, By: itself, Class: string(class), Reason: reason}, now)
	d.unsaved = true
	d.tell()
}

// pause begins a pause, which by our clock began at from: p.At is the ledger's time.
func (d *Destination) pause(p *Pause, from time.Time) {
	d.paused, d.pausedFrom = p, from
	d.metrics.pauses.Inc()
	level := slog.LevelWarn
	if p.By == itself {
		level = slog.LevelError
	}
	d.log.Log(context.Background(), level, "destination is paused: nothing is attempted until `forebay destinations resume`",
		"by", p.By, "reason", p.Reason, "class", p.Class)
}

// resume ends a pause: what went before it does not count any more, and it recovers as after a hold.
func (d *Destination) resume(now time.Time) {
	d.unshut(now)
	d.note(d.pausedFrom, now)
	d.paused, d.unsaved = nil, false
	d.failures, d.failing, d.gone, d.troubles = 0, time.Time{}, 0, streak{}
	d.until, d.wait, d.ramp = time.Time{}, d.policy.Breaker.Wait, ramp{}
	d.recover(now)
	d.log.Info("destination is resumed")
	d.serve()
}

// tell calls the Keeper.
func (d *Destination) tell() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
