package dev

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
)

// playedScene is the scene that the tests look at.
var playedScene = sync.OnceValues(func() ([]delivery, error) { return scene("run") })

func TestSceneIsWhatItSays(t *testing.T) {
	t.Parallel()
	sent, err := playedScene()
	if err != nil {
		t.Fatal(err)
	}
	if want := sceneDeliveries + sceneRepeats + 2; len(sent) != want {
		t.Fatalf("%d requests, want %d", len(sent), want)
	}
	times := map[string]int{}
	parts := map[role]int{}
	for _, d := range sent {
		parts[d.role]++
		if d.role.event() {
			times[d.id]++
		}
		if !json.Valid(d.body) {
			t.Errorf("%s is not JSON", d.id)
		}
		if d.source == "orders" && d.version == withheldRev && d.entity == orderID(gapOrder) {
			t.Error("the withheld delivery is sent")
		}
	}
	if len(times) != sceneDeliveries || parts[forged] != 1 || parts[unusable] != 1 || parts[rejected] == 0 {
		t.Errorf("%d deliveries, by role %v", len(times), parts)
	}
	if parts[late] != 1 || sent[len(sent)-1].role != late {
		t.Errorf("%d are late, and the last is %v", parts[late], sent[len(sent)-1].role)
	}
	// Were a machine so slow that the first is given up before it comes, it would stand behind the dead letter, and never run.
	before := func(d delivery) bool { return d.entity == orderID(refusedOrder) && d.version < refusedRev }
	if slices.IndexFunc(sent, before) > slices.IndexFunc(sent, isRejected) {
		t.Error("what the agent refuses is sent before what runs before it")
	}
	twice := 0
	for _, n := range times {
		twice += n - 1
	}
	if twice != sceneRepeats {
		t.Errorf("%d deliveries are sent twice, want %d", twice, sceneRepeats)
	}
}

// TestSceneShowsEverything: a scene without a stale, a buffered or a skipped event would show nothing.
func TestSceneShowsEverything(t *testing.T) {
	t.Parallel()
	sent, err := playedScene()
	if err != nil {
		t.Fatal(err)
	}
	e := expect(sent)
	if e.stale == 0 || e.buffered == 0 || e.duplicates != sceneRepeats || e.refused != 1 || e.quarantined != 1 || e.dead != 1 || e.behind == 0 {
		t.Errorf("the scene shows too little: %+v", e)
	}
	if e.received != len(sent)-1 || e.actions()+e.stale+e.dead+e.behind != sceneDeliveries {
		t.Errorf("the numbers do not add up: %+v of %d", e, len(sent))
	}
	for line, ran := range e.run {
		if !slices.IsSorted(ran) {
			t.Errorf("the model runs %s out of order: %v", line, ran)
		}
	}
	if got := e.run["orders 820982911946154503"]; !slices.Equal(got, []int{1, 2, 5}) {
		t.Errorf("the entity with the gap runs %v", got)
	}
	if got := e.run["orders 820982911946154504"]; !slices.Equal(got, []int{1}) {
		t.Errorf("the entity with the dead letter runs %v", got)
	}
}
