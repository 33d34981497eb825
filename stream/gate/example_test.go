package gate_test

import (
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// An order's third revision overtakes its second one, which was sent twice.
func ExampleDecide() {
	revision := func(id string, value int64) gate.Record {
		return gate.Record{
			Key: schemas.NewEventKey("/acme/orders", id), Hash: schemas.HashBody([]byte(id)), Entity: "A-17",
			Version: schemas.Version{Kind: schemas.Sequence, Value: value}, Payload: schemas.Snapshot,
		}
	}
	records := []gate.Record{revision("a", 1), revision("c", 3), revision("b", 2), revision("b", 2)}
	policy := gate.Policy{GapWait: 30 * time.Second, Then: gate.ThenSkip}
	for _, o := range gate.Decide(gate.NewState(), records, policy) {
		fmt.Println(o.Version.Value, o.Decision, o.Reason)
	}
	// Output:
	// 1 applied first
	// 3 buffered gap
	// 2 applied next
	// 3 applied released
	// 2 duplicate seen
}

// The second revision never comes. When the wait has ended, the third one goes without it.
func ExampleExpire() {
	line := gate.VersionLineKey{Entity: "A-17"}
	state := gate.NewState()
	state.Lines[line] = &gate.VersionLine{At: schemas.Version{Kind: schemas.Sequence, Value: 1}}
	policy := gate.Policy{GapWait: 30 * time.Second, Then: gate.ThenSkip}
	third := gate.Record{Entity: "A-17", Version: schemas.Version{Kind: schemas.Sequence, Value: 3}}

	gate.Decide(state, []gate.Record{third}, policy)
	_, waits := state.Waits(line)
	fmt.Println("waits:", waits)
	for _, o := range gate.Expire(state, []gate.VersionLineKey{line}, policy) {
		fmt.Println(o.Version.Value, o.Decision, o.Reason, "skipped", state.Lines[line].Skipped)
	}
	// Output:
	// waits: true
	// 3 applied gap_skipped skipped [{2 2}]
}

// The second revision never comes. It is asked for when the wait has ended, and the answer is the order as it is by now.
func ExampleState_Wanted() {
	line := gate.VersionLineKey{Entity: "A-17"}
	state := gate.NewState()
	state.Lines[line] = &gate.VersionLine{At: schemas.Version{Kind: schemas.Sequence, Value: 1}}
	policy := gate.Policy{GapWait: 30 * time.Second, Then: gate.ThenBackfill, BackfillWait: time.Minute, Otherwise: gate.ThenPark}
	revision := func(id byte, value int64) gate.Record {
		return gate.Record{
			Offset: int64(id), Key: schemas.EventKey{id}, Entity: "A-17", Payload: schemas.Snapshot,
			Version: schemas.Version{Kind: schemas.Sequence, Value: value},
		}
	}
	gate.Decide(state, []gate.Record{revision(1, 3)}, policy)
	gate.Expire(state, []gate.VersionLineKey{line}, policy)
	for _, r := range state.Wanted() {
		fmt.Println("asked for", r.VersionLine.Entity, "from", r.From, "to", r.To)
	}
	answer := revision(2, 4)
	answer.Backfill = true
	for _, o := range gate.Decide(state, []gate.Record{answer}, policy) {
		fmt.Println(o.Version.Value, o.Decision, o.Reason)
	}
	// Output:
	// asked for A-17 from 2 to 2
	// 4 applied backfilled
	// 3 stale older
}
