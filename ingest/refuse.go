package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

// authentic reports whether the delivery's signature holds. A refusal looks the same, takes the same time and is
// limited the same whether the source exists or not: the body was read to the same limit, it is hashed with a key, the
// source's or a random one, and the answer waits in [waitBeforeRefusal].
func (h *Handler) authentic(d *delivery) (verdict, bool) {
	if d.source == nil {
		h.hashDummy(d.request.Body)
		return verdict{outcome: refused, reason: "unknown_source"}, false
	}
	err := d.source.Verifier.Verify(&d.request, d.received)
	if err == nil {
		return verdict{}, true
	}
	reason := verify.Reason("internal")
	if e, ok := errors.AsType[*verify.Error](err); ok {
		reason = e.Reason
	}
	// Only a mismatch comes after a hash over the body, and not where a secret was compared.
	if reason != verify.Mismatch || len(d.source.mapper().SecretHeaders()) > 0 {
		h.hashDummy(d.request.Body)
	}
	return verdict{outcome: refused, reason: knownReason(string(reason)), err: err}, false
}

// A refusal is answered refusalFloor after the body was read, and refusalPerByte more for each of its bytes: long
// enough for as many keys as a source may have, and any algorithm.
const (
	refusalFloor   = 5 * time.Millisecond
	refusalPerByte = 30 * time.Nanosecond
)

// waitBeforeRefusal waits until a refusal may be answered, or the sender is gone. Equal work is not enough: a source with two keys
// hashes twice, and one with SHA-512 for longer, which a body of some megabytes shows.
func waitBeforeRefusal(ctx context.Context, d *delivery) {
	t := time.NewTimer(refusalFloor + time.Duration(d.size)*refusalPerByte - time.Since(d.read))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// hash takes as long as a verifier.
func (h *Handler) hash(body []byte) {
	mac := hmac.New(sha256.New, h.decoy[:])
	mac.Write(body)
	var sum [sha256.Size]byte
	subtle.ConstantTimeCompare(mac.Sum(sum[:0]), h.decoy[:])
}
