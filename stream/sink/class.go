package sink

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class says what an attempt's error means for the lane; what follows from each stands in the failure table, see
// [Failures]. It is recorded with every attempt, and is a metric label. The text is not always the constant's name:
// [ClassBusy] is "unavailable", [ClassBug] "internal".
type Class string

const (
	ClassOK        Class = ""              // no error
	ClassRejected  Class = "rejected"      // the destination said no for good
	ClassDenied    Class = "denied"        // it does not take our credentials, or they may not do this
	ClassThrottled Class = "throttled"     // too much at once; it has not acted
	ClassBusy      Class = "unavailable"   // it cannot now
	ClassTimeout   Class = "timeout"       // no answer in time
	ClassNetwork   Class = "network"       // reset, refused, cut off
	ClassDNS       Class = "dns"           // its name does not resolve
	ClassForbidden Class = "forbidden"     // our own guard refused the address
	ClassTemplate  Class = "template"      // what is to be sent cannot be made of this event
	ClassPayload   Class = "payload_lost"  // the event's bytes are gone
	ClassOrder     Class = "order_unknown" // whether its entity has a newer version cannot be told
	ClassDropped   Class = "dropped"       // the destination's rate is used up, and it is configured to drop then
	ClassBug       Class = "internal"      // our own fault
)

// AttemptError is what a Sink returns.
type AttemptError struct {
	Class Class
	Err   error
	// Untouched says that the destination has surely not acted: the call did not reach it, or it answered that it did nothing.
	// After such an error an action of an unsafe sink is retried, or dead, as its class says. After another one it is not tried
	// again by itself, because a second call might act twice.
	Untouched bool
}

func (e *AttemptError) Error() string { return fmt.Sprintf("%s: %v", e.Class, e.Err) }
func (e *AttemptError) Unwrap() error { return e.Err }

// ClassOf returns the class of the outermost AttemptError in err's tree; ClassBug for any other error.
func ClassOf(err error) Class {
	if err == nil {
		return ClassOK
	}
	if e, ok := errors.AsType[*AttemptError](err); ok {
		return e.Class
	}
	return ClassBug
}

// Untouched reports whether err says that the destination has surely not acted.
func Untouched(err error) bool {
	e, ok := errors.AsType[*AttemptError](err)
	return ok && (e.Untouched || e.Class == ClassThrottled)
}

// ForLog returns what an error says to the process's log alone, beside its text, which teams read; empty if it says nothing there.
func ForLog(err error) string {
	if e, ok := errors.AsType[interface {
		error
		ForLog() string
	}](err); ok {
		return e.ForLog()
	}
	return ""
}

// Text returns an error's text as a database stores it: valid UTF-8, at most most bytes, with spaces for the control characters of ASCII. It is
// empty for a nil error.
func Text(err error, most int) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), most)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// NotYet says that no attempt can be made before Wait has passed, because of a limit of ours. It uses up no attempt.
type NotYet struct{ Wait time.Duration }

func (e *NotYet) Error() string { return fmt.Sprintf("not before %s from now", e.Wait) }
