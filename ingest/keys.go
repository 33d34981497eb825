package ingest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Keys counts what a source's secrets have verified and refused in this process. A nil one counts nothing. Safe for concurrent use.
type Keys struct {
	secrets           []schemas.Secret
	each              []*secretUse // of each of them
	verified, refused atomic.Int64
	verifiedAt        atomic.Int64 // when the last delivery was verified, in nanoseconds of Unix time; 0: none was
	mismatches        atomic.Int64 // signatures that no secret matches, since then
	mismatchedAt      atomic.Int64 // when the first of those came

	signed atomic.Int64         // how many of the verified ones had a time of signing
	behind [skewOf]atomic.Int64 // how far that was behind, of the last ones, in nanoseconds

	late     atomic.Bool // whether there are any of untimely, so that whoever verifies seldom takes mu
	mu       sync.Mutex
	untimely Untimely // since the last delivery that was verified
}

// secretUse counts what one secret has verified, also after others of its source were changed.
type secretUse struct {
	since              time.Time // when this process had the secret first
	verified, lastUsed atomic.Int64
}

// skewOf is of how many of the last deliveries [Skew] is.
const skewOf = 8

// Skew is how far the times of signing of the last verified deliveries were behind this process's clock, below zero ahead of it: what the clocks
// differ by, and how long the deliveries took. The least of them took the shortest way, so it says most of the clocks.
type Skew struct {
	Of          int // how many deliveries; 0: none was signed with a time
	Least, Most time.Duration
}

// SecretUse is what one of a source's secrets has verified in this process.
type SecretUse struct {
	Since    time.Time // when this process had the secret first: it may be older
	Verified int64
	LastUsed time.Time // zero: it has verified nothing
}

// ClockAfter is how many deliveries a source's [Untimely] has before a clock is taken for wrong.
const ClockAfter = 5

// Untimely are deliveries whose signature is right, and whose time of signing is too far from this process's clock. One that was not signed
// later than all before it is none of them: whoever has captured one and sends it again and again has made one.
type Untimely struct {
	Count int64
	Since time.Time // when the first of them came
	// Least and Most are how far the last [ClockAfter] of them are behind the clock, or below zero ahead of it. Where the two are close, a clock is
	// wrong: what was kept back, or is sent once more by somebody else, gets older as time goes by.
	Least, Most time.Duration

	signed time.Time                 // the last of them, by its sender's clock
	behind [ClockAfter]time.Duration // of the last ones, the one with number n at n modulo ClockAfter
}

// note adds a delivery that came at a time, so far behind it, if it was signed later than those before, and reports whether it was.
func (u *Untimely) note(at time.Time, behind time.Duration) bool {
	signed := at.Round(0).Add(-behind) // by the clocks on the wall, as behind is: the monotonic one would make a repeat a little later
	if u.Count == 0 {
		u.Since = at
	} else if !signed.After(u.signed) {
		return false
	}
	u.signed = signed
	u.behind[u.Count%ClockAfter] = behind
	u.Count++
	last := u.behind[:min(u.Count, ClockAfter)]
	u.Least, u.Most = slices.Min(last), slices.Max(last)
	return true
}

// KeysOf returns the Keys to count with for these secrets: those of before, the source until now, if it has the same ones; else what those that stay have
// verified goes on, and the rest is counted anew.
func KeysOf(secrets []schemas.Secret, before *Source) *Keys {
	if before != nil && before.Keys != nil && slices.Equal(before.Keys.secrets, secrets) {
		return before.Keys
	}
	k := &Keys{secrets: secrets, each: make([]*secretUse, len(secrets))}
	for i, s := range secrets {
		if before != nil && before.Keys != nil {
			if was := slices.Index(before.Keys.secrets, s); was >= 0 {
				k.each[i] = before.Keys.each[was]
				k.verified.Add(k.each[i].verified.Load())
				k.verifiedAt.Store(max(k.verifiedAt.Load(), k.each[i].lastUsed.Load()))
				continue
			}
		}
		k.each[i] = &secretUse{since: time.Now().UTC()}
	}
	return k
}

// KeyCounts are what [Keys] has counted.
type KeyCounts struct {
	Verified, Refused int64
	VerifiedAt        time.Time // of the last delivery that was verified; zero: none was
	// Mismatches are the signatures that no secret matches since the last delivery that was verified, or that was one of [ClockAfter] Untimely ones or
	// more, or since the beginning, and MismatchedAt is when the first of them came. Whether a provider signs with another secret by now, or a stranger with none, cannot be
	// told from a signature.
	Mismatches   int64
	MismatchedAt time.Time
	// Untimely are those since the last delivery whose time was right, too.
	Untimely Untimely
	Secrets  []SecretUse // of each secret, in the order of the configuration
	Skew     Skew
}

// verify counts a delivery whose signature is valid: with which secret, from 1, and the time that it was signed with; zero: with none.
func (k *Keys) verify(at time.Time, secret int, signed time.Time) {
	if k == nil {
		return
	}
	k.verified.Add(1)
	if secret >= 1 && secret <= len(k.each) {
		k.each[secret-1].verified.Add(1)
		k.each[secret-1].lastUsed.Store(at.UnixNano())
	}
	if !signed.IsZero() {
		k.behind[(k.signed.Add(1)-1)%skewOf].Store(int64(at.Round(0).Sub(signed)))
	}
	k.verifiedAt.Store(at.UnixNano())
	if k.mismatches.Load() != 0 {
		k.mismatches.Store(0)
	}
	if k.late.Load() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.untimely = Untimely{}
		k.late.Store(false)
	}
}

// refuse counts a delivery that was refused for this reason; of TooOld and TooNew, with how far its time is behind.
func (k *Keys) refuse(at time.Time, why verify.Reason, behind time.Duration) {
	if k == nil {
		return
	}
	k.refused.Add(1)
	switch why {
	case verify.Mismatch:
		if k.mismatches.Add(1) == 1 {
			k.mismatchedAt.Store(at.UnixNano())
		}
	case verify.TooOld, verify.TooNew:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.late.Store(true)
		// A secret has verified it. That the sender still signs with it, one that may have been captured long ago does not say.
		if k.untimely.note(at, behind) && k.untimely.Count >= ClockAfter {
			k.mismatches.Store(0)
		}
	}
}

// Counts returns what was counted. Where deliveries come meanwhile, the counts may be of moments next to each other.
func (k *Keys) Counts() KeyCounts {
	c := KeyCounts{Verified: k.verified.Load(), Refused: k.refused.Load(), Mismatches: k.mismatches.Load()}
	if at := k.verifiedAt.Load(); at != 0 {
		c.VerifiedAt = time.Unix(0, at).UTC()
	}
	if at := k.mismatchedAt.Load(); c.Mismatches > 0 && at != 0 {
		c.MismatchedAt = time.Unix(0, at).UTC()
	}
	for _, s := range k.each {
		use := SecretUse{Since: s.since, Verified: s.verified.Load()}
		if at := s.lastUsed.Load(); at != 0 {
			use.LastUsed = time.Unix(0, at).UTC()
		}
		c.Secrets = append(c.Secrets, use)
	}
	for n := range min(skewOf, k.signed.Load()) {
		behind := time.Duration(k.behind[n].Load())
		if c.Skew.Of == 0 {
			c.Skew.Least, c.Skew.Most = behind, behind
		}
		c.Skew.Of++
		c.Skew.Least, c.Skew.Most = min(c.Skew.Least, behind), max(c.Skew.Most, behind)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.Untimely = k.untimely
	return c
}
