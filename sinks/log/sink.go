// Package logsink is the destination that writes events down: one log line, or one JSON line to a writer. It is for
// looking, for tests, and for the first hour with Forebay.
package logsink

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Sink]. One of the two must be given; with both, Writer counts.
type Config struct {
	Logger *slog.Logger
	// Writer gets one JSON object and a newline per action, in one Write.
	Writer io.Writer
}

// Sink writes one line per attempt. Safe for concurrent use. Writing twice harms nobody, and every line carries the
// action id, so it is idempotent.
type Sink struct {
	log *slog.Logger
	mu  sync.Mutex
	out io.Writer
}

var _ sink.Sink = (*Sink)(nil)

// New makes a sink.
func New(cfg Config) (*Sink, error) {
	if cfg.Logger == nil && cfg.Writer == nil {
		return nil, schemas.Errorf(schemas.Invalid, "make a log destination", "neither logger nor writer is given")
	}
	return &Sink{log: cfg.Logger, out: cfg.Writer}, nil
}

// line is what is written of an action; a body that is not text is base64.
type line struct {
	Time        time.Time         `json:"time"`
	ActionID    schemas.ActionID  `json:"action_id"`
	Action      string            `json:"action"`
	Destination string            `json:"destination"`
	Attempt     int               `json:"attempt"`
	Late        bool              `json:"late"`
	Source      string            `json:"source"`
	EventID     string            `json:"event_id"`
	Type        string            `json:"type"`
	Entity      schemas.EntityKey `json:"entity"`
	Version     string            `json:"version,omitempty"`
	Data        json.RawMessage   `json:"data,omitempty"`
	Text        string            `json:"text,omitempty"`
	Base64      []byte            `json:"data_base64,omitempty"`
}

// Do writes the line.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: err}
	}
	if s.out == nil {
		s.log.LogAttrs(ctx, slog.LevelInfo, "event", attrs(a)...)
		return sink.Outcome{}, nil
	}
	if err := s.write(a); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: err}
	}
	return sink.Outcome{}, nil
}

func (s *Sink) write(a sink.Action) error {
	e := a.Event
	l := line{
		Time: time.Now().UTC(), ActionID: a.ID, Action: a.Name, Destination: a.Destination, Attempt: a.Attempt, Late: a.Late,
		Source: e.Source, EventID: e.ID, Type: e.Type, Entity: e.Entity, Version: e.Version.Sortable(),
	}
	switch {
	case json.Valid(e.Data):
		l.Data = e.Data
	case utf8.Valid(e.Data):
		l.Text = string(e.Data)
	default:
		l.Base64 = e.Data
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.out.Write(append(b, '\n'))
	return err
}

func attrs(a sink.Action) []slog.Attr {
	e := a.Event
	return []slog.Attr{
		slog.String("action_id", string(a.ID)), slog.String("action", a.Name), slog.String("destination", a.Destination),
		slog.Int("attempt", a.Attempt), slog.Bool("late", a.Late), slog.String("source", e.Source),
		slog.String("event_id", e.ID), slog.String("type", e.Type), slog.String("entity", string(e.Entity)),
		slog.String("version", e.Version.Sortable()), slog.Int("bytes", len(e.Data)),
	}
}

// Idempotency is idempotent.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }

// Close does nothing: neither logger nor writer is the sink's own.
func (s *Sink) Close(context.Context) error { return nil }
