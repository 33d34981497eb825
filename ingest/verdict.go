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

// outcome is the closed list of how a delivery can end. It is a metric label.
type outcome string

const (
	accepted    outcome = "accepted"    // durable as an event
	quarantined outcome = "quarantined" // durable, authentic, unusable
	handshake   outcome = "handshake"   // authentic, and a provider's challenge instead of an event
	forbidden   outcome = "forbidden"   // authentic, and of a type that its agent may not send
	refused     outcome = "refused"     // no valid signature, or no such source
	tooLarge    outcome = "too_large"
	throttled   outcome = "throttled"
	incomplete  outcome = "incomplete"  // the body broke off
	misdirected outcome = "misdirected" // no delivery at all: another path, another method than POST, or too many header lines
	slow        outcome = "slow"        // the body did not come in time
	unavailable outcome = "unavailable" // not durable in time; a retry may help
	broken      outcome = "broken"      // not durable, and a retry will not help
)

// schemaUnchecked is the reason of an accepted delivery whose body was too much to hold against its schema.
const schemaUnchecked = "schema_unchecked"

// onDisk is the reason of an accepted delivery that is on disk, where there is no other.
const onDisk = "spooled"

// status returns the HTTP status of an outcome, except of a handshake, which has its own.
func (o outcome) status() int {
	switch o {
	case accepted, quarantined:
		return http.StatusAccepted
	case refused:
		return http.StatusUnauthorized
	case forbidden:
		return http.StatusForbidden
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

// level returns the log level of how a delivery ended. Success is debug, so that a healthy intake logs nothing by default.
func (k lineKind) level() slog.Level {
	switch k.outcome {
	case accepted, handshake:
		if k.reason == provider.SchemaMisfit {
			return slog.LevelWarn // its source wants to be told
		}
		return slog.LevelDebug
	case quarantined: // it waits for an operator
		return slog.LevelWarn
	case broken:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// verdict is what was decided on a delivery.
type verdict struct {
	outcome   outcome
	reason    string // closed list; never shown to strangers
	detail    string // for an operator: the place of the problem, without values
	wait      time.Duration
	handshake *provider.Answer
	err       error
	spooled   bool // durable on disk; the log may still use the body
}

// retryAfter is the Retry-After of a delivery that was not stored, if the verdict has none.
const retryAfter = 5 * time.Second

// wait returns how long until a limiter has room again.
func wait(l *rate.Limiter) time.Duration {
	if l.Limit() <= 0 {
		return time.Minute
	}
	seconds := min(math.Ceil(1/float64(l.Limit())), 3600)
	return time.Duration(seconds) * time.Second
}

// observe counts a delivery and logs its one line.
func (h *Handler) observe(ctx context.Context, d *delivery, v verdict) {
	took := time.Since(d.started)
	h.metrics.observe(d, v, took)
	h.write(ctx, d, v, took)
}

// write logs a delivery, as far as its kind may have a line. Headers are never logged: some are secrets.
func (h *Handler) write(ctx context.Context, d *delivery, v verdict, took time.Duration) {
	kind := lineKind{v.outcome, v.reason}
	level := kind.level()
	if !h.c.Logger.Enabled(ctx, level) {
		return
	}
	if level > slog.LevelDebug && !h.lines.allow(kind) {
		if level = slog.LevelDebug; !h.c.Logger.Enabled(ctx, level) {
			h.lines.left.add(kind)
			return
		}
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("outcome", string(v.outcome)), slog.String("team", clip(d.team)), slog.String("source", clip(d.name)))
	if v.reason != "" {
		attrs = append(attrs, slog.String("reason", v.reason))
	}
	if v.detail != "" {
		attrs = append(attrs, slog.String("detail", v.detail))
	}
	if d.read.IsZero() {
		attrs = append(attrs, slog.String("address", d.from.String()))
	}
	if e := d.event; e != nil {
		attrs = append(attrs, slog.String("event_id", e.ID), slog.String("type", e.Type), slog.String("entity", string(e.Entity)))
	}
	attrs = append(attrs, slog.Int("bytes", d.size), slog.Duration("latency", took))
	if v.err != nil {
		attrs = append(attrs, slog.Any("error", v.err))
	}
	h.c.Logger.LogAttrs(ctx, level, "delivery", attrs...)
}

// clip cuts a word of a request for the log. Names in the configuration are shorter.
func clip(s string) string { return s[:min(len(s), 40)] }
