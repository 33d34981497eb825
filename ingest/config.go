package ingest

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

const (
	defaultMaxBody     = 25 << 20
	defaultMaxInFlight = 256 << 20
	defaultReadTimeout = 10 * time.Second
	defaultDeadline    = 10 * time.Second
)

// Config is what a [Handler] needs.
type Config struct {
	// Sources finds a source; required. It is called once a request and may change its answers at any time.
	Sources func(team, name string) (*Source, bool)
	// Log makes deliveries durable; required.
	Log Log
	// MaxBody is the largest body that is read for anybody, in bytes: the largest limit of all sources. Default 25 MiB.
	//
	// A source's own limit holds for authentic deliveries only. What a stranger may send is the same everywhere, so
	// that limits do not show which sources exist.
	MaxBody int64
	// MaxInFlight bounds the bytes of all bodies being read or produced; more is answered 503. Default 256 MiB. A body
	// whose Ed25519 signature is being verified is there twice meanwhile.
	MaxInFlight int64
	// ReadTimeout is what the HTTP server gives to the reading of a body: its own ReadTimeout less its ReadHeaderTimeout.
	// The handler sets none, which would cost each delivery a timer more. Default 10 s.
	ReadTimeout time.Duration
	// PublicURL is the URL before the request's path as providers call it, "https://hooks.example.com", for schemes
	// that sign it. Default: from the request.
	PublicURL string
	// StatusURL is where it can be asked what became of an event; nil or an empty one: the answer does not say.
	StatusURL func(team, source, id string) string
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
	if c.MaxInFlight == 0 {
		c.MaxInFlight = max(defaultMaxInFlight, 2*c.MaxBody)
	}
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
	case c.MaxBody < 1 || c.ReadTimeout < 0:
		return errors.New("ingest: MaxBody and ReadTimeout must be positive")
	case c.MaxInFlight < c.MaxBody:
		return errors.New("ingest: MaxInFlight must hold at least one body of MaxBody")
	}
	return nil
}

// New builds a handler. It starts nothing.
func New(c Config) (*Handler, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	h := &Handler{c: c, metrics: newMetrics(c.Registerer), budget: budget{free: c.MaxInFlight},
		logLimit: rate.NewLimiter(logsPerSecond, logsBurst)}
	if _, err := rand.Read(h.decoy[:]); err != nil {
		return nil, err
	}
	h.hashDummy = h.hash
	h.routes()
	return h, nil
}
