package slack

import (
	"time"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type slack.
func Spec() spec.Type {
	return spec.Type{Name: "slack", Answers: answers(), New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "chat.postMessage", Declared: sink.Idempotent,
		Harmless: "the message's metadata has the action's id; a retry looks for it first, once the API has settled",
	}}}
}

// settle is longer than Slack takes to carry a call out that it has not answered, and to list the message.
const settle = 5 * time.Second

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Networks: true, Settle: settle, Params: Params(), Fields: []spec.Field{
		{Name: "token", To: &c.Token, Required: true, Doc: "Token of a bot, xoxb-..."},
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
