package dev

import (
	"slices"
	"strings"
)

// splitPointer returns the steps of a JSON pointer.
func splitPointer(p string) []string { return strings.Split(strings.TrimPrefix(p, "/"), "/") }

// expectation counts what became of the deliveries of a scene: by the model, or in a play.
type expectation struct {
	received, refused, quarantined int
	duplicates, stale              int
	buffered                       int
	dead, behind                   int              // actions that were given up, and events that wait for them
	run                            map[string][]int // the versions of an entity's actions, in the order in which they ran, by "source entity"
}

// expect returns what must become of the deliveries. Its model of the gate shares no code with that: a set of ids, the highest version of
// each entity, and for orders, which have gaps, a list of the versions that wait. Of an event that the agent rejects the first call counts:
// that an operator replays it is not in the model.
func expect(sent []delivery) expectation {
	e := expectation{run: map[string][]int{}}
	seen := map[string]bool{}
	waiting := map[string][]int{}
	for _, d := range sent {
		entity := d.entityName()
		switch d.role {
		case forged:
			e.refused++
			continue
		case unusable:
			e.received++
			e.quarantined++
			continue
		case late: // it comes once its place was skipped
			e.skipGaps(waiting)
			e.received++
			e.stale++
			continue
		}
		e.received++
		ran := e.run[entity]
		switch {
		case seen[d.id]:
			e.duplicates++
		case d.source == "orders" && d.version != last(ran)+1:
			e.buffered++
			waiting[entity] = append(waiting[entity], d.version)
		case d.source != "orders" && d.version < last(ran):
			e.stale++
		default:
			e.run[entity] = append(ran, d.version)
		}
		seen[d.id] = true
		e.release(entity, waiting)
	}
	e.skipGaps(waiting)
	e.reject(sent)
	return e
}

// reject ends what runs of an entity at the version that the agent refuses: that is a dead letter, and what follows it waits.
func (e *expectation) reject(sent []delivery) {
	d := sent[slices.IndexFunc(sent, isRejected)]
	entity := d.entityName()
	before := slices.Index(e.run[entity], d.version)
	e.dead, e.behind = 1, len(e.run[entity])-before-1
	e.run[entity] = e.run[entity][:before]
}

// release runs the waiting versions of an entity that follow the last one that ran without a gap.
func (e *expectation) release(entity string, waiting map[string][]int) {
	for {
		next := slices.Index(waiting[entity], last(e.run[entity])+1)
		if next < 0 {
			return
		}
		e.runWaiting(entity, waiting, next)
	}
}

// runWaiting runs the waiting version at an index.
func (e *expectation) runWaiting(entity string, waiting map[string][]int, index int) {
	e.run[entity] = append(e.run[entity], waiting[entity][index])
	waiting[entity] = slices.Delete(waiting[entity], index, index+1)
}

// skipGaps ends the wait for all gaps: of each entity the lowest waiting version runs, then those that follow it, until none waits.
func (e *expectation) skipGaps(waiting map[string][]int) {
	for entity := range waiting {
		for len(waiting[entity]) > 0 {
			lowest := slices.Index(waiting[entity], slices.Min(waiting[entity]))
			e.runWaiting(entity, waiting, lowest)
			e.release(entity, waiting)
		}
	}
}

// last returns the last version; 0 if there is none.
func last(versions []int) int {
	if len(versions) == 0 {
		return 0
	}
	return versions[len(versions)-1]
}

// actions returns how many actions run in all.
func (e *expectation) actions() int {
	n := 0
	for _, versions := range e.run {
		n += len(versions)
	}
	return n
}
