package httpsink

import (
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type http.
func Spec() spec.Type {
	return spec.Type{Name: "http", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "the event, or a body by template, to a URL", Declared: sink.Idempotent, Harmless: "`Idempotency-Key` and `webhook-id` are the action's id",
	}}, Answers: []spec.Answer{{What: "with `expect: json`, a 2xx other than 204 that is not JSON, such as a login page", Class: sink.ClassBusy}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Networks: true, Later: true, Params: Params(), Fields: []spec.Field{
		{Name: "url", To: &c.URL, Required: true, Doc: "Where the calls go."},
		{Name: "secret", To: &c.Secret, Doc: "whsec_ secret that signs our calls (Standard Webhooks)."},
		{Name: "headers", To: &c.Headers, Doc: "Request headers, such as Authorization; their values are never shown."},
		{
			Name: "expect", To: &c.Expect, Values: []string{ExpectJSON},
			Doc: "What a 2xx has to bring to count as success, but for 204: json. What is not, such as a proxy's login page, is tried again. Without it any 2xx counts.",
		},
	}}
}

// Check implements [spec.Config].
func (c *Config) Check(r *spec.Report) {
	r.URL("url", c.URL)
	r.Headers("headers", c.Headers)
}

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) {
	cfg := *c
	cfg.Common = d.Common
	return New(cfg)
}
