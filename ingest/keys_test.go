package ingest

import (
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// What no secret matches is counted from the first on, until something is verified; other refusals say nothing of the secrets.
func TestKeysCountWhatNoSecretMatches(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(1_800_000_000+s, 0).UTC() }
	one, two := []schemas.Secret{schemas.NewSecret("one")}, []schemas.Secret{schemas.NewSecret("two")}
	k := KeysOf(one, nil)
	k.refuse(at(1), verify.Mismatch, 0)
	k.refuse(at(2), verify.MissingHeader, 0)
	k.refuse(at(3), verify.Mismatch, 0)
	if got := k.Counts(); got.Refused != 3 || got.Mismatches != 2 || !got.MismatchedAt.Equal(at(1)) || !got.VerifiedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	k.verify(at(4), 1, time.Time{})
	if got := k.Counts(); got.Verified != 1 || got.Refused != 3 || got.Mismatches != 0 || !got.VerifiedAt.Equal(at(4)) || !got.MismatchedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	k.refuse(at(5), verify.Mismatch, 0)
	if got := k.Counts(); got.Mismatches != 1 || !got.MismatchedAt.Equal(at(5)) {
		t.Errorf("%+v", got)
	}
	before := &Source{Keys: k}
	if KeysOf([]schemas.Secret{schemas.NewSecret("one")}, before) != k {
		t.Error("a reload with the same secrets counts again")
	}
	if KeysOf(two, before) == k {
		t.Error("a reload with other secrets counts on")
	}
}

// Right signatures with a wrong time are counted with how wrong the last ones are, until one is verified; a mismatch says nothing of them.
func TestKeysCountWhatIsUntimely(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(1_800_000_000+s, 0).UTC() }
	k := KeysOf(nil, nil)
	seen := func(want Untimely) {
		t.Helper()
		got := k.Counts().Untimely
		if got.Count != want.Count || !got.Since.Equal(want.Since) || got.Least != want.Least || got.Most != want.Most {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	k.refuse(at(1), verify.TooOld, 5*time.Hour)
	for s := range int64(4) {
		k.refuse(at(10+s), verify.TooOld, time.Hour+time.Duration(s)*100*time.Millisecond)
		k.refuse(at(10+s), verify.Mismatch, 0)
	}
	seen(Untimely{Count: 5, Since: at(1), Least: time.Hour, Most: 5 * time.Hour})
	k.refuse(at(20), verify.TooOld, time.Hour+3*time.Second) // the fifth of one clock
	seen(Untimely{Count: 6, Since: at(1), Least: time.Hour, Most: time.Hour + 3*time.Second})
	k.verify(at(21), 0, time.Time{})
	seen(Untimely{})
	k.refuse(at(22), verify.TooNew, -time.Hour)
	seen(Untimely{Count: 1, Since: at(22), Least: -time.Hour, Most: -time.Hour})
}

// One delivery that somebody has captured and sends again and again makes no clock wrong, does not hide one that is, and says nothing of what
// the sender signs with today.
func TestKeysCountACapturedDeliveryOnce(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(1_800_000_000+s, 0).UTC() }
	captured := at(-7200) // when it was signed
	k := KeysOf(nil, nil)
	for range 100 {
		now := time.Now() // with a monotonic clock beside the one on the wall, as the intake has it
		k.refuse(now, verify.TooOld, now.Sub(captured))
	}
	if got := k.Counts().Untimely.Count; got != 1 {
		t.Errorf("it counts as %d", got)
	}
	k = KeysOf(nil, nil)
	for s := range int64(100) { // no secret matches what the sender signs by now
		k.refuse(at(60*s), verify.Mismatch, 0)
		k.refuse(at(60*s+1), verify.TooOld, at(60*s+1).Sub(captured))
	}
	if got := k.Counts(); got.Mismatches != 100 || !got.MismatchedAt.Equal(at(0)) || got.Untimely.Count != 1 || got.Refused != 200 {
		t.Errorf("%+v", got)
	}
	for s := int64(6000); s < 6000+ClockAfter; s++ { // the sender's secret is right again, and its clock ten minutes off
		k.refuse(at(s), verify.TooOld, 10*time.Minute)
		k.refuse(at(s), verify.TooOld, at(s).Sub(captured))
	}
	got := k.Counts()
	if u := got.Untimely; u.Count != 1+ClockAfter || u.Least != 10*time.Minute || u.Most != 10*time.Minute || got.Mismatches != 0 {
		t.Errorf("%+v", got)
	}
}

// Each secret is counted by itself, and counts on when another of its source is changed; how far the times of signing are behind is told of the
// last few deliveries.
func TestKeysCountEachSecretAndSkew(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(1_800_000_000+s, 0).UTC() }
	old, next := schemas.NewSecret("old"), schemas.NewSecret("next")
	began := time.Now()
	first := KeysOf([]schemas.Secret{old}, nil)
	first.verify(at(1), 1, time.Time{})
	if got := first.Counts(); got.Skew.Of != 0 {
		t.Errorf("without a time of signing: %+v", got.Skew)
	}
	k := KeysOf([]schemas.Secret{next, old}, &Source{Keys: first})
	if got := k.Counts(); got.Verified != 1 || !got.VerifiedAt.Equal(at(1)) {
		t.Errorf("by the secret that stays: %+v", got)
	}
	k.verify(at(5), 2, at(3))
	k.verify(at(6), 1, at(7))
	k.verify(at(7), 3, at(7)) // no secret of ours
	got := k.Counts()
	if len(got.Secrets) != 2 || got.Secrets[0].Verified != 1 || !got.Secrets[0].LastUsed.Equal(at(6)) || got.Secrets[1].Verified != 2 || !got.Secrets[1].LastUsed.Equal(at(5)) {
		t.Errorf("%+v", got.Secrets)
	}
	if s := got.Secrets; s[0].Since.Before(began) || s[1].Since.After(s[0].Since) || s[1].Since != first.Counts().Secrets[0].Since {
		t.Errorf("since: %+v", s)
	}
	if want := (Skew{Of: 3, Least: -time.Second, Most: 2 * time.Second}); got.Skew != want {
		t.Errorf("%+v", got.Skew)
	}
	for range skewOf {
		k.verify(at(100), 1, at(90))
	}
	if want := (Skew{Of: skewOf, Least: 10 * time.Second, Most: 10 * time.Second}); k.Counts().Skew != want {
		t.Errorf("the last ones alone count: %+v", k.Counts().Skew)
	}
}
