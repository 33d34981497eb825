package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// logStart is, in place of an offset, the log's start, wherever that is by then: what a replay was to read next, retention has deleted.
const logStart = -1

// offsetsOf is a range of a topic's partition, [from, to).
type offsetsOf struct {
	topic     string
	partition int32
	from, to  int64
}

func (o offsetsOf) String() string {
	return fmt.Sprintf("%s/%d %d..%d", o.topic, o.partition, o.from, o.to)
}

// whatIsLeft returns the command that plans what a replay that ended before its end has left; empty: there is nothing, or it can only be
// planned again. A reprocess that is planned over all of its range runs what it has passed once more.
func whatIsLeft(p *inbox.Replay) string {
	state := p.State()
	if p.StartedAt == nil || state != inbox.ReplayCancelled && state != inbox.ReplayFailed {
		return ""
	}
	var left []offsetsOf
	for _, part := range p.Parts {
		if part.Failure != nil && slices.Contains([]ledger.ReplayEnd{ledger.ReplayRecreated, ledger.ReplayGrown, ledger.ReplayLeft}, ledger.ReplayEnd(*part.Failure)) {
			return ""
		}
		from := part.Next
		if part.Failure != nil && ledger.ReplayEnd(*part.Failure) == ledger.ReplayRetention {
			from = logStart
		}
		if part.Next < part.To {
			left = append(left, offsetsOf{part.Topic, part.Partition, from, part.To})
		}
	}
	if len(left) == 0 {
		return ""
	}
	return planCommand(p, left)
}

// planCommand returns the command that plans a replay like p over other ranges.
func planCommand(p *inbox.Replay, ranges []offsetsOf) string {
	words := append([]string{"forebay", "replay", "plan", "--subscription", p.Subscription, "--mode", string(p.Mode)}, filterFlags(p)...)
	add := func(flag, value string) { words = append(words, flag, quoted(value)) }
	add("--rate", strconv.Itoa(p.Rate))
	add("--max-errors", strconv.Itoa(p.MaxErrors))
	for _, o := range ranges {
		place := fmt.Sprintf("%s/%d=", o.topic, o.partition)
		if o.from != logStart { // which a range without has
			add("--from-offset", place+strconv.FormatInt(o.from, 10))
		}
		add("--to-offset", place+strconv.FormatInt(o.to, 10))
	}
	for _, id := range eventNames(subscriptionOf(p.Subscription), p.Filter.Events) {
		words = append(words, quoted(id))
	}
	return strings.Join(words, " ")
}

// filterFlags are the flags by which p is planned as a part of what is in its range. Events that it names are no flags.
func filterFlags(p *inbox.Replay) (words []string) {
	add := func(flag, value string) { words = append(words, flag, quoted(value)) }
	for _, s := range p.Filter.Sources {
		add("--source", strings.TrimPrefix(s, "/"))
	}
	for _, t := range p.Filter.Types {
		add("--type", t)
	}
	if p.Filter.Entity != "" {
		add("--entity", string(p.Filter.Entity))
	}
	for _, d := range p.Filter.Decisions {
		add("--decision", string(d))
	}
	if p.Mode != ledger.ReplayReprocess || !slices.Equal(p.Filter.Statuses, statusesFor(string(p.Mode))) { // else they are those without the flag
		for _, s := range p.Filter.Statuses {
			add("--status", s)
		}
	}
	if p.EvenStale {
		words = append(words, "--even-stale")
	}
	return words
}

// shownEarlier is how many earlier replays of its range the notes of a plan name.
const shownEarlier = 3

// shownBegins is how many partitions the notes of a plan name that begin behind the time that was asked for.
const shownBegins = 3

// notesOf returns what the counts of a plan that has not started do not say: that fewer events may run than they count, where the log begins behind the
// time that the plan was to begin with, and, for a reprocess, which parts of its range earlier ones have run already. A shadow has no notes.
func notesOf(p *inbox.Replay, earlier []inbox.Replay, order gate.Order) (notes []string) {
	if p.Mode == ledger.ReplayShadow || p.StartedAt != nil || p.CancelledAt != nil {
		return nil
	}
	if !p.EvenStale && order != gate.OrderArrival && p.Counts.Runs > 0 { // in order of arrival nothing is stale
		note := `"may run" counts every state of an entity. A state that a newer one has overtaken does not run, even if the newer one was filtered out. ` +
			"So fewer may run; the plan cannot count them"
		if p.Mode == ledger.ReplayReprocess {
			note += "; --mode shadow over the same range counts them"
		}
		notes = append(notes, note)
	}
	var begins []string
	for _, b := range p.Bounds {
		if b.Short && b.FirstAt != nil {
			begins = append(begins, fmt.Sprintf("%s/%d begins at offset %d of %s", b.Topic, b.Partition, b.From, b.FirstAt.UTC().Format(time.RFC3339)))
		}
	}
	if n := len(begins) - shownBegins; n > 0 {
		begins = append(begins[:shownBegins], fmt.Sprintf("%d more partitions likewise", n))
	}
	if len(begins) > 0 {
		notes = append(notes, strings.Join(begins, ", ")+": if its retention was raised since, or records were deleted, what was before is not in the plan")
	}
	if p.Mode != ledger.ReplayReprocess {
		return notes
	}
	for i, shown := 0, 0; i < len(earlier) && shown < shownEarlier; i++ {
		if text := ranBefore(p, &earlier[i]); text != "" {
			notes = append(notes, text)
			shown++
		}
	}
	return notes
}

// ranBefore says which part of a plan an earlier replay ran again, and how to leave that out; empty: none.
func ranBefore(p, earlier *inbox.Replay) string {
	if earlier.ID == p.ID || earlier.Mode != ledger.ReplayReprocess {
		return ""
	}
	var ran []string
	var left []offsetsOf
	behind := true // all that it ran is where the plan begins
	for _, b := range p.Bounds {
		if b.From >= b.To {
			continue
		}
		all := offsetsOf{b.Topic, b.Partition, b.From, b.To}
		if part := partOf(earlier, b); part != nil && max(part.From, b.From) < min(part.Next, b.To) {
			ran = append(ran, offsetsOf{b.Topic, b.Partition, max(part.From, b.From), min(part.Next, b.To)}.String())
			behind = behind && part.From <= b.From
			all.from = min(part.Next, b.To)
		}
		if all.from < all.to {
			left = append(left, all)
		}
	}
	if len(ran) == 0 {
		return ""
	}
	if !coversAll(earlier, p) {
		of := filterFlags(earlier)
		if n := len(earlier.Filter.Events); n > 0 {
			of = append(of, fmt.Sprintf("%d events by name", n))
		}
		return fmt.Sprintf("replay %d (%s) ran some events of this range again before (%s), and this one runs those that it wants, too, once more, under other ids: %s",
			earlier.ID, earlier.State(), strings.Join(of, " "), strings.Join(ran, ", "))
	}
	text := fmt.Sprintf("replay %d (%s) ran events of this range again before, and this one runs them once more, under other ids: %s", earlier.ID, earlier.State(), strings.Join(ran, ", "))
	switch {
	case behind && len(left) == 0:
		return text + "; that is all of it"
	case behind:
		return text + "; to begin behind that: " + planCommand(p, left)
	}
	return text
}

// coversAll reports whether an earlier replay wanted all that p wants of what both have passed: each of its conditions is one of p's.
func coversAll(earlier, p *inbox.Replay) bool {
	e, f := &earlier.Filter, &p.Filter
	return (len(e.Sources) == 0 || slices.Equal(e.Sources, f.Sources)) && (len(e.Types) == 0 || slices.Equal(e.Types, f.Types)) && (e.Entity == "" || e.Entity == f.Entity) &&
		(len(e.Events) == 0 || slices.Equal(e.Events, f.Events)) && (len(e.Decisions) == 0 || slices.Equal(e.Decisions, f.Decisions)) &&
		(len(e.Statuses) == 0 || slices.Equal(e.Statuses, f.Statuses)) && (earlier.EvenStale || !p.EvenStale)
}

// partOf returns how far a replay came in a partition that is in bounds, if it ran anything there; nil: it did not.
func partOf(r *inbox.Replay, bounds inbox.ReplayBounds) *inbox.ReplayProgress {
	if !slices.ContainsFunc(r.Bounds, func(b inbox.ReplayBounds) bool { return b.Fence == bounds.Fence && b.TopicID == bounds.TopicID }) {
		return nil // offsets of another topic of that name
	}
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Topic == bounds.Topic && p.Partition == bounds.Partition && p.Applied+p.Late > 0 {
			return p
		}
	}
	return nil
}
