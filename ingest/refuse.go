package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

// authentic reports whether the delivery's signature is valid. A refusal does not show whether the source exists: the body was read
// to the same limit, it is hashed with the source's key or a random one, and the answer waits in [waitBeforeRefusal].
func (h *Handler) authentic(d *delivery) (verdict, bool) {
	if d.source == nil {
		h.hashDummy(d.request.Body)
		return verdict{outcome: refused, reason: "unknown_source"}, false
	}
	err := d.source.Verifier.Verify(&d.request, d.received)
	if err == nil {
		d.source.Keys.verify(d.received, d.request.Secret, d.request.SignedAt)
		return verdict{}, true
	}
	e, ok := errors.AsType[*verify.Error](err)
	if !ok {
		e = &verify.Error{Reason: "internal"}
	}
	if e.Reason == verify.NotReady {
		return verdict{outcome: unavailable, reason: string(e.Reason), err: err}, false
	}
	hashed, reason := e.Reason == verify.Mismatch, e.Reason
	if e.Reason == verify.TooOld || e.Reason == verify.TooNew {
		hashed = true
		if !e.Signed { // whoever cannot sign says nothing of clocks
			reason = verify.Mismatch
		}
	}
	if d.packed != nil && reason == verify.Mismatch { // no secret is wrong
		reason = verify.Malformed
		err = &verify.Error{Reason: reason, Detail: "the body cannot be unpacked, which is signed as it was before: " + d.packed.Error()}
	}
	d.source.Keys.refuse(d.received, reason, e.Off)
	// The verifier has not hashed the body where it found no signature to compare, nor if it compares a secret.
	if !hashed || len(d.source.mapper().SecretHeaders()) > 0 {
		h.hashDummy(d.request.Body)
	}
	return verdict{outcome: refused, reason: knownReason(string(reason)), err: err}, false
}

// A refusal is answered refusalFloor after the body was read, plus refusalPerByte for each of its bytes (of a compressed one, for each that it may
// have unpacked, whether there is a source that unpacks it or not, up to refusalUnpacked), plus a random part of refusalSpread. Eight keys of
// SHA-512, the most that a source may have, take 15 ns a byte on a core of their own, and 49 where five compete for it (measured); one of
// SHA-256 takes 1, and unpacking 2.
//
// A compressed body of some KiB may have as many MiB: without a bound its refusal would wait for as long as the largest max_body takes,
// and a provider with a wrong secret would be gone before it is told.
//
// The spread is because the runtime sleeps for whole milliseconds: with a fixed end, the time of the answer would show by its fraction
// of a millisecond when the sleep began. It must be whole milliseconds itself, so that each fraction is as likely.
const (
	refusalFloor   = 5 * time.Millisecond
	refusalPerByte = 60 * time.Nanosecond
	refusalSpread  = 4 * time.Millisecond

	refusalUnpacked = int64(time.Second / refusalPerByte)
)

// waitBeforeRefusal waits until a refusal may be answered, or the sender is gone. Hashing alone does not take the same time for all
// sources: one with two keys hashes twice, one with SHA-512 takes longer, and with a body of some megabytes that can be measured.
func waitBeforeRefusal(ctx context.Context, d *delivery) {
	t := time.NewTimer(refusalFloor + time.Duration(d.hashed)*refusalPerByte + rand.N(refusalSpread) - time.Since(d.read))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// hash hashes and compares as a verifier does, and takes as long.
func (h *Handler) hash(body []byte) {
	mac := hmac.New(sha256.New, h.decoySecret[:])
	mac.Write(body)
	var sum [sha256.Size]byte
	subtle.ConstantTimeCompare(mac.Sum(sum[:0]), h.decoySecret[:])
}
