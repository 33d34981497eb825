package app

import (
	execsink "github.com/forebay-io/forebay/sinks/exec"
	"github.com/forebay-io/forebay/stream/sink"
)

func newExec(p sinkParts) (sink.Sink, error) {
	d := p.destination
	return execsink.New(execsink.Config{Command: d.Command, Env: d.Env, Idempotent: d.Idempotent != nil && *d.Idempotent})
}
