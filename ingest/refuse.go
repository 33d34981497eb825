package ingest

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"github.com/forebay-io/forebay/ingest/verify"
)

// authentic reports whether the delivery's signature holds. A refusal looks the same, costs the same and is limited
// the same whether the source exists or not: the body was read to the same limit, and it is hashed once with a key,
// the source's or a random one.
func (h *Handler) authentic(d *delivery) (verdict, bool) {
	if d.source == nil {
		h.work(d.request.Body)
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
		h.work(d.request.Body)
	}
	return verdict{outcome: refused, reason: knownReason(string(reason)), err: err}, false
}

// hash does what a verifier does.
func (h *Handler) hash(body []byte) {
	mac := hmac.New(sha256.New, h.decoy[:])
	mac.Write(body)
	var sum [sha256.Size]byte
	subtle.ConstantTimeCompare(mac.Sum(sum[:0]), h.decoy[:])
}
