package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// fact is one delivery of a history: its event type without the provider's prefix, and the second that its version says.
type fact struct {
	typ string
	at  int
}

// TestFactsAreNeverStale delivers real bodies in another order than they happened in. What says what happened runs, marked late, whatever
// has come before it; what only restates its object does not run behind a newer state.
func TestFactsAreNeverStale(t *testing.T) {
	t.Parallel()
	histories := []struct {
		arrive []fact
		ran    []string // in the order in which the agent saw them
	}{
		{[]fact{{"issues.edited", 9}, {"issues.labeled", 5}}, []string{"issues.edited", "issues.labeled late"}},
		{[]fact{{"issues.edited", 9}, {"issues.opened", 1}, {"issues.closed", 5}}, []string{"issues.edited", "issues.opened late", "issues.closed late"}},
		{[]fact{{"issues.edited", 9}, {"issues.edited", 5}}, []string{"issues.edited"}},
		{[]fact{{"issues.labeled", 9}, {"issues.edited", 5}}, []string{"issues.labeled"}}, // its body has the issue as it is at 9
		{[]fact{{"pull_request.synchronize", 9}, {"pull_request.ready_for_review", 5}}, []string{"pull_request.synchronize", "pull_request.ready_for_review late"}},
		{[]fact{{"pull_request.synchronize", 9}, {"pull_request.synchronize", 5}}, []string{"pull_request.synchronize"}},
	}
	r := deploy(t, rig.Fake(t), options{})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	p := r.serve("intake,stream")
	sent, ran := 0, 0
	for i, h := range histories {
		for _, f := range h.arrive {
			r.deliver(f.delivery(t, i))
		}
		sent, ran = sent+len(h.arrive), ran+len(h.ran)
	}
	waitItems(t, r, p, ran, "--status", "done")
	waitItems(t, r, p, sent-ran, "--decision", "stale")
	saw := map[string][]string{} // by entity
	for _, c := range r.agent.snapshot() {
		line := strings.TrimPrefix(c.typ, "com.github.")
		if c.late {
			line += " late"
		}
		saw[c.entity] = append(saw[c.entity], line)
	}
	for i, h := range histories {
		if got := saw[h.arrive[0].entity(i)]; !slices.Equal(got, h.ran) {
			t.Errorf("%v: the agent saw %q, want %q", h.arrive, got, h.ran)
		}
	}
	if len(saw) != len(histories) {
		t.Errorf("the agent saw %d entities, want %d: %v", len(saw), len(histories), saw)
	}
}

// delivery is a real body, made one of the i-th history.
func (f fact) delivery(t *testing.T, i int) delivery {
	object, verb, _ := strings.Cut(f.typ, ".")
	at := time.Date(2026, 7, 1, 12, 0, f.at, 0, time.UTC)
	d := delivery{source: "github", event: object, entity: f.entity(i), number: f.at}
	if object == "issues" {
		d.body = varied(t, "github/issues.labeled", map[string]any{"/action": verb, "/issue/number": i, "/issue/updated_at": at})
	} else {
		d.body = varied(t, "github/pull_request.synchronize", map[string]any{"/action": verb, "/number": i, "/pull_request/number": i, "/pull_request/updated_at": at})
	}
	d.id = bodyID(d.body)
	return d
}

// entity is what the agent sees as the entity of the i-th history.
func (f fact) entity(i int) string { return fmt.Sprintf("186853002/%d", i) }

// varied is a payload of the vectors with other values at these pointers.
func varied(t *testing.T, name string, values map[string]any) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "ingest", "vectors", "payloads", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var body map[string]any
	numbers := json.NewDecoder(file)
	numbers.UseNumber()
	if err := numbers.Decode(&body); err != nil {
		t.Fatal(err)
	}
	for pointer, value := range values {
		parts := strings.Split(pointer[1:], "/")
		object := body
		for _, name := range parts[:len(parts)-1] {
			object = object[name].(map[string]any)
		}
		if _, ok := object[parts[len(parts)-1]]; !ok {
			t.Fatalf("%s has no %s", name, pointer)
		}
		object[parts[len(parts)-1]] = value
	}
	out, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
