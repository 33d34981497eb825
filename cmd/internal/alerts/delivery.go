package alerts

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// delivery is a message on its way to receivers. It counts as told once one of them has taken it, or if none wants it.
type delivery struct {
	Message
	alone bool // no board knows that it is on its way
	noted bool // the board knows that it was told

	over atomic.Bool // the alert does not fire any more, so that another process may tell its end at any time: see [Notifier.markOver]

	mu     sync.Mutex
	waits  int         // for how many receivers' answers
	told   bool        // one has taken it
	missed []*Receiver // those that have not taken it for as long as it was tried
	last   time.Time   // when the last of them gave up
}

// answered notes what became of the message at a receiver: it was taken, or missed; one that refuses it for good has done neither.
func (d *delivery) answered(r *Receiver, taken, missed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits--
	d.told = d.told || taken
	if d.last = time.Now(); missed {
		d.missed = append(d.missed, r)
	}
}

// state returns for how many answers the message waits, and whether it was told.
func (d *delivery) state() (waits int, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waits, d.told
}

// send sends a message to each receiver that wants it.
func (n *Notifier) send(m Message, alone bool) {
	n.cfg.Logger.Warn("alert "+m.Status, "alert", m.key, "severity", m.Severity, "summary", m.Summary, "runbook", m.RunbookURL)
	d := &delivery{Message: m, alone: alone, told: true}
	var to []*Receiver
	for _, r := range n.cfg.Receivers {
		if r.Wants(m.Severity) {
			d.told, to = false, append(to, r)
		}
	}
	n.sending[m.key] = d
	n.queue(d, to)
}

// markOver ends the attempts of what tells that alerts fire which this process did not see at its last look. Processes that share a board take no less
// than [Notifier.unseenFor] for an end, which any of them may tell: no receiver shall hear of the beginning after that. Should the alert be there again before
// that, or another process see it, it is told anew.
func (n *Notifier) markOver() {
	if n.cfg.Board == nil { // nobody else tells the end, and the receivers get both in order
		return
	}
	held := n.goesOn()
	for key, d := range n.sending {
		d.over.Store(d.Status == firing && n.alerts[key] == nil && !slices.Contains(held, key))
	}
}

// known has the board know what this process has sent without it.
func (n *Notifier) known(f *ledger.FiringAlert, now time.Time) {
	if d := n.sending[f.Key]; d != nil && d.Status == firing {
		d.alone = false
		return
	}
	n.sending[f.Key] = &delivery{Message: message(firing, f, nil, now), told: true}
}

// queue puts a message behind those that wait for receivers.
func (n *Notifier) queue(d *delivery, to []*Receiver) {
	d.mu.Lock()
	d.waits, d.missed = len(to), nil
	d.mu.Unlock()
	for _, r := range to {
		select {
		case r.waiting <- d:
		default:
			d.answered(r, false, true)
			n.tries.WithLabelValues(r.Name, "failed").Inc()
			n.cfg.Logger.Error("an alert was not sent: too many messages wait for its receiver; check the receiver in alerts.receivers",
				"receiver", r.Name, "alert", d.key)
		}
	}
}

// hold is for how long nobody else tells what this process has said that it tells.
func (n *Notifier) hold() time.Duration { return max(boardGrace, n.unseenFor()) }

// settle tells the board what was told, and what this process still tries to tell. What nobody has taken is let go of: whoever looks once it is not
// held any more tells it anew. What one receiver has taken, and what no board knows, is sent again to those that missed it, unless there is
// something newer of the alert.
func (n *Notifier) settle(ctx context.Context, board Board) error {
	var told, telling [2][]string // of alerts that fire, and that have ended
	var noted []*delivery
	for _, key := range slices.Sorted(maps.Keys(n.sending)) {
		d, kind := n.sending[key], 0
		if d.Status == resolved {
			kind = 1
		}
		waits, taken := d.state()
		switch {
		case taken && !d.noted && !d.alone:
			told[kind], noted = append(told[kind], key), append(noted, d)
		case !taken && waits > 0 && !d.alone:
			telling[kind] = append(telling[kind], key)
		}
		if waits == 0 {
			n.answered(d, taken)
		}
	}
	if board == nil {
		return nil
	}
	if err := board.ToldAlerts(ctx, told[0], told[1]); err != nil {
		return err
	}
	for _, d := range noted {
		d.noted = true
	}
	return board.TellingAlerts(ctx, telling[0], telling[1], n.cfg.Repeat, n.hold())
}

// answered goes on with a message that every receiver has answered.
func (n *Notifier) answered(d *delivery, taken bool) {
	f := n.fires[d.key]
	if d.Status == firing && !taken && f != nil { // due again, for whoever tells it
		f.told, f.missed = d.last.Add(n.hold()-n.cfg.Repeat), true
	}
	silenced := d.Status == firing && f != nil && Silenced(f.Name, f.Labels, n.silences) != nil // since; it is told with a repeat
	again := (taken || d.alone && d.Status == resolved) && len(d.missed) > 0 && !silenced
	switch {
	case again && (d.Status == firing) == (f != nil) && !d.over.Load(): // else its end may be told by another
		n.queue(d, d.missed)
	case !taken || d.noted || d.alone:
		delete(n.sending, d.key)
	}
}
