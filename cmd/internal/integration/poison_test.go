package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestPoisonResult: the database refuses to store what the destination answered for one event. The others' results are stored meanwhile,
// in transactions that the poisoned one was in at first, and its own once the database takes it. The destination is not called again.
func TestPoisonResult(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{latency: 20 * time.Millisecond})
	db := connect(t, r.dbURL)
	execute(t, db, `ALTER TABLE forebay.completions ADD CONSTRAINT poison CHECK (NOT ('poison'::bytea = ANY (response)))`)
	r.agent.reply = func(c call, _ int, _ http.Header) string {
		if strings.HasPrefix(c.entity, "poison") {
			return "poison"
		}
		return "fine"
	}
	p := r.serve("intake,stream")
	const others, states = 40, 3
	var lines [][]delivery
	for i := range others {
		name := fmt.Sprint("fine-", i)
		if i == others/2 {
			name = "poison"
		}
		var line []delivery
		for s := range states {
			line = append(line, order(name, s+1))
		}
		lines = append(lines, line)
	}
	if err := r.sender.load(t.Context(), lines, 8, 0); err != nil {
		t.Fatal(err)
	}
	const fine = (others - 1) * states
	waitItems(t, r, p, fine, "--status", "done")
	late := order("fine-late", 1)
	if err := r.sender.deliver(t.Context(), late); err != nil { // when the poison has been found out
		t.Fatal(err)
	}
	waitItems(t, r, p, fine+1, "--status", "done")
	if n := r.agent.seen(order("poison", 1).id); n != 1 {
		t.Errorf("what was answered with poison was called %d times", n)
	}
	if n := r.agent.seen(order("poison", 2).id); n != 0 {
		t.Errorf("what stands behind it was called %d times, before it is recorded", n)
	}
	execute(t, db, `ALTER TABLE forebay.completions DROP CONSTRAINT poison`)
	if !rig.Until(2*time.Minute, func() bool { return len(r.inbox(p, "--status", "done", "--limit", "500")) == others*states+1 }) {
		t.Errorf("not all are done: %+v", r.inbox(p, "--entity", "poison"))
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	v.requireNoRepeats(t)
}
