package dev

import "strings"

func splitPointer(p string) []string { return strings.Split(strings.TrimPrefix(p, "/"), "/") }

// expectation is what a play of the scene must come to.
type expectation struct {
	received, refused, keptAside int
	duplicates, stale, buffered  int
	run                          map[string][]int // versions by "source entity", in the order in which they run
}

// expect plays the deliveries through a model that shares no code with the gate: a set, a highest number per entity,
// and for orders a list of what waits.
func expect(sent []delivery) expectation {
	e := expectation{run: map[string][]int{}}
	seen := map[string]bool{}
	waiting := map[string][]int{}
	for _, d := range sent {
		line := d.source + " " + d.entity
		switch {
		case d.part == forged:
			e.refused++
			continue
		case d.part == unusable:
			e.received++
			e.keptAside++
			continue
		}
		e.received++
		ran := e.run[line]
		switch {
		case seen[d.id]:
			e.duplicates++
		case d.source == "orders" && d.version != last(ran)+1:
			e.buffered++
			waiting[line] = append(waiting[line], d.version)
		case d.source != "orders" && d.version < last(ran):
			e.stale++
		default:
			e.run[line] = append(ran, d.version)
		}
		seen[d.id] = true
		e.release(line, waiting)
	}
	e.skipGaps(waiting)
	return e
}

// release runs what waits as long as it is the next.
func (e *expectation) release(line string, waiting map[string][]int) {
	for progress := true; progress; {
		progress = false
		for i, v := range waiting[line] {
			if v == last(e.run[line])+1 {
				e.run[line] = append(e.run[line], v)
				waiting[line] = append(waiting[line][:i:i], waiting[line][i+1:]...)
				progress = true
				break
			}
		}
	}
}

// skipGaps ends every wait: of each line the lowest waiting version runs, then those that follow it.
func (e *expectation) skipGaps(waiting map[string][]int) {
	for line := range waiting {
		for len(waiting[line]) > 0 {
			low := 0
			for i, v := range waiting[line] {
				if v < waiting[line][low] {
					low = i
				}
			}
			e.run[line] = append(e.run[line], waiting[line][low])
			waiting[line] = append(waiting[line][:low:low], waiting[line][low+1:]...)
			e.release(line, waiting)
		}
	}
}

func last(v []int) int {
	if len(v) == 0 {
		return 0
	}
	return v[len(v)-1]
}

// actions returns how many actions run in all.
func (e *expectation) actions() int {
	n := 0
	for _, v := range e.run {
		n += len(v)
	}
	return n
}
