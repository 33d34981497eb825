// Package trace reads and starts W3C trace contexts.
package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

const (
	length   = len("00-12345678901234567890123456789012-1234567890123456-01")
	maxState = 512
)

// Parse reads the values of a request's traceparent header and returns the context in version 00. ok is false unless there is exactly one
// value and it is valid: the caller then starts a new trace.
func Parse(values []string) (parent string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	s := strings.Trim(values[0], " \t")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", false
	}
	version, id, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if !lowerHex(version) || !lowerHex(id) || !lowerHex(span) || !lowerHex(flags) || zero(id) || zero(span) {
		return "", false
	}
	switch {
	case version == "ff":
		return "", false
	case version == "00":
		return s, len(s) == length
	case len(s) > length && s[length] != '-':
		return "", false
	}
	// Of a later version, only the parts of version 00 are known, and of the flags only "sampled".
	b, _ := hex.DecodeString(flags)
	return "00-" + id + "-" + span + "-" + hex.EncodeToString([]byte{b[0] & 1}), true
}

// ID returns the trace id of a context; zero if the context is not valid.
func ID(parent string) (id [16]byte) {
	if parent, ok := Parse([]string{parent}); ok {
		_, _ = hex.Decode(id[:], []byte(parent[3:35]))
	}
	return id
}

func lowerHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		digit, letter := '0' <= c && c <= '9', 'a' <= c && c <= 'f'
		if !digit && !letter {
			return false
		}
	}
	return true
}

func zero(s string) bool { return strings.Trim(s, "0") == "" }

// New returns the context of a new trace, with new ids and without the flag "sampled". Ids need to be distinct, not secret.
func New() string {
	var id [24]byte
	binary.BigEndian.PutUint64(id[0:], nonZero())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	binary.BigEndian.PutUint64(id[16:], nonZero())
	b := make([]byte, 0, length)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:16])
	b = append(b, '-')
	b = hex.AppendEncode(b, id[16:])
	return string(append(b, "-00"...))
}

func nonZero() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}

// Accept returns the context of a request by the values of its headers traceparent and tracestate. That is a trusted caller's, with its state if that is
// printable and not too long. Where it is missing or not valid, and of any other caller, it is that of a new trace: strangers choose neither what is
// sampled nor whose trace they are in.
func Accept(parents, states []string, trusted bool) (parent, state string) {
	parent, ok := Parse(parents)
	if !ok || !trusted {
		return New(), ""
	}
	return parent, stateOf(states)
}

// stateOf returns the value of a request's tracestate headers; empty if it is not printable or too long.
func stateOf(states []string) string {
	state := strings.Join(states, ",")
	if len(state) > maxState || !printable(state) {
		return ""
	}
	return state
}

func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7E {
			return false
		}
	}
	return true
}

// Child returns the context of one hop inside the trace of parent: the trace's id, flags and state with a new span id. If parent is not
// valid, that is a new trace without state.
func Child(parent, state string) (hopParent, hopState string) {
	parent, ok := Parse([]string{parent})
	if !ok {
		return New(), ""
	}
	if !printable(state) {
		state = ""
	}
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], nonZero())
	// version and trace id, the span id, the flags
	return parent[:36] + hex.EncodeToString(span[:]) + parent[52:], state
}
