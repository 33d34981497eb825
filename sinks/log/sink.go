// Package logsink is the destination that writes events down, one log line each. It is for looking, for tests, and for
// the first hour with Forebay.
package logsink

import (
	"context"
	"log/slog"

	"github.com/forebay-io/forebay/stream/sink"
)

// Sink writes one line per attempt. Safe for concurrent use. Writing twice harms nobody, and every line carries the
// action id, so it is idempotent.
type Sink struct{ log *slog.Logger }

var _ sink.Sink = (*Sink)(nil)

// Do writes the line.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: err, Untouched: true}
	}
	e := a.Event
	s.log.LogAttrs(ctx, slog.LevelInfo, "event",
		slog.String("action_id", string(a.ID)), slog.String("action", a.Name), slog.String("destination", a.Destination),
		slog.Int("attempt", a.Attempt), slog.Bool("late", a.Late), slog.String("source", e.Source),
		slog.String("event_id", e.ID), slog.String("type", e.Type), slog.String("entity", string(e.Entity)),
		slog.String("version", e.Version.Sortable()), slog.Int("bytes", len(e.Data)))
	return sink.Outcome{}, nil
}

// Idempotency returns idempotent.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }

// Close does nothing: the logger is not the sink's own.
func (s *Sink) Close(context.Context) error { return nil }
