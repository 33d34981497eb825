package mcpsink

import (
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type mcp.
func Spec() spec.Type {
	var answers []spec.Answer
	for _, f := range forms {
		answers = append(answers, f.Answer)
	}
	return spec.Type{Name: "mcp", Answers: answers, New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "a tool of an MCP server", Declared: sink.Idempotent,
		Harmless: "`_meta` has `forebay/action_id`; `idempotent: false` for tools that do not look",
	}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Networks: true, Untrusted: c.Untrusted == UntrustedOK, Params: Params(), Fields: []spec.Field{
		{Name: "url", To: &c.URL, Required: true, Doc: "The server's endpoint."},
		{Name: "headers", To: &c.Headers, Doc: "Request headers, such as Authorization; their values are never shown."},
		{Name: "tool_errors", To: &c.ToolErrors, Values: []string{ToolErrorDead, ToolErrorRetry}, Default: ToolErrorDead, Doc: "What follows when a tool says that it failed."},
		{Name: "untrusted", To: &c.Untrusted, Values: []string{UntrustedOK}, Computed: "no words of events in arguments",
			Doc: "ok says that arguments may hold words of events, which a model may take for instructions. They are cut after 10,000 characters, without HTML comments, control and invisible characters, and beside other text they stand between <untrusted ID> and </untrusted ID>."},
		{
			Name: "idempotent", To: &c.Idempotent, Computed: "true",
			Doc: "Whether the tools act once per key, however often they are called. Where they do not, a call whose outcome is unknown is left to an operator.",
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
