// Package execsink runs a local command for each action: a program with its arguments, never a shell. The event's body is
// its standard input.
//
// Its environment is PATH, what the configuration lists, and:
//
//	FOREBAY_ACTION_ID      the idempotency key, the same on every attempt
//	FOREBAY_ACTION         the action's name
//	FOREBAY_SUBSCRIPTION   <team>.<subscription>
//	FOREBAY_DESTINATION    <team>/<destination>, or <destination> where teams share it
//	FOREBAY_ATTEMPT        1 for the first
//	FOREBAY_EPOCH          of the owner's fence
//	FOREBAY_LATE           true where newer versions have run already
//	FOREBAY_REASON         the gate's reason for its decision on the event
//	FOREBAY_EVENT_ID, FOREBAY_SOURCE, FOREBAY_TYPE, FOREBAY_ENTITY, FOREBAY_TIME, FOREBAY_CONTENT_TYPE
//	FOREBAY_VERSION        as text that sorts; FOREBAY_VERSION_KIND, FOREBAY_VERSION_CLOCK
//	FOREBAY_DELETED        true where the event ends its entity
//	FOREBAY_AGENT_CALL_CHAIN, FOREBAY_AGENT_CALL_DEPTH, FOREBAY_AGENT_TRACE_ID
//	                       which agents led to it, the subscription last
//	TRACEPARENT            a child of the event's trace
//
// What its exit status means:
//
//	0                      done
//	75                     a temporary failure, nothing was done: retried
//	64 to 68, 78           the event or the command line is no good: dead at once
//	77                     no permission: dead at once, alerted
//	any other, a signal    retried where the command is declared idempotent, else unknown and left to an operator
//
// The names are those of sysexits.h. A command that was not found, or could not be started, is retried: it did nothing.
//
// A command is unsafe unless it is declared idempotent: nothing is known of what it does when it is run twice.
//
// It has a process group of its own, all of which is killed when the time is up, when the command has ended and when this
// process ends, be it by kill -9: nothing in it outlives the attempt. What leaves the group, as daemons do by setsid, is its
// own, and may be at work beside the next attempt. The group is led by this program, as its keeper; see package keeper.
//
// The beginning of its output, standard output and standard error as they come, is kept with the attempt.
package execsink
