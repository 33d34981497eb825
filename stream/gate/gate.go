package gate

// Decide says what becomes of records, which are one partition's in offset order, and advances st. It never fails.
func Decide(st *State, records []Record, p Policy) []Outcome {
	panic("being written")
}

// Expire ends the wait of the given lines: Then skip releases the lowest waiting event and what follows it densely,
// Then park parks the line. Lines whose wait may end are named by the caller, who has checked deadline and read
// position. It advances st.
func Expire(st *State, lines []LineKey, p Policy) []Outcome {
	panic("being written")
}
