package schemas

import (
	"errors"
	"fmt"
)

// Kind is the closed list of what can be wrong. Each kind maps to one HTTP status, one retry decision and one metric
// label, in one place each.
type Kind string

const (
	Invalid         Kind = "invalid"         // the caller's input is wrong and will stay wrong
	Unauthenticated Kind = "unauthenticated" // signature, token or identity is missing or wrong
	NotFound        Kind = "not_found"       // what was named does not exist
	Conflict        Kind = "conflict"        // the state forbids it now
	TooLarge        Kind = "too_large"       // over a limit on size
	Throttled       Kind = "throttled"       // over a limit on rate; try later
	Unavailable     Kind = "unavailable"     // something needed does not answer; try later
	Permanent       Kind = "permanent"       // the destination said no for good
	Internal        Kind = "internal"        // our own fault
)

// Kinds lists every kind, in the order of declaration.
func Kinds() []Kind {
	return []Kind{Invalid, Unauthenticated, NotFound, Conflict, TooLarge, Throttled, Unavailable, Permanent, Internal}
}

// Error is the typed error at the borders between packages.
type Error struct {
	Kind Kind
	// Op says what was tried, in the infinitive without subject: "produce to events.acme.github".
	Op  string
	Err error
}

// Errorf builds an Error; the format follows [fmt.Errorf], %w included.
func Errorf(kind Kind, op, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string {
	switch {
	case e.Op == "" && e.Err == nil:
		return string(e.Kind)
	case e.Err == nil:
		return e.Op + ": " + string(e.Kind)
	case e.Op == "":
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost [Error] in err's tree, Internal for any other error and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
