package stream

import (
	"errors"
	"fmt"
)

// Class says what an attempt's error means for the lane. It is recorded with every attempt and a metric label.
type Class string

const (
	ClassOK        Class = ""             // no error
	ClassRejected  Class = "rejected"     // the destination said no for good: dead at once
	ClassDenied    Class = "denied"       // 401, 403: dead at once, alerted
	ClassThrottled Class = "throttled"    // 429: retried, Retry-After wins
	ClassBusy      Class = "unavailable"  // 408, 425, 5xx: retried
	ClassTimeout   Class = "timeout"      // no answer in time: retried
	ClassNetwork   Class = "network"      // reset, refused, DNS: retried
	ClassForbidden Class = "forbidden"    // our own guard refused the address: dead at once
	ClassPayload   Class = "payload_lost" // the event's bytes are gone: dead at once
	ClassBug       Class = "internal"     // our own fault: retried
)

// Retried reports whether the lane tries again after c.
func (c Class) Retried() bool {
	switch c {
	case ClassRejected, ClassDenied, ClassForbidden, ClassPayload, ClassOK:
		return false
	}
	return true
}

// AttemptError is what a Sink returns.
type AttemptError struct {
	Class Class
	Err   error
}

func (e *AttemptError) Error() string { return fmt.Sprintf("%s: %v", e.Class, e.Err) }
func (e *AttemptError) Unwrap() error { return e.Err }

// ClassOf is the class of the outermost AttemptError in err's tree; ClassBug for any other error.
func ClassOf(err error) Class {
	if err == nil {
		return ClassOK
	}
	if e, ok := errors.AsType[*AttemptError](err); ok {
		return e.Class
	}
	return ClassBug
}
