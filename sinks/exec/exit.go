package execsink

import (
	"fmt"

	"github.com/forebay-io/forebay/stream/sink"
)

// exit is a row of the table that says what an exit status means. Low and High are inclusive.
type exit struct {
	low, high int
	class     sink.Class
	untouched bool
}

// exits is the table; see the package comment. No row: the command may have acted.
var exits = []exit{
	{0, 0, sink.ClassOK, false},
	{64, 68, sink.ClassRejected, false}, // EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_NOUSER, EX_NOHOST
	{75, 75, sink.ClassBusy, true},      // EX_TEMPFAIL
	{77, 77, sink.ClassDenied, false},   // EX_NOPERM
	{78, 78, sink.ClassRejected, false}, // EX_CONFIG
}

// attemptError returns the error of an attempt whose command has exited with a status; nil if it succeeded. A status that the table
// does not have is ClassBusy: programs exit with 1 for any failure, also one that does not last.
func attemptError(status int) error {
	for _, e := range exits {
		if status < e.low || status > e.high {
			continue
		}
		if e.class == sink.ClassOK {
			return nil
		}
		return &sink.AttemptError{Class: e.class, Err: fmt.Errorf("command exited with %d", status), Untouched: e.untouched}
	}
	return &sink.AttemptError{Class: sink.ClassBusy, Err: fmt.Errorf("command exited with %d", status)}
}
