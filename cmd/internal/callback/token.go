package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Keys make and check tokens. A token has a MAC: the HMAC-SHA256 of a secret over what the token is for. New tokens are made with the
// first secret; tokens of any of the secrets are good, so that secrets can be rotated. Safe for concurrent use.
//
//	fba2_ base64url(ledger, fence, lane_seq, attempt, epoch, span, mac)   one attempt of one action
//	fbe1_ base64url(mac)                                                  the status of one event, to read
//
// An action's token has the place of the attempt in the ledger, and which ledger that is, as processes with other ledgers have attempts in the
// same places, of the same action even where a subscription was moved to another one: the id of the partition's fence, lane_seq, attempt, and the epoch of the
// owner that makes the attempt. So the ledger needs no index by action id, and an attempt that an owner had not recorded when it was
// killed has another token than the next owner's attempt with the same number. Where the attempt has a span, the token has its place: what is
// reported later is shown below it, whichever process gets the report.
type Keys struct{ keys atomic.Pointer[[][]byte] }

const (
	actionPrefix = "fba2_"
	eventPrefix  = "fbe1_"
	refSize      = 16 + 4 + 8 + 4 + 8
)

// NewKeys takes the secrets of `agents.secrets`; at least one.
func NewKeys(secrets []schemas.Secret) *Keys {
	k := &Keys{}
	k.Set(secrets)
	return k
}

// Set puts other secrets in the place of those that k has, for the next token. Without any, k keeps what it has.
func (k *Keys) Set(secrets []schemas.Secret) {
	var keys [][]byte
	for _, s := range secrets {
		keys = append(keys, []byte(s.Reveal()))
	}
	if len(keys) > 0 {
		k.keys.Store(&keys)
	}
}

// first returns the key that makes tokens.
func (k *Keys) first() []byte { return (*k.keys.Load())[0] }

// Action returns the token of an attempt in the ledger of, whose span is at span.
func (k *Keys) Action(of [16]byte, r ledger.AttemptRef, id schemas.ActionID, span trace.Place) schemas.Secret {
	place := append(make([]byte, 0, refSize+sha256.Size), of[:]...)
	place = binary.BigEndian.AppendUint32(place, uint32(r.Fence))
	place = binary.BigEndian.AppendUint64(place, uint64(r.LaneSeq))
	place = binary.BigEndian.AppendUint32(place, uint32(r.Attempt))
	place = span.Append(binary.BigEndian.AppendUint64(place, uint64(r.Epoch)))
	sum := mac(k.first(), "action", string(place), string(id))
	return schemas.NewSecret(actionPrefix + encoding.EncodeToString(append(place, sum...)))
}

// tokenAttempt is what an action's token says.
type tokenAttempt struct {
	ledger [16]byte
	ref    ledger.AttemptRef
	span   trace.Place
}

// openAction returns what a token was made for. ok is false if it is no token of these keys, or not one for this action.
func (k *Keys) openAction(token, id string) (a tokenAttempt, ok bool) {
	text, prefixed := strings.CutPrefix(token, actionPrefix)
	raw, err := decode(text)
	if !prefixed || err != nil || len(raw) < refSize+sha256.Size {
		return a, false
	}
	place, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !k.made(sum, "action", string(place), id) {
		return a, false
	}
	a.span, ok = trace.ParsePlace(place[refSize:])
	place = place[copy(a.ledger[:], place):]
	a.ref.Fence = int32(binary.BigEndian.Uint32(place))
	a.ref.LaneSeq = int64(binary.BigEndian.Uint64(place[4:]))
	a.ref.Attempt = int(binary.BigEndian.Uint32(place[12:]))
	a.ref.Epoch = int64(binary.BigEndian.Uint64(place[16:]))
	return a, ok
}

// Event returns the token that reads the status of an event.
func (k *Keys) Event(team, source, id string) string {
	return eventPrefix + encoding.EncodeToString(mac(k.first(), "event", team, source, id))
}

// IsForEvent reports whether these keys made a token for this event.
func (k *Keys) IsForEvent(token, team, source, id string) bool {
	text, prefixed := strings.CutPrefix(token, eventPrefix)
	sum, err := decode(text)
	return prefixed && err == nil && k.made(sum, "event", team, source, id)
}

// made reports whether sum is the MAC of parts under one of the keys. It compares in constant time, with all keys.
func (k *Keys) made(sum []byte, parts ...string) (ok bool) {
	keys := k.keys.Load()
	if keys == nil {
		return false
	}
	for _, key := range *keys {
		ok = hmac.Equal(sum, mac(key, parts...)) || ok
	}
	return ok
}

// encoding is strict, so that a token has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// decode is for what encoding has encoded alone. The decoder passes over line breaks, strict or not, so that a token would have many forms.
func decode(text string) ([]byte, error) {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return encoding.DecodeString(text)
}

// mac returns the HMAC of parts, each with its length. The first part says what the token is for.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range append([]string{"forebay token 1"}, parts...) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}
