package drift

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Unix(1_800_000_000, 0).UTC()

// feed gives a source bodies of one type, a second apart.
func feed(s *Source, now *time.Time, n int, body string) {
	for range n {
		*now = now.Add(time.Second)
		s.Observe("order.paid", []byte(body), *now)
	}
}

func told(r *Recorder) string {
	changes, _ := r.Report()
	var lines []string
	for _, c := range changes {
		lines = append(lines, fmt.Sprintf("%s %s %s->%s %d", c.Change, c.Field, strings.Join(c.Was, "|"), strings.Join(c.Is, "|"), int(c.Since.Sub(start).Seconds())))
	}
	return strings.Join(lines, "\n")
}

func TestDrift(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	s, now := r.Source("acme", "orders"), start
	feed(s, &now, 50, `{"id": "1", "total": 5, "by": {"name": "a"}, "lines": [{"sku": "x"}]}`)
	feed(s, &now, Learn-50, `{"id": "1", "total": null, "by": {"name": "a"}, "lines": [], "rare": 1}`)
	feed(s, &now, 10, `{"id": "1", "total": 5, "by": {"name": "a"}, "lines": [{"sku": "x"}]}`)
	if got := told(r); got != "" {
		t.Fatalf("nothing has changed: %s", got)
	}
	feed(s, &now, 1, `{"id": 1, "total": 5, "lines": [{"sku": "x"}, {"sku": null, "n": 2}], "to": {"street": "b", "town": {"zip": 1}}}`)
	const first = "kind /id string->number|string 111\nnew /lines/*/n ->number 111\nkind /lines/*/sku string->null|string 111\nnew /to ->object 111"
	if got := told(r); got != first {
		t.Errorf("got\n%s\nwant\n%s", got, first)
	}
	// What every body had is gone once it was in none of the last hundred; what only some had is not missed.
	feed(s, &now, Learn-2, `{"id": 1, "total": 5, "lines": []}`)
	if strings.Contains(told(r), "gone") {
		t.Errorf("too early: %s", told(r))
	}
	feed(s, &now, 1, `{"id": 1, "total": 5, "lines": []}`)
	if got := told(r); !strings.HasPrefix(got, "gone /by object-> 110\n") || strings.Count(got, "gone") != 1 {
		t.Errorf("by is gone: %s", got)
	}
	feed(s, &now, 1, `{"id": 1, "total": 5, "by": {"name": "a"}, "lines": []}`)
	if strings.Contains(told(r), "gone") {
		t.Errorf("it is there again: %s", told(r))
	}
}

// After a type is learned one body a second is looked at, and what is no JSON or too large never.
func TestSamples(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	s := r.Source("acme", "orders")
	for range 3 * Learn {
		s.Observe("a", []byte(`{"x": 1}`), start)
	}
	s.Observe("a", []byte(`{"y": 1}`), start.Add(999*time.Millisecond))
	if _, types := r.Report(); types[0].Samples != Learn || types[0].Learning {
		t.Errorf("%+v", types)
	}
	s.Observe("a", []byte(`{"y": 1}`), start.Add(time.Second))
	s.Observe("a", []byte(`<x/>`), start.Add(5*time.Second))
	s.Observe("a", []byte(`{"z": "`+strings.Repeat("x", maxBody)+`"}`), start.Add(10*time.Second))
	s.Observe("a", []byte(`{"x": 1}`), start.Add(-time.Hour)) // the clock was set back
	if changes, types := r.Report(); types[0].Samples != Learn+2 || len(changes) != 1 || changes[0].Field != "/y" {
		t.Errorf("%+v %+v", types, changes)
	}
	var none *Source
	none.Observe("a", []byte(`{}`), start)
}

// Senders can make up as many fields and types as they like: what is kept stays bounded, is told to be incomplete, and is given back.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	var fields []string
	for k := range maxFields {
		fields = append(fields, fmt.Sprintf(`"f%d": {"deep": 1}`, k))
	}
	const sources, withTypes = maxAll/maxFields + 5, 3
	for i := range sources {
		s := r.Source("acme", fmt.Sprint("s", i))
		s.Observe("a", []byte("{"+strings.Join(fields, ",")+"}"), start)
		for j := range 2 * maxTypes {
			if i < withTypes {
				s.Observe(fmt.Sprint("t", j), []byte(`{}`), start)
			}
		}
	}
	s := r.Source("acme", "deep")
	s.Observe("a", []byte(strings.Repeat(`{"a":`, 50)+`1`+strings.Repeat(`}`, 50)), start)
	s.Observe("b", []byte(`{"`+strings.Repeat("k", 2*maxPath)+`": 1, "\u001b[2J": 1}`), start)
	if n := r.fields.Load(); n > maxAll || n < maxAll-maxFields {
		t.Errorf("%d fields are kept of %d", n, maxAll)
	}
	_, types := r.Report()
	if len(types) > withTypes*maxTypes+sources-withTypes+2 {
		t.Errorf("%d types are kept", len(types))
	}
	for _, typ := range types {
		if (typ.Type == "a" || typ.Type == "b") && !typ.More {
			t.Errorf("%+v has more fields than are kept", typ)
		}
	}
	paths := 0
	for _, s := range r.sources {
		for path := range s.types["a"].fields {
			paths++
			if len(path) > maxPath || strings.ContainsRune(path, 0x1b) {
				t.Errorf("path %q", path)
			}
		}
	}
	if paths == 0 {
		t.Error("no path is kept")
	}
	r.Keep(func(_, name string) bool { return name == "s0" })
	if n, kept := r.fields.Load(), len(r.sources); n != int64(len(r.Source("acme", "s0").types["a"].fields)) || kept != 1 {
		t.Errorf("%d fields and %d sources are kept of one", n, kept)
	}
	s.Observe("c", []byte(`{"x": 1}`), start) // was under way when its source was taken out
	if _, types := r.Report(); len(types) > maxTypes {
		t.Errorf("%d types", len(types))
	}
}
