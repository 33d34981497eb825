package owner

import (
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
)

// shown are the steps of the model that can be seen from outside.
var shown = map[string]string{
	"locks the fence": "lock", "heartbeat under the lock: a member": "heartbeat", "heartbeat under the lock: refused": "heartbeat",
	"reads the group's commit": "commit", "decides and commits its claim": "log", "its OffsetCommit arrives": "mirror",
	"opens its lanes and begins to read": "open", "applies a record": "apply", "has drained its lanes": "close",
	"releases its fence": "release", "leaves the group": "leave",
}

// follows says how many of the steps the model can take, in this order and with whatever cannot be seen in between.
func (s search) follows(steps []string) int {
	m := s.machine(asItIs)
	at := m.unseen([]world{initial(s.left, s.records())})
	for n, step := range steps {
		var next []world
		for _, w := range at {
			for _, mv := range m.moves(w) {
				if shown[mv.what] == step {
					next = append(next, mv.to)
				}
			}
		}
		if len(next) == 0 {
			return n
		}
		at = m.unseen(next)
	}
	return len(steps)
}

// unseen are all worlds that steps which cannot be seen lead to.
func (m *machine) unseen(from []world) []world {
	met := map[world]bool{}
	for todo := from; len(todo) > 0; {
		w := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; met[w] {
			continue
		}
		met[w] = true
		for _, mv := range m.moves(w) {
			if shown[mv.what] == "" {
				todo = append(todo, mv.to)
			}
		}
	}
	all := make([]world, 0, len(met))
	for w := range met {
		all = append(all, w)
	}
	return all
}

// The order of the model's steps is told again beside the code that takes them. What the code does is shown in package stream:
// the model must be able to follow; and what is done in another order it must not.
func TestModelFollowsTheOwner(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		in    search
		steps string
	}{
		{"stopped, moved by an operator, started again", search{alone: true, left: budget{restarts: 2, resets: 1}}, streamtest.StepsOverASeek},
		{"expelled while it joins", search{alone: true, left: budget{faults: 2, resets: 1, restarts: 1}}, streamtest.StepsOfTheExpelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			steps := strings.Fields(tt.steps)
			if tt.in.left.faults > 0 { // the leave by which the test expels it is none of its own
				i := slices.Index(steps, "leave")
				steps = slices.Delete(steps, i, i+1)
			}
			if n := tt.in.follows(steps); n < len(steps) {
				t.Fatalf("the model follows %v, but not %q then", steps[:n], steps[n])
			}
			for i := 1; i < len(steps); i++ {
				if steps[i-1] == steps[i] || tt.in.left.faults > 0 { // faults that cannot be seen explain another order
					continue
				}
				other := slices.Clone(steps)
				other[i-1], other[i] = other[i], other[i-1]
				if tt.in.follows(other) == len(other) {
					t.Errorf("the model takes %q before %q too, at step %d", steps[i], steps[i-1], i)
				}
			}
		})
	}
}
