package logsink

import (
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type log.
func Spec() spec.Type {
	return spec.Type{Name: "log", New: func() spec.Config { return Config{} }, Rows: []spec.Row{{
		Does: "a line of the process's log", Declared: sink.Idempotent, Harmless: "every line carries the action's id",
	}}}
}

// Config has no keys.
type Config struct{}

// Describe implements [spec.Config].
func (Config) Describe() spec.Description { return spec.Description{} }

// Check implements [spec.Config].
func (Config) Check(*spec.Report) {}

// Sink implements [spec.Config].
func (Config) Sink(d spec.Destination) (sink.Sink, error) { return &Sink{log: d.Log}, nil }
