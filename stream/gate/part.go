package gate

// A line on which very many events are parked may be given in part (State.First): the lowest of them, the highest, and those whose keys the
// records have. That is all that a call looks at, unless it lets nearly all of the lowest go, or meets a rare case: a record of another kind than
// those that wait, a third epoch, a run of equal versions, an order that is by arrival now. Then the line is in State.Short, and what the call has
// decided and advanced is worth nothing.

// short says that the call needs all that waits on a version line, if it was given in part.
func (st *State) short(k VersionLineKey) {
	if _, part := st.First[k]; !part {
		return
	}
	if st.Short == nil {
		st.Short = map[VersionLineKey]bool{}
	}
	st.Short[k] = true
}

// firstEntered counts an event that was put at place i of what waits on a version line. Behind the lowest ones its place is not known, and not needed.
func (st *State) firstEntered(k VersionLineKey, i int) {
	first, part := st.First[k]
	if !part {
		return
	}
	if i < first {
		st.First[k]++
	}
	if w := st.Waiting[k]; !w[0].Version.Comparable(w[i].Version) || !w[len(w)-1].Version.Comparable(w[i].Version) {
		st.short(k)
	}
}

// firstLeaves counts an event that is about to leave place i.
func (st *State) firstLeaves(k VersionLineKey, i int) {
	first, part := st.First[k]
	switch {
	case !part:
	case i >= first && i == len(st.Waiting[k])-1, i < first && first == 1: // nobody knows which one is the highest or the lowest then
		st.short(k)
	case i < first:
		st.First[k]--
	}
}
