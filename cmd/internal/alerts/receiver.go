package alerts

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/sink"
)

const (
	// waitingMessages is how many messages wait for a receiver at most; what comes then is dropped, and logged.
	waitingMessages = 256
	// triedFor is for how long a message is tried, before those behind it are.
	triedFor = 15 * time.Minute
	// mostWait is how long is waited for between attempts at most.
	mostWait = time.Minute
)

// Receiver is who is told.
type Receiver struct {
	Name    string
	Sink    sink.Sink
	Wants   func(severity string) bool
	Timeout time.Duration // of one attempt
	Settle  time.Duration // the least between attempts, as the sink's spec has it

	waiting chan *delivery // never closed
}

// run tells messages one after the other, until ctx is done: of one alert, an older one never comes after a newer.
func (r *Receiver) run(ctx context.Context, log *slog.Logger, tries *prometheus.CounterVec) {
	log = log.With("receiver", r.Name)
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-r.waiting:
			taken, missed := r.send(ctx, log, tries, d)
			d.answered(r, taken, missed)
		}
	}
}

// send tries a message until it is taken, refused for good, or missed: tried for too long, or over before it was taken.
func (r *Receiver) send(ctx context.Context, log *slog.Logger, tries *prometheus.CounterVec, d *delivery) (taken, missed bool) {
	log = log.With("alert", d.key, "status", d.Status)
	a, err := d.action(r.Name)
	if err != nil {
		log.Error("message about an alert cannot be made", "error", err)
		return false, false
	}
	began, wait := time.Now(), max(time.Second, r.Settle)
	for {
		if d.over.Load() {
			log.Warn("an alert was not sent: it has passed before its receiver took it; check the receiver in alerts.receivers", "attempts", a.Attempt)
			return false, true
		}
		a.Attempt++
		attempt, cancel := context.WithTimeout(ctx, r.Timeout)
		at := time.Now()
		out, err := r.Sink.Do(attempt, a)
		cancel()
		if a.FirstAt.IsZero() {
			a.FirstAt = at
		}
		class := sink.ClassOf(err)
		switch {
		case class == sink.ClassOK:
			tries.WithLabelValues(r.Name, "done").Inc()
			log.Info("alert sent")
			return true, false
		case ctx.Err() != nil:
			return false, true
		}
		tries.WithLabelValues(r.Name, "failed").Inc()
		next := max(wait, min(out.RetryAfter, 5*time.Minute))
		if !class.Retried() || time.Since(began)+next > triedFor {
			log.Error("an alert was not sent: its receiver does not take it; check the receiver in alerts.receivers", "class", string(class), "attempts", a.Attempt, "error", err)
			return false, class.Retried()
		}
		log.Warn("an alert could not be sent; trying again", "class", string(class), "in", next, "error", err)
		pause := time.NewTimer(next)
		select {
		case <-ctx.Done():
			pause.Stop()
			return false, true
		case <-pause.C:
		}
		wait = min(2*wait, mostWait)
	}
}
