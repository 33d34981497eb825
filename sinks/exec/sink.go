package execsink

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Config makes a [Sink].
type Config struct {
	// Command is the program and its arguments, given as they are. The program is found by PATH unless it has a slash.
	Command []string
	// Env are variables of the command's environment, beside PATH and those of Forebay. Their values are secrets.
	Env spec.Env
	// Idempotent says that the command acts once per FOREBAY_ACTION_ID, however often it is run.
	Idempotent bool
	// Hidden is as in [spec.Destination].
	Hidden []schemas.Secret
}

// Sink runs one command. Safe for concurrent use.
type Sink struct {
	sink.Opaque
	command []string
	env     []string
	kind    sink.Idempotency
	redact  *redact.Redactor
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink. Nothing is run, and the program need not be there yet.
func New(cfg Config) (*Sink, error) {
	const op = "make an exec destination"
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, schemas.Errorf(schemas.Invalid, op, "command is empty: list the program and its arguments")
	}
	for _, arg := range cfg.Command {
		if strings.Contains(arg, "\x00") {
			return nil, schemas.Errorf(schemas.Invalid, op, "command has a NUL character")
		}
	}
	s := &Sink{Opaque: "exec destination", command: slices.Clone(cfg.Command), env: []string{path()}, kind: sink.Unsafe}
	if cfg.Idempotent {
		s.kind = sink.Idempotent
	}
	secrets := redact.Words(cfg.Hidden...)
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		value := cfg.Env[name]
		switch {
		case !validName(name):
			return nil, schemas.Errorf(schemas.Invalid, op, "env: %q is not the name of a variable", name)
		case ours(name):
			return nil, schemas.Errorf(schemas.Invalid, op, "env: %s is set by forebay", name)
		case strings.Contains(value.Reveal(), "\x00"):
			return nil, schemas.Errorf(schemas.Invalid, op, "env: %s has a value with a NUL character", name)
		}
		s.env = append(s.env, name+"="+value.Reveal())
		secrets = append(secrets, redact.Words(value)...)
	}
	s.redact = redact.New(secrets...)
	return s, nil
}

func validName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// Do runs the command once.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: err, Untouched: true}
	}
	out := &head{limit: s.redact.Limit()}
	status, err := run(ctx, s.command, s.environment(a), a.Event.Data, out)
	result := sink.Outcome{Code: status, Response: s.redact.Head(out.bytes())}
	_, unstarted := errors.AsType[*startError](err)
	switch {
	case err == nil:
		return result, attemptError(status)
	case unstarted && ctx.Err() == nil:
		err = &sink.AttemptError{Class: sink.ClassBusy, Err: err, Untouched: true}
	case ctx.Err() != nil:
		err = &sink.AttemptError{Class: sink.ClassTimeout, Err: err, Untouched: unstarted}
	default:
		err = &sink.AttemptError{Class: sink.ClassBusy, Err: err}
	}
	return result, s.redact.Err(err)
}

// Check reports whether the program is there and may be run.
func (s *Sink) Check(context.Context) error { return find(s.command[0]) }

// Close has nothing to give back.
func (s *Sink) Close(context.Context) error { return nil }

// Idempotency returns unsafe unless the command was declared idempotent.
func (s *Sink) Idempotency() sink.Idempotency { return s.kind }
