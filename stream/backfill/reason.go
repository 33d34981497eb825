package backfill

import (
	"fmt"
	"time"

	"github.com/forebay-io/forebay/stream/sink"
)

// Reason is the closed list of why a request was not filled; empty if it was. It is a metric label, and what an
// operator reads.
type Reason string

const (
	NotFound    Reason = "not_found"    // 404: the API does not know it, or the credentials may not see it
	Gone        Reason = "gone"         // 410
	Denied      Reason = "denied"       // 401, 403
	Rejected    Reason = "rejected"     // any other answer that is final, redirects included
	Throttled   Reason = "throttled"    // 429 to the last, or a rate limit longer than the time there was
	Unavailable Reason = "unavailable"  // 408, 425, 5xx to the last
	Timeout     Reason = "timeout"      // no answer in time, to the last
	Network     Reason = "network"      // refused, reset, cut off, DNS, to the last
	Forbidden   Reason = "forbidden"    // our own guard refused the address
	Internal    Reason = "internal"     // our own fault
	TooLarge    Reason = "too_large"    // the answer is larger than allowed
	NotJSON     Reason = "not_json"     // the answer cannot be read, or has no elements where items points
	BadPaging   Reason = "bad_paging"   // the link to the next page leads elsewhere
	BadURL      Reason = "bad_url"      // the template cannot be filled for this entity
	Nothing     Reason = "nothing"      // the answer has no element of the range
	OtherEntity Reason = "other_entity" // the answer has elements of other entities, clocks or kinds of version only
	Unusable    Reason = "unusable"     // no element of the answer can be made an event
	NotProduced Reason = "not_produced" // the log could not be written in time
	Unknown     Reason = "no_template"  // the source has no backfill
)

// reasonOf returns the reason of an exchange that failed with a class, and an HTTP status or 0.
func reasonOf(class sink.Class, code int) Reason {
	switch {
	case code == 404:
		return NotFound
	case code == 410:
		return Gone
	}
	switch class {
	case sink.ClassDenied:
		return Denied
	case sink.ClassThrottled:
		return Throttled
	case sink.ClassBusy:
		return Unavailable
	case sink.ClassTimeout:
		return Timeout
	case sink.ClassNetwork, sink.ClassDNS:
		return Network
	case sink.ClassForbidden:
		return Forbidden
	case sink.ClassRejected:
		return Rejected
	}
	return Internal
}

// failure is why there is no answer, or none that can be used. It names no URL and quotes no answer.
type failure struct {
	reason     Reason
	class      sink.Class
	code       int           // HTTP status, or 0
	retryAfter time.Duration // as the server asked; 0 when it did not
	err        error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// final returns a failure that is not retried: asking again would not mend it.
func final(reason Reason, format string, args ...any) *failure {
	return &failure{reason: reason, class: sink.ClassRejected, err: fmt.Errorf(format, args...)}
}
