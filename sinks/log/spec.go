package logsink

import (
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec is the type log.
func Spec() spec.Type {
	return spec.Type{Name: "log", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "a line of the process's log", Declared: sink.Idempotent, Harmless: "every line carries the action's id",
	}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description { return spec.Description{} }

// Check implements [spec.Config].
func (c *Config) Check(*spec.Report) {}

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) { return New(Config{Logger: d.Log}) }
