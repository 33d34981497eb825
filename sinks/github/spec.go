package github

import (
	"time"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type github.
func Spec() spec.Type {
	var answers []spec.Answer
	for _, l := range limits {
		answers = append(answers, l.Answer)
	}
	answers = append(answers, spec.Answer{What: "2xx that is no JSON, such as a login page", Class: sink.ClassBusy})
	return spec.Type{Name: "github", Answers: answers, New: func() spec.Config { return &Config{} }, Rows: []spec.Row{
		{
			Of: ", `do: issue`, `do: comment`", Does: "an issue, a comment", Declared: sink.Idempotent,
			Harmless: "its body ends with a hidden marker; a retry looks for it first, once the API has settled",
		},
		{Of: ", `do: labels`", Does: "labels on an issue or pull request", Declared: sink.Idempotent, Harmless: "adding a label twice adds it once"},
		{
			Of: ", `do: dispatch`", Does: "repository_dispatch", Declared: sink.Unsafe,
			Harmless: "it is not: an unknown outcome is an operator's",
		},
	}}
}

// settle is longer than GitHub has been seen to take until a list has what was made.
const settle = 5 * time.Second

func (c *Config) settle() time.Duration {
	if c.Do == Issue || c.Do == Comment {
		return settle
	}
	return 0
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Networks: true, Settle: c.settle(), Params: Params(c.Do), Fields: []spec.Field{
		{Name: "token", To: &c.Token, Required: true, Doc: "A personal access token."},
		{
			Name: "do", To: (*string)(&c.Do), Required: true, Values: Dos(),
			Doc: "What is done: open an issue, comment on one, add labels to one, or send a repository_dispatch.",
		},
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
