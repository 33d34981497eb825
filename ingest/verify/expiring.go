package verify

import (
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// NewExpiring builds the scheme that params names as [NewIn] does, for secrets of which each is taken until its time; zero: for ever, as is what
// until lacks.
func NewExpiring(params Params, secrets []schemas.Secret, around Around, until []time.Time) (Scheme, error) {
	all, err := NewIn(params, secrets, around)
	if err != nil {
		return nil, err
	}
	e := &expiring{Scheme: all, until: until}
	ends := slices.DeleteFunc(slices.Clone(until), time.Time.IsZero)
	slices.SortFunc(ends, time.Time.Compare)
	for _, end := range slices.CompactFunc(ends, time.Time.Equal) {
		left := remaining{from: end}
		var live []schemas.Secret
		for i, s := range secrets {
			if !e.ended(i+1, end) {
				live, left.secrets = append(live, s), append(left.secrets, i+1)
			}
		}
		if len(live) > 0 {
			if left.scheme, err = NewIn(params, live, around); err != nil {
				return nil, err
			}
			if looser(all, left.scheme) {
				left.scheme = nil
			}
		}
		e.remaining = append(e.remaining, left)
	}
	if len(e.remaining) == 0 {
		return all, nil
	}
	return e, nil
}

// expiring is a scheme some of whose secrets have an end. The embedded one has all of them.
type expiring struct {
	Scheme
	until     []time.Time // of each secret
	remaining []remaining // by from
}

// remaining is what is taken from a time on.
type remaining struct {
	from    time.Time
	scheme  Scheme // nil: nothing is
	secrets []int  // its secrets, counted from 1 among all
}

// ended reports whether a secret, counted from 1, is not taken any more.
func (e *expiring) ended(secret int, now time.Time) bool {
	return secret >= 1 && secret <= len(e.until) && !e.until[secret-1].IsZero() && !now.Before(e.until[secret-1])
}

// at returns what is taken at a time.
func (e *expiring) at(now time.Time) remaining {
	left := remaining{scheme: e.Scheme}
	for _, r := range e.remaining {
		if now.Before(r.from) {
			break
		}
		left = r
	}
	return left
}

// Verify refuses what an ended secret has signed, unless another signature beside it is by one that is taken.
func (e *expiring) Verify(r *Request, now time.Time) error {
	err := e.Scheme.Verify(r, now)
	left := e.at(now)
	if err != nil || left.from.IsZero() || !e.ended(r.Secret, now) && !several(e.Scheme) {
		return err
	}
	by := r.Secret
	if left.scheme != nil && left.scheme.Verify(r, now) == nil {
		if r.Secret > 0 { // 0: a key of the issuer's, which is no secret
			r.Secret = left.secrets[r.Secret-1]
		}
		return nil
	}
	r.Secret, r.SignedAt, r.Caller = 0, time.Time{}, Caller{}
	return refuse(Mismatch, "it is signed with secret %d, and a secret has expired that signed it", by)
}

// several reports whether a delivery may be proven with more than one secret of a scheme: with an account's and a key, or a token and a key.
func several(s Scheme) bool {
	switch s.(type) {
	case *JWT, *A2A:
		return true
	}
	return false
}

// looser reports whether what is left of a scheme asks for less than all of it: without its last account it would take everybody's tokens, and
// without its last token no token.
func looser(all, left Scheme) bool {
	switch all := all.(type) {
	case *JWT:
		return len(all.accounts) > 0 && len(left.(*JWT).accounts) == 0
	case *A2A:
		left := left.(*A2A)
		return all.tokens != nil && left.tokens == nil || all.jwt != nil && left.jwt == nil
	}
	return false
}

// Sign signs with the first secret that is taken.
func (e *expiring) Sign(r *Request, now time.Time) error {
	if left := e.at(now); left.scheme != nil {
		return left.scheme.Sign(r, now)
	}
	return e.Scheme.Sign(r, now)
}

// Confirm is that of [SNS], the only scheme that has one.
func (e *expiring) Confirm(at string) error {
	sns, ok := e.Scheme.(*SNS)
	if !ok {
		return errors.New("there is nothing to confirm")
	}
	return sns.Confirm(at)
}
