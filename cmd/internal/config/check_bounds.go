package config

import (
	"time"

	"github.com/forebay-io/forebay/stream/destination"
)

// atMost reports a number that is more than limit, which is so large that the number must be a typing error.
func (ck *checker) atMost(path string, n, limit int) {
	if !ck.unresolved(path) && n > limit {
		ck.problem(path, "%d is more than %d", n, limit)
	}
}

// bounds checks the keys that limit the attempts at a destination: concurrency, rate, holds, breaker and pauses.
func (ck *checker) bounds(path string, d *Destination) {
	day := Duration(24 * time.Hour)
	ck.atMost(path+".concurrency", d.Concurrency, 1000)
	ck.between(path+".max_hold", d.MaxHold, 0, day)
	ck.between(path+".recovery", d.Recovery, 0, Duration(time.Hour))
	if r := d.Rate; r != nil {
		ck.rate(path+".rate", &Rate{r.Limit, r.Per, r.Burst})
	}
	ck.atMost(path+".breaker.failures", d.Breaker.Failures, destination.MostFailures)
	ck.between(path+".breaker.window", d.Breaker.Window, Duration(time.Second), day)
	ck.atMost(path+".breaker.floor", d.Breaker.Floor, 1000)
	ck.between(path+".breaker.wait", d.Breaker.Wait, Duration(10*time.Millisecond), day)
	ck.between(path+".breaker.max_wait", d.Breaker.MaxWait, Duration(10*time.Millisecond), day)
	if b := d.Breaker; !ck.unresolved(path+".breaker.wait") && !ck.unresolved(path+".breaker.max_wait") && b.Wait > b.MaxWait {
		ck.problem(path+".breaker.wait", "%s is more than max_wait %s", b.Wait, b.MaxWait)
	}
	ck.atMost(path+".pause.failures", d.Pause.Failures, 1_000_000_000)
	ck.between(path+".pause.after", d.Pause.After, 0, 365*day)
}

// rate checks a token bucket; nil is none.
func (ck *checker) rate(path string, r *Rate) {
	if r != nil {
		ck.atMost(path+".limit", r.Limit, 1_000_000)
		ck.atMost(path+".burst", r.Burst, 1_000_000)
		ck.between(path+".per", r.Per, Duration(time.Millisecond), Duration(24*time.Hour))
	}
}

// onNewer reports an action that is to be cancelled and never can be.
func (ck *checker) onNewer(path string, a Action, d *Destination, arrival bool) {
	switch {
	case a.OnNewer != OnNewerCancel:
	case d.Long == nil:
		ck.problem(path+".on_newer", "cancel needs long: of destination %s; without it no run goes on behind its answer", a.To)
	case arrival:
		ck.problem(path+".on_newer", "cancel needs order: version; with order: arrival no version is newer")
	}
}

// dropped reports an action with on_dead: park whose destination drops actions over its rate. Each dropped action would park its
// entity.
func (ck *checker) dropped(path string, a Action, d *Destination) {
	if d.Rate != nil && d.Rate.OnLimit == "drop" && a.OnDead != "continue" {
		ck.problem(path+".on_dead", "must be continue: destination %s drops what is over its rate, and with park that would stop the entity", a.To)
	}
}
