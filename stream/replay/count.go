package replay

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Ledger is what counting asks of a [ledger.Namespace].
type Ledger interface {
	Known(ctx context.Context, fence int32, records []ledger.Record, statuses bool) ([]ledger.Known, error)
}

const (
	keptWhileCounting = 2000 // entities and types; the half with the fewest events is forgotten when there are more
	keptEntities      = 20   // of a plan that is counted
)

// Count counts on in a plan for a while, and reports whether it has come to the end. It changes r's bounds and counts, which the caller
// stores. cfg has the subscription's client and its filter.
func Count(ctx context.Context, cfg reader.Config, known Ledger, r *inbox.Replay, within time.Duration) (complete bool, err error) {
	ranges := make([]reader.Range, len(r.Bounds))
	for i, b := range r.Bounds {
		ranges[i] = reader.Range{Partitions: b.Partitions, From: b.Counted, To: b.To}
		ranges[i].Partition = ledger.Partition{Topic: b.Topic, Number: b.Partition}
		if _, err := hex.Decode(ranges[i].Partition.TopicID[:], []byte(b.TopicID)); err != nil {
			return false, schemas.Errorf(schemas.Internal, "count a replay", "topic id %q: %w", b.TopicID, err)
		}
	}
	r.Bounds = slices.Clone(r.Bounds)
	c := newCounter(known, r)
	err = reader.Scan(ctx, cfg, ranges, within, func(i int, records []ledger.Record, next int64) error { return c.add(ctx, i, records, next) })
	if err != nil {
		return false, schemas.Errorf(schemas.Unavailable, "count a replay", "%w", err)
	}
	complete = !slices.ContainsFunc(r.Bounds, func(b inbox.ReplayBounds) bool { return b.Counted < b.To })
	if complete {
		r.Counts.EntityRest = prune(r.Counts.Entities, keptEntities) || r.Counts.EntityRest
	}
	return complete, nil
}

// counter counts the records of a plan.
type counter struct {
	known Ledger
	r     *inbox.Replay
	wants func(*ledger.Record) bool
	// sequenced says which records belong to a sequence of which the filter may leave a part out: the versions after it would then wait
	// for it. uses is what the filter did with them, by version line.
	sequenced func(*ledger.Record) bool
	uses      map[string]lineUse
}

// lineUse is what a filter does with the undecided events of a version line.
type lineUse struct{ runs, leavesOut bool }

// newCounter makes a counter, and the maps of counts in which nothing is counted yet.
func newCounter(known Ledger, r *inbox.Replay) *counter {
	if n := &r.Counts; n.Types == nil {
		n.Types, n.Decisions, n.Entities = map[string]int64{}, map[gate.Decision]int64{}, map[string]int64{}
	}
	c := &counter{known: known, r: r, wants: reader.Wants(r.Filter), sequenced: func(*ledger.Record) bool { return false }}
	f := r.Filter
	if len(f.Types) == 0 && len(f.Events) == 0 && f.WantsKnown(ledger.Known{Decision: ledger.Undecided}) {
		return c // the filter takes all undecided events of an entity, or none
	}
	f.Types, f.Events = nil, nil
	rest := reader.Wants(f)
	c.sequenced = func(record *ledger.Record) bool {
		return record.Version.Kind == schemas.Sequence && record.Broken == "" && rest(record)
	}
	c.uses = map[string]lineUse{}
	return c
}

// add counts what was read of a range.
func (c *counter) add(ctx context.Context, i int, records []ledger.Record, next int64) error {
	toLookUp := slices.DeleteFunc(slices.Clone(records), func(r ledger.Record) bool { return !c.wants(&r) && !c.sequenced(&r) })
	if len(toLookUp) > 0 {
		known, err := c.known.Known(ctx, c.r.Bounds[i].Fence, toLookUp, len(c.r.Filter.Statuses) > 0)
		if err != nil {
			return err
		}
		for k := range toLookUp {
			counts := c.wants(&toLookUp[k]) && c.r.Filter.WantsKnown(known[k])
			if counts {
				c.count(&toLookUp[k], known[k])
			}
			c.useLine(&toLookUp[k], known[k], counts)
		}
	}
	c.r.Bounds[i].Counted = next
	return nil
}

// useLine notes whether the filter runs an event of a sequence or leaves it out, and names in the counts an entity of which it does both:
// what runs would wait for what does not. It only sees the events of one step of counting.
func (c *counter) useLine(r *ledger.Record, known ledger.Known, counts bool) {
	if !c.sequenced(r) || known.Done || c.r.Mode == ledger.ReplayReprocess || c.r.Mode == ledger.ReplayShadow { // these move no line
		return
	}
	k := string(r.Entity) + "\x00" + r.Version.Clock
	use := c.uses[k]
	use.runs, use.leavesOut = use.runs || counts && !r.Filtered, use.leavesOut || !counts
	if c.uses[k] = use; use.runs && use.leavesOut && c.r.Counts.Hole == "" {
		c.r.Counts.Hole = r.Entity
	}
}

func (c *counter) count(r *ledger.Record, known ledger.Known) {
	n := &c.r.Counts
	n.Records++
	n.Decisions[known.Decision]++
	if c.r.Mode != ledger.ReplayShadow && known.Runs(c.r.Mode) && !r.Filtered && r.Broken == "" {
		n.Runs++
	}
	if r.NoEvent() {
		return // of no type and no entity
	}
	n.Types[r.Type]++
	n.Entities[string(r.Entity)]++
	prune(n.Types, keptWhileCounting)
	n.EntityRest = prune(n.Entities, keptWhileCounting) || n.EntityRest
}

// prune forgets names once there are more than most: the half of them with the fewest events, or all above most where that is few.
func prune(counts map[string]int64, most int) (pruned bool) {
	if len(counts) <= most {
		return false
	}
	keep := most
	if most == keptWhileCounting {
		keep = most / 2
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for _, name := range names[keep:] {
		delete(counts, name)
	}
	return true
}
