package sink

import "time"

// Then is what follows an attempt.
type Then string

const (
	ThenDone    Then = "done"
	ThenDead    Then = "dead at once"
	ThenRetried Then = "retried"
)

// Failure is a row of the failure table.
type Failure struct {
	What  string   // how the attempt ended, in words
	Codes [][2]int // the HTTP statuses that it is about, from and to; none if no answer came
	Class Class
	Then  Then
	// Most is how many of these in a row are made at most, where that is less than the destination allows; 0 is no such bound.
	Most int
	// Apart is how long it takes from one of these to the next attempt at least.
	Apart time.Duration
	// Alert says that an operator is told when the action is dead: something has to be mended. Mend says what; it is there
	// with Alert alone.
	Alert bool
	Mend  string
	// Hold says that with a Retry-After the whole destination waits, not this action alone.
	Hold bool
	// PauseAfter is how many of these in a row pause a destination that is an [Endpoint]; 0 never does.
	PauseAfter int
}

// failures is the one table of how an attempt may end. Sinks read the class of a status from it, lanes read what follows. deploy/docs/REFERENCE.md
// shows it, and a test compares the two. The first row that holds a status counts. Then, Most, Apart, Alert
// and Mend are the same in all rows of a class.
var failures = []Failure{
	{What: "2xx", Codes: [][2]int{{200, 299}}, Class: ClassOK, Then: ThenDone},
	{What: "401, 403", Codes: [][2]int{{401, 401}, {403, 403}}, Class: ClassDenied, Then: ThenDead, Alert: true,
		Mend: "fix the destination's credentials, or what they may do, then replay"},
	{What: "404", Codes: [][2]int{{404, 404}}, Class: ClassRejected, Then: ThenDead, PauseAfter: 5},
	{What: "410", Codes: [][2]int{{410, 410}}, Class: ClassRejected, Then: ThenDead, PauseAfter: 1},
	{What: "429", Codes: [][2]int{{429, 429}}, Class: ClassThrottled, Then: ThenRetried, Hold: true},
	{What: "503", Codes: [][2]int{{503, 503}}, Class: ClassBusy, Then: ThenRetried, Hold: true},
	{What: "408, 425, other 5xx", Codes: [][2]int{{408, 408}, {425, 425}, {500, 599}}, Class: ClassBusy, Then: ThenRetried},
	{What: "400, 422, any other status, redirects among them", Codes: [][2]int{{0, 999}}, Class: ClassRejected, Then: ThenDead},
	{What: "no answer in time", Class: ClassTimeout, Then: ThenRetried},
	{What: "a connection that is refused, reset or cut off, or fails in TLS", Class: ClassNetwork, Then: ThenRetried},
	{What: "a name that does not resolve, or a name server that does not answer", Class: ClassDNS, Then: ThenRetried, Most: 5, Apart: time.Minute, Alert: true,
		Mend: "fix the host name in the destination's URL, or the name server of this machine, then replay"},
	{What: "an address that Forebay's own guard refuses", Class: ClassForbidden, Then: ThenDead, Alert: true,
		Mend: "fix the destination's URL, or list the network that it leads to in allow_networks, then replay"},
	{What: "a template that fails on the event", Class: ClassTemplate, Then: ThenDead},
	{What: "the event's bytes are gone", Class: ClassPayload, Then: ThenDead, Alert: true,
		Mend: "the log no longer has its event: give the source's topic a longer retention, and have the provider send the event again"},
	{What: "the destination's own rate is used up, with `on_limit: drop`", Class: ClassDropped, Then: ThenDead},
	{What: "it is to run again out of order, and so much stands behind it that nobody can tell what has overtaken it", Class: ClassOrder, Then: ThenDead},
	{What: "a fault of Forebay's own", Class: ClassBug, Then: ThenRetried},
}

// Failures returns the rows of the failure table.
func Failures() []Failure { return append([]Failure(nil), failures...) }

// Classes returns the classes of the failure table, [ClassOK] among them.
func Classes() (list []Class) {
	seen := map[Class]bool{}
	for _, f := range failures {
		if !seen[f.Class] {
			list = append(list, f.Class)
		}
		seen[f.Class] = true
	}
	return list
}

// ofStatus returns the row of an HTTP status. Every status has one; 0, no answer at all, counts as rejected.
func ofStatus(code int) Failure {
	for _, f := range failures {
		for _, c := range f.Codes {
			if c[0] <= code && code <= c[1] {
				return f
			}
		}
	}
	return Failure{Class: ClassRejected, Then: ThenDead}
}

// failureOf returns the first row of a class. A class that is in no row is a bug of ours: it counts as ClassBug.
func failureOf(c Class) Failure {
	for _, f := range failures {
		if f.Class == c {
			return f
		}
	}
	return failureOf(ClassBug)
}

// ClassOfStatus returns the class of an HTTP status.
func ClassOfStatus(code int) Class { return ofStatus(code).Class }

// PauseAfter returns after how many answers of this status in a row a destination that is an [Endpoint] is paused; 0 never.
func PauseAfter(code int) int { return ofStatus(code).PauseAfter }

// Holds reports whether an answer of this status that a sink gave the class c holds the whole destination for as long as
// its Retry-After says.
func Holds(c Class, code int) bool {
	if f := ofStatus(code); f.Class == c {
		return f.Hold
	}
	return failureOf(c).Hold
}

// Retried reports whether the lane tries again after c.
func (c Class) Retried() bool { return failureOf(c).Then == ThenRetried }

// Most returns how many attempts in a row are made at most when they end with c; 0: as many as the destination allows.
func (c Class) Most() int { return failureOf(c).Most }

// Apart returns how long it takes from an attempt that ends with c to the next at least.
func (c Class) Apart() time.Duration { return failureOf(c).Apart }

// Mend returns what an operator has to mend when actions fail for good with class c; empty for classes without an alert.
func (c Class) Mend() string { return failureOf(c).Mend }

// Alerted reports whether an operator is alerted when an action fails for good with class c.
func (c Class) Alerted() bool { return failureOf(c).Alert }
