package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/backfill"
)

// fetches checks the keys of a source that say how its API is asked: backfill and thin.
func (ck sourceCheck) fetches() {
	path, s := ck.path, ck.s
	if b := s.Backfill; b != nil {
		path := path + ".backfill"
		ck.fetch(path, backfill.Gap, b.URL, b.Timeout, b.AllowNetworks)
		ck.largest(path+".max_body", b.MaxBody)
		ck.retry(path+".retry", Retry(b.Retry), attempt{timeout: b.Timeout})
		ck.rate(path+".rate", b.Rate)
		ck.element(path + ".event")
	}
	if t := s.Thin; t != nil {
		ck.fetch(path+".thin", backfill.Body, t.URL, t.Timeout, t.AllowNetworks)
		ck.largest(path+".thin.max_body", t.MaxBody)
		ck.rate(path+".thin.rate", t.Rate)
	}
}

// largest checks the largest answer, which is in memory as a whole.
func (ck sourceCheck) largest(path string, size Size) {
	if !ck.unresolved(path) && size > maxBodyLimit {
		ck.problem(path, "%s is more than %s", size, maxBodyLimit)
	}
}

// fetch checks the keys that backfill and thin share: timeout, and the url, which must be a template for that use, of an address that
// may be called.
func (ck sourceCheck) fetch(path string, use backfill.Use, text string, timeout Duration, allowed []netip.Prefix) {
	ck.between(path+".timeout", timeout, Duration(100*time.Millisecond), Duration(time.Minute))
	if text == "" || ck.unresolved(path+".url") {
		return // missing, which is already reported
	}
	if _, err := backfill.ParseTemplate(use, text); err != nil {
		ck.problem(path+".url", "%s", strings.TrimPrefix(err.Error(), "url "))
		return
	}
	u, err := url.Parse(text) // placeholders such as {id} are in the path and the query only, so the rest is checked as it is
	if err != nil {
		ck.problem(path+".url", "cannot be parsed")
		return
	}
	if err := spec.CheckReach(u, allowed); err != nil {
		ck.problem(path+".url", "%v", err)
	}
}

// element checks that the mapping of a backfill can make an event of an element of the answer. An element has no headers and is no
// form, so the mapping can have no values from those, neither its own nor the source's.
func (ck sourceCheck) element(path string) {
	own, e := ck.s.Backfill.Event, ck.s.element() // e is own, completed from the source's event
	if own == nil {
		own = &provider.EventConfig{}
	}
	if own.DeliveryID != "" {
		ck.problem(path+".delivery_id", "means nothing: an element of an answer was never delivered")
	}
	if len(own.KeepHeaders) > 0 {
		ck.problem(path+".keep_headers", "means nothing: an element of an answer has no headers")
	}
	if own.Version != nil {
		ck.version(path+".version", own.Version)
	}
	for _, f := range froms(e) {
		if !strings.HasPrefix(f.from, "header:") && !strings.HasPrefix(f.from, "form:") {
			continue
		}
		if ck.written(path + "." + f.key) {
			ck.problem(path+"."+f.key, "%s means nothing: an element of an answer has no headers and is no form", clip(f.from))
		} else {
			ck.problem(path, "%s is missing: the source's own is %s, which an element of an answer does not have", f.key, clip(f.from))
		}
	}
	switch {
	case e.Type == "":
		ck.problem(path, "type is missing: say where an element has it, or give one such as cel:'order.backfilled'")
	case e.Version == nil:
		ck.problem(path, "version is missing: an event without one fills no gap")
	case e.Version.Kind == "none":
		ck.problem(path+".version", "kind none fills no gap")
	case e.Payload == "":
		ck.problem(path, "payload is missing: snapshot where an element is the entity's whole state, delta where it is news about it")
	}
}

// fromKey says where a mapping takes a value from, such as header:X-Id, and the key below event that this is written at.
type fromKey struct{ key, from string }

// froms returns where a mapping takes its values from. Values that the mapping does not have are empty.
func froms(e *provider.EventConfig) []fromKey {
	list := []fromKey{{"id", e.ID}, {"type", e.Type}}
	for _, from := range e.Entity {
		list = append(list, fromKey{"entity", from})
	}
	if e.Version != nil {
		list = append(list, fromKey{"version", e.Version.From}, fromKey{"version", e.Version.Epoch})
		if e.Version.Rank != nil {
			list = append(list, fromKey{"version", e.Version.Rank.From})
		}
	}
	if e.Deleted != nil {
		list = append(list, fromKey{"deleted", e.Deleted.From})
	}
	return list
}

// backfilled checks, if the subscription asks for backfills, that its sources have one configured. If it does not, the keys that are
// for backfills must not be written.
func (ck *checker) backfilled(path, team string, sources []NamedSource, sub *Subscription) {
	if !sub.backfills() {
		for _, key := range []string{"within", "otherwise"} {
			if at := path + ".gap." + key; ck.written(at) && !ck.unresolved(path+".gap.then") && !ck.unresolved(path+".start") {
				ck.problem(at, "means nothing without then: backfill or start: backfill")
			}
		}
		return
	}
	ck.between(path+".gap.within", sub.Gap.Within, Duration(time.Second), Duration(24*time.Hour))
	at, what := path+".gap.then", "then: backfill"
	if sub.Start == "backfill" {
		at, what = path+".start", "start: backfill"
	}
	slices.SortFunc(sources, func(a, b NamedSource) int { return strings.Compare(a.FullName(), b.FullName()) })
	for _, s := range sources {
		asks := sub.Start == "backfill" || s.Sequence() // of other sources, there are no gaps to fill
		if asks && s.Backfill == nil {
			ck.problem(at, "%s needs a place to ask: source %s has no backfill", what, s.calledBy(team))
		}
	}
}
