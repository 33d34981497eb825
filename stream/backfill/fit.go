package backfill

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// fit returns the events that fill a request, in the order of their versions, and how many others there are.
//
// A request without a range wants all events. A request with a range wants the events in it. If these leave a place empty, and no
// snapshot in the range comes after it, the newest snapshot above the range is wanted, too: it contains what is missing. No other event
// outside the range is wanted: its place has its event or will get it from the provider, and under another id it would run twice.
func fit(q *Request, events []*schemas.Event) (wanted []*schemas.Event, outside int) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b *schemas.Event) int { return a.Version.Compare(b.Version) })
	if !q.ranged() {
		return events, 0
	}
	var above *schemas.Event
	for _, e := range events {
		switch v := e.Version.Value; {
		case q.From <= v && v <= q.To:
			wanted = append(wanted, e)
		case v > q.To && e.Payload == schemas.Snapshot:
			above = e
		}
	}
	last := func(e *schemas.Event) bool { return e.Version.Value == q.To && e.Payload == schemas.Snapshot }
	if above != nil && !covered(q, wanted) && !slices.ContainsFunc(wanted, last) {
		wanted = append(wanted, above)
	}
	return wanted, len(events) - len(wanted)
}

// covered reports whether events have every place of a request's range.
func covered(q *Request, events []*schemas.Event) bool {
	if !q.ranged() || uint64(q.To)-uint64(q.From) >= uint64(len(events)) {
		return false
	}
	places := map[int64]bool{}
	for _, e := range events {
		if v := e.Version.Value; q.From <= v && v <= q.To {
			places[v] = true
		}
	}
	return uint64(len(places)) == uint64(q.To)-uint64(q.From)+1
}

// unique leaves out events whose id came before: pages overlap when the list grows between them.
func unique(events []*schemas.Event) []*schemas.Event {
	seen := make(map[string]bool, len(events))
	return slices.DeleteFunc(events, func(e *schemas.Event) bool {
		repeated := seen[e.ID]
		seen[e.ID] = true
		return repeated
	})
}

// newID is the id of a synthetic event that has none of its own: the same for every fetch of the same state, so that
// what is fetched twice is a duplicate.
//
//	backfill:<entity>[#<clock>]:<version>          counters and words name a state, with their epoch
//	backfill:<entity>[#<clock>]:<version>:<hash>   times are coarse: two states of one second have two ids
//	backfill:<entity>[#<clock>]::<hash>            no version
//
// An entity that is too long for an id is its hash.
func newID(e *schemas.Event) string {
	line := string(e.Entity)
	if e.Version.Clock != "" {
		line += "#" + e.Version.Clock
	}
	tail := ":" + e.Version.Sortable()
	if k := e.Version.Kind; k == schemas.Timestamp || k == schemas.None {
		tail += ":" + e.Hash.String()
	}
	const head = "backfill:"
	if len(head)+len(line)+len(tail) > schemas.MaxID {
		line = "~" + schemas.HashBody([]byte(line)).String()
	}
	return head + line + tail
}
