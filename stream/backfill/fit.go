package backfill

import (
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// fit returns the events that fill a request, in the order of their versions, and how many others there are, which are not wanted.
//
// A request without a range wants all events. A request with a range wants the events in it. If these leave a place empty, and no
// snapshot in the range comes after it, the newest snapshot above the range is wanted, too: it contains what is missing. No other event
// outside the range is wanted: its place has its event or will get it from the provider, and under another id it would run twice.
func fit(req *Request, events []*schemas.Event) (wanted []*schemas.Event, outside int) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b *schemas.Event) int { return a.Version.Compare(b.Version) })
	if !req.ranged() {
		return events, 0
	}
	var above *schemas.Event
	for _, e := range events {
		switch v := e.Version.Value; {
		case req.From <= v && v <= req.To:
			wanted = append(wanted, e)
		case v > req.To && e.Payload == schemas.Snapshot:
			above = e
		}
	}
	endsRange := func(e *schemas.Event) bool { return e.Version.Value == req.To && e.Payload == schemas.Snapshot }
	if above != nil && !covered(req, wanted) && !slices.ContainsFunc(wanted, endsRange) {
		wanted = append(wanted, above)
	}
	return wanted, len(events) - len(wanted)
}

// covered reports whether every version of a request's range has an event; false for a request without a range.
func covered(req *Request, events []*schemas.Event) bool {
	if !req.ranged() || uint64(req.To)-uint64(req.From) >= uint64(len(events)) {
		return false
	}
	present := map[int64]bool{}
	for _, e := range events {
		if v := e.Version.Value; req.From <= v && v <= req.To {
			present[v] = true
		}
	}
	return uint64(len(present)) == uint64(req.To)-uint64(req.From)+1
}

// unique leaves out events whose id came before: pages overlap when the provider's list grows between two requests.
func unique(events []*schemas.Event) []*schemas.Event {
	seen := make(map[string]bool, len(events))
	return slices.DeleteFunc(events, func(e *schemas.Event) bool {
		repeated := seen[e.ID]
		seen[e.ID] = true
		return repeated
	})
}

// newID derives the id of a synthetic event from its entity, clock and version, and from its body where versions do not tell two states
// apart. Every fetch of the same state gives the same id: what is fetched twice is a duplicate.
//
//	backfill:<entity>[#<clock>]:<version>          of kind sequence or monotonic; the version has its epoch
//	backfill:<entity>[#<clock>]:<version>:<hash>   times are coarse: two states of one second have two ids
//	backfill:<entity>[#<clock>]::<hash>            no version
//
// Where that is too long for an id, <entity>[#<clock>] is replaced by ~ and its hash.
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
