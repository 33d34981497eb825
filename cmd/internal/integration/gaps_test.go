package integration

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestGapEndsInDeadLetters: what stands behind a gap that ends so is a dead letter at once, parks nothing, and what comes
// later runs.
func TestGapEndsInDeadLetters(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{gap: "{wait: 200ms, then: dead_letter}"})
	p := r.serve("intake,stream")
	r.deliver(order("o-1", 1), order("o-1", 3))
	dead := waitItems(t, r, p, 1, "--subscription", "fulfil", "--status", "dead_letter")
	if len(dead) == 1 && (dead[0].EventID != "o-1-3" || dead[0].Decision != "applied" || dead[0].Reason != "gap_dead") {
		t.Errorf("%+v", dead[0])
	}
	r.deliver(order("o-1", 4))
	r.agent.waitActed(t, 2, 30*time.Second)
	for _, c := range r.agent.snapshot() {
		if c.event == "o-1-3" {
			t.Error("what was given up ran")
		}
	}
}

// TestCapOfTheGapBuffer: the event that is one too many, by its bytes, parks its entity and no other.
func TestCapOfTheGapBuffer(t *testing.T) {
	t.Parallel()
	// Each weighs 2 KiB and its headers, which are less than 1 KiB.
	r := deploy(t, rig.Fake(t), options{gap: "{wait: 60s, then: skip, max_bytes: {entity: 7KiB}}"})
	p := r.serve("intake,stream")
	for _, d := range []delivery{order("o-1", 1), order("o-1", 3), order("o-1", 4), order("o-1", 5), order("o-2", 1), order("o-2", 3)} {
		d.body = bytes.Replace(d.body, []byte("{"), []byte(`{"note":"`+strings.Repeat("x", 2048)+`",`), 1)
		r.deliver(d)
	}
	for _, i := range waitItems(t, r, p, 3, "--subscription", "fulfil", "--decision", "parked") {
		if i.Reason != "overflow" || i.Entity != "o-1" {
			t.Errorf("parked: %+v", i)
		}
	}
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--decision", "buffered")
	if n := strings.Count(p.output(), "too many events wait for a gap"); n != 1 {
		t.Errorf("%d lines say so, want one for the entity", n)
	}
	r.deliver(order("o-1", 2)) // the filler releases all of it
	r.agent.waitActed(t, 6, time.Minute)
}

// TestGapsOfOneLineAreWaitedForAtOnce: an event behind several gaps waits no longer than one that is behind one of them.
func TestGapsOfOneLineAreWaitedForAtOnce(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{gap: "{wait: 8s, then: skip}"})
	r.serve("intake,stream")
	begin := time.Now()
	r.deliver(order("o-1", 1), order("o-1", 3), order("o-1", 5), order("o-1", 7)) // three gaps of eight seconds each
	r.agent.waitActed(t, 4, time.Minute)
	calls := r.agent.snapshot()
	if second, last := calls[1].begin.Sub(begin), calls[3].begin.Sub(begin); second < 8*time.Second || last-second > 8*time.Second {
		t.Errorf("the first gap was waited for %s, all of them %s", second, last)
	}
	judge(r.sender.acceptedByID(), calls).require(t)
}
