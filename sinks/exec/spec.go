package execsink

import (
	"path/filepath"
	"strings"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type exec.
func Spec() spec.Type {
	return spec.Type{Name: "exec", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "a local command, event on standard input", Declared: sink.Unsafe,
		Harmless: "it is not, unless declared `idempotent: true`",
	}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Fields: []spec.Field{
		{Name: "command", To: &c.Command, Required: true, Doc: "The program and its arguments, as a list, run without a shell; the event's body is its standard input. A program with a slash is relative to this file."},
		{Name: "env", To: &c.Env, Doc: "Variables of the command's environment, beside PATH and FOREBAY_*; their values are never shown."},
		{
			Name: "idempotent", To: &c.Idempotent, Computed: "false",
			Doc: "Whether the command acts once per FOREBAY_ACTION_ID, however often it is run. Where it does not, a run whose outcome is unknown is left to an operator.",
		},
	}}
}

// Check implements [spec.Config].
func (c *Config) Check(r *spec.Report) {
	if r.Runs && !r.Grants.Commands {
		r.Problem("type", "exec is off: it runs programs on this machine. Where that is wanted, write exec: {enabled: true} at the top of the file")
	}
	for name := range c.Env {
		if ours(name) || name == "PATH" {
			r.Problem("env."+name, "is set by forebay")
		}
	}
}

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) {
	cfg := *c
	cfg.Hidden = d.Hidden
	if len(c.Command) > 0 && strings.Contains(c.Command[0], "/") && !filepath.IsAbs(c.Command[0]) {
		program, err := filepath.Abs(filepath.Join(d.Dir, c.Command[0]))
		if err != nil {
			return nil, err
		}
		cfg.Command = append([]string{program}, c.Command[1:]...)
	}
	return New(cfg)
}
