// Package guard is the HTTP client of every call that leaves Forebay: sinks now, backfills and alerts later.
//
// Addresses come from configuration that many people write, and names change what they resolve to. So an address is
// judged where it counts, on the socket right before it connects, after every resolution and for every connection:
// what is not a public unicast address is refused unless the destination lists its network, and only a listed network
// may be spoken to in plain text. There is no way around it by redirect (none is followed), by a proxy of the
// environment (none is read) or by spelling (a host that only looks like a number is refused).
//
// A request is sent once: the client strips what would let net/http send it again on a lost connection.
//
// Refusals are [sink.AttemptError]s of class forbidden; nothing in an error names the URL, which may hold a secret.
package guard
