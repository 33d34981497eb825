package ingest

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
)

// outcome is the closed list of what becomes of a delivery; a metric label.
type outcome string

const (
	accepted    outcome = "accepted"    // durable as an event
	quarantined outcome = "quarantined" // durable, authentic, unusable
	handshake   outcome = "handshake"   // authentic and no event
	refused     outcome = "refused"     // no valid signature, or no such source
	tooLarge    outcome = "too_large"
	throttled   outcome = "throttled"
	incomplete  outcome = "incomplete"  // the body broke off
	slow        outcome = "slow"        // the body did not come in time
	unavailable outcome = "unavailable" // not durable in time; a retry may help
	broken      outcome = "broken"      // not durable, and a retry will not help
)

// status is the one mapping of outcomes to HTTP; a handshake brings its own.
func (o outcome) status() int {
	switch o {
	case accepted, quarantined:
		return http.StatusAccepted
	case refused:
		return http.StatusUnauthorized
	case tooLarge:
		return http.StatusRequestEntityTooLarge
	case throttled:
		return http.StatusTooManyRequests
	case incomplete:
		return http.StatusBadRequest
	case slow:
		return http.StatusRequestTimeout
	}
	return http.StatusServiceUnavailable
}

// level is debug for what went well, so that a healthy intake writes nothing by default.
func (o outcome) level() slog.Level {
	switch o {
	case accepted, handshake:
		return slog.LevelDebug
	case broken:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// verdict is what was decided on a delivery.
type verdict struct {
	outcome   outcome
	reason    string // closed list; never shown to strangers
	detail    string // for an operator: where, without values
	wait      time.Duration
	handshake *provider.Answer
	err       error
}

// retryAfter is how long a sender whose delivery was not taken should wait, where the verdict does not say.
const retryAfter = 5 * time.Second

// wait is how long until a limiter has room again.
func wait(l *rate.Limiter) time.Duration {
	if l.Limit() <= 0 {
		return time.Minute
	}
	seconds := min(math.Ceil(1/float64(l.Limit())), 3600)
	return time.Duration(seconds) * time.Second
}

// What strangers can cause without end, and every delivery while Kafka is away, is written this often; the counters
// have all of it, and a log at debug level too.
const (
	logsPerSecond = 10
	logsBurst     = 100
)

// observe writes the one line and counts. r's headers never appear: some are secrets.
func (h *Handler) observe(ctx context.Context, d *delivery, v verdict) {
	took := time.Since(d.started)
	h.metrics.observe(d, v, took)
	level := v.outcome.level()
	if level == slog.LevelInfo && v.outcome != quarantined && !h.logLimit.Allow() {
		level = slog.LevelDebug
	}
	if !h.c.Logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 11)
	attrs = append(attrs, slog.String("outcome", string(v.outcome)), slog.String("team", clip(d.team)), slog.String("source", clip(d.name)))
	if v.reason != "" {
		attrs = append(attrs, slog.String("reason", v.reason))
	}
	if v.detail != "" {
		attrs = append(attrs, slog.String("detail", v.detail))
	}
	if e := d.event; e != nil {
		attrs = append(attrs, slog.String("event_id", e.ID), slog.String("type", e.Type), slog.String("entity", string(e.Entity)))
	}
	attrs = append(attrs, slog.Int("bytes", d.size), slog.Duration("latency", took))
	if v.err != nil {
		attrs = append(attrs, slog.String("error", v.err.Error()))
	}
	h.c.Logger.LogAttrs(ctx, level, "delivery", attrs...)
}

// clip keeps a stranger's path from filling the log; names of ours are shorter.
func clip(s string) string { return s[:min(len(s), 40)] }
