package batch

import (
	"context"
	"log/slog"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// The rate of lines about decisions that wait for an operator: a sender with a fault can cause one with every event. The counters and the
// ledger have all of them, and so has a log at debug level.
const (
	warningsPerSecond = 10
	warningsBurst     = 100
)

// logDecisions writes one line per decision: a warning where it waits for an operator, else at debug level, since a batch has a thousand
// records.
func (l *Loop) logDecisions(p *part, a ledger.Applied) {
	ctx := context.Background()
	debug := l.log.Enabled(ctx, slog.LevelDebug)
	warned := map[schemas.EntityKey]bool{}
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		level, message := slog.LevelDebug, "decided"
		if text := warning(o); text != "" && !(ofGap(o) && warned[entityOf(p, o)]) && l.warnings.Allow() {
			level, message = slog.LevelWarn, text
			warned[entityOf(p, o)] = warned[entityOf(p, o)] || ofGap(o)
		}
		if debug || level == slog.LevelWarn {
			l.log.LogAttrs(ctx, level, message, decisionAttrs(p, o)...)
		}
	}
}

// warning says what has happened where an event or what is behind it waits for an operator now; else it returns "". Of events behind a gap
// it is said once, when the gap was given up.
func warning(o *gate.Outcome) string {
	switch {
	case o.Decision == gate.Conflict:
		return "conflict: an event has the id of an earlier one and another body; it is kept and does not run: forebay inbox list --decision conflict"
	case o.Decision == gate.Quarantined:
		return "a record is no event that can be decided; it is kept and does not run: forebay inbox list --decision quarantined"
	case o.Dead: // of such an action no attempt is logged
		return "a gap was given up; the actions of the entity's events behind it are dead letters, none was tried: forebay dlq list"
	case o.Decision != gate.Parked:
	case o.Held:
		return "an event is held, as the subscription's policy says, until an operator decides: forebay inbox list --decision parked"
	case o.Reason == gate.ReasonGapExpired:
		return "a gap was not filled in time; the entity's events behind it are parked until it is, or an operator decides: forebay inbox list --decision parked"
	case o.Reason == gate.ReasonOverflow:
		return "too many events wait for a gap; the entity's events behind it are parked until it is filled, or an operator decides: forebay inbox list --decision parked"
	}
	return ""
}

// ofGap reports whether an event is parked or dead behind a gap, where one line stands for all of its entity.
func ofGap(o *gate.Outcome) bool { return o.Dead || o.Decision == gate.Parked && !o.Held }

func entityOf(p *part, o *gate.Outcome) schemas.EntityKey {
	switch {
	case o.Record >= 0 && o.Record < len(p.Records):
		return p.Records[o.Record].Entity
	case o.Released != nil:
		return o.Released.Entity
	}
	return ""
}

// decisionAttrs says which event was decided, and how.
func decisionAttrs(p *part, o *gate.Outcome) []slog.Attr {
	at := p.of.at()
	attrs := []slog.Attr{slog.String("topic", at.Topic), slog.Int("partition", int(at.Number))}
	switch {
	case o.Record >= 0 && o.Record < len(p.Records):
		r := &p.Records[o.Record]
		attrs = append(attrs, slog.String("event_id", r.ID), slog.String("source", r.Source), slog.Int64("offset", r.Offset))
	case o.Released != nil:
		attrs = append(attrs, slog.String("event_key", o.Released.Key.String()), slog.Int64("offset", o.Released.Offset))
	}
	return append(attrs, slog.String("entity", string(entityOf(p, o))), slog.String("decision", string(o.Decision)), slog.String("reason", string(o.Reason)))
}
