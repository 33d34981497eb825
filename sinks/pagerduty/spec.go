package pagerduty

import (
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type pagerduty.
func Spec() spec.Type {
	return spec.Type{Name: "pagerduty", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "an event of the Events API v2", Declared: sink.Idempotent, Harmless: "`dedup_key`, by default the event's source and entity",
	}}, Answers: []spec.Answer{{What: "429 without `Retry-After`, which PagerDuty does not send", Class: sink.ClassThrottled, Then: "waits a minute"}, {What: "2xx that is no JSON, such as a login page", Class: sink.ClassBusy}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Networks: true, Params: Params(), Fields: []spec.Field{
		{Name: "routing_key", To: &c.RoutingKey, Required: true, Doc: "Integration key of the service."},
		spec.BaseURL(&c.BaseURL),
	}}
}

// Check implements [spec.Config].
func (c *Config) Check(r *spec.Report) { r.BaseURL(c.BaseURL) }

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) {
	cfg := *c
	cfg.Common = d.Common
	return New(cfg)
}
