package schemas

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// EntityKey is the entity's name inside its source: the mapped values percent-encoded and joined with "/".
type EntityKey string

// NewEntityKey joins values into a key. Every byte of them outside A-Z a-z 0-9 - . _ ~ : @ is percent-encoded: a "/" in the key is
// always a separator, and the key is printable ASCII.
func NewEntityKey(values ...string) EntityKey {
	n := len(values)
	for _, v := range values {
		n += len(v)
	}
	var b strings.Builder
	b.Grow(n) // enough if nothing is encoded
	for i, v := range values {
		if i > 0 {
			b.WriteByte('/')
		}
		escape(&b, v)
	}
	return EntityKey(b.String())
}

// escape writes s, percent-encoded as NewEntityKey says.
func escape(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~:@", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}

// EventKey is the dedupe key of an event: the first 16 bytes of SHA-256 over (source, id). Its size is fixed: an index takes it, however
// long the id is.
type EventKey [16]byte

// NewEventKey returns the dedupe key of the event with this identity.
func NewEventKey(source, id string) EventKey {
	return EventKey(hashParts(source, id))
}

// OfGeneration returns the dedupe key of the event in the generation of a replay, which runs it again.
func (k EventKey) OfGeneration(replay int64) EventKey {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(replay))
	return EventKey(hashParts(string(k[:]), string(number[:])))
}

// String returns the key in hex.
func (k EventKey) String() string { return hex.EncodeToString(k[:]) }

// BodyHash is the first 16 bytes of SHA-256 over the body without its volatile pointers.
type BodyHash [16]byte

// HashBody hashes a body. Where a preset declares volatile pointers, the caller passes the body with the bytes of
// those values cut out; everything else passes the raw body.
func HashBody(body []byte) BodyHash { return ShortHash(sha256.Sum256(body)) }

// ShortHash is [HashBody] for who has hashed the body already.
func ShortHash(sum [sha256.Size]byte) BodyHash { return BodyHash(sum[:16]) }

// String returns the hash in hex.
func (h BodyHash) String() string { return hex.EncodeToString(h[:]) }

// ActionID is stable over every attempt of one effect for one event; it is the Idempotency-Key at destinations.
type ActionID string

var actionEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewActionID returns "act_" and 26 characters over (namespace, generation, source, event id, action name).
func NewActionID(namespace string, generation int32, source, eventID, action string) ActionID {
	var gen [4]byte
	binary.BigEndian.PutUint32(gen[:], uint32(generation))
	h := hashParts(namespace, string(gen[:]), source, eventID, action)
	return ActionIDOf(h)
}

// Hash returns the 16 bytes that the id encodes; false if it is not an id of an action.
func (a ActionID) Hash() (h [16]byte, ok bool) {
	text, ok := strings.CutPrefix(string(a), "act_")
	if !ok || len(text) != actionEncoding.EncodedLen(len(h)) {
		return h, false
	}
	b, err := actionEncoding.DecodeString(text)
	if err != nil || actionEncoding.EncodeToString(b) != text { // several last characters decode to the same bytes: only one is ours
		return h, false
	}
	return [16]byte(b), true
}

// ActionIDOf returns the id that encodes 16 bytes.
func ActionIDOf(h [16]byte) ActionID { return ActionID("act_" + actionEncoding.EncodeToString(h[:])) }

// Range returns the bounds, both included, of what an id encodes that begins so: "act_" and up to 26 characters. ok is false if no id does.
func (a ActionID) Range() (low, high [16]byte, ok bool) {
	text, ok := strings.CutPrefix(string(a), "act_")
	room := actionEncoding.EncodedLen(len(low)) - len(text)
	if !ok || room < 0 {
		return low, high, false
	}
	first, errFirst := actionEncoding.DecodeString(text + strings.Repeat("0", room))
	last, errLast := actionEncoding.DecodeString(text + strings.Repeat("z", room))
	if errFirst != nil || errLast != nil {
		return low, high, false
	}
	return [16]byte(first), [16]byte(last), true
}

// hashParts hashes parts with their lengths: ("ab", "c") and ("a", "bc") have different hashes.
func hashParts(parts ...string) [16]byte {
	var room [512]byte // mostly enough, and then nothing is allocated
	buf := room[:0]
	for _, p := range parts {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(p)))
		buf = append(buf, p...)
	}
	sum := sha256.Sum256(buf)
	return [16]byte(sum[:16])
}
