package ingest

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/schemas/trace"
)

const (
	defaultMaxBody     = 25 << 20
	defaultReadTimeout = 10 * time.Second
	defaultDeadline    = 10 * time.Second
)

// Config is what a [Handler] needs.
type Config struct {
	// Sources finds a source; required. It is called once per request, and may change its answers at any time.
	Sources func(team, name string) (*Source, bool)
	// Log makes deliveries durable; required.
	Log Log
	// MaxBody is the largest body that is read, in bytes: the largest limit of all sources. Default 25 MiB.
	//
	// A source's own limit is for authentic deliveries only. All other requests have the same limit, so that it does not show which
	// sources exist.
	MaxBody int64
	// Limits bound what deliveries may use, above all before their signature is verified.
	Limits Limits
	// ReadTimeout is how long the HTTP server waits for a body: its ReadTimeout minus its ReadHeaderTimeout. The handler only has to
	// know it; a timeout of its own would cost each delivery one more timer. Default 10 s.
	ReadTimeout time.Duration
	// StatusURL makes the URL at which the status of an event can be asked for. If it is nil or returns "", the answer names none.
	StatusURL func(team, source, id string) string
	// Tracer makes a span of every delivery that is authentic and is an event; nil makes none.
	Tracer *trace.Tracer
	// Now is the intake's clock; default [time.Now].
	Now func() time.Time
	// Logger gets one line a delivery; default none.
	Logger *slog.Logger
	// Registerer gets the metrics; default none.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	c.Limits = c.Limits.WithDefaults(c.MaxBody)
	if c.ReadTimeout == 0 {
		c.ReadTimeout = defaultReadTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Sources == nil:
		return errors.New("ingest: Sources is missing")
	case c.Log == nil:
		return errors.New("ingest: Log is missing")
	case c.MaxBody < 0:
		return errors.New("ingest: MaxBody must not be negative")
	case c.ReadTimeout < 0:
		return errors.New("ingest: ReadTimeout must not be negative")
	}
	return c.Limits.validate(c.MaxBody)
}

// New builds a handler. It starts nothing.
func New(c Config) (*Handler, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	room := newRoom(c.Limits)
	h := &Handler{c: c, metrics: newMetrics(c.Registerer, room), room: room,
		lines: newLines(c.Logger)}
	h.keeper = newKeeper(c, h.lines)
	if _, err := rand.Read(h.decoySecret[:]); err != nil {
		return nil, err
	}
	h.hashDummy = h.hash
	h.routes()
	return h, nil
}
