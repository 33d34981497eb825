// Package drift notices when the bodies of live events change their shape: fields that are new, that are gone, or that changed their kind, by
// source and event type.
//
// It looks at samples: the first [Learn] bodies of a type are what it compares with, then one body a second. It keeps names and kinds of
// fields and no value, in memory alone: a process that starts again learns again.
//
//	known := drift.NewRecorder()
//	of := known.Source("acme", "orders")
//	of.Observe("order.paid", body, now)
//	known.Report()
package drift

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is looked at and kept. A field takes some 150 bytes.
const (
	Learn     = 100 // bodies of a type that make up what others are compared with; and without a field, for it to be gone
	every     = time.Second
	maxBody   = 256 << 10 // bytes
	maxValues = 20_000    // of a body
	maxDepth  = 8
	maxTypes  = 64      // of a source
	maxFields = 1_000   // of a type
	maxAll    = 100_000 // fields of a process
	maxPath   = 256     // bytes
)

// What a change is.
const (
	New  = "new"
	Gone = "gone"
	Kind = "kind"
)

// Change is one field whose shape is another than it was. The API answers with its JSON.
type Change struct {
	Team   string    `json:"team"`
	Source string    `json:"source"`
	Type   string    `json:"type"`
	Field  string    `json:"field"`  // JSON Pointer; elements of arrays are *
	Change string    `json:"change"` // New, Gone or Kind
	Was    []string  `json:"was"`    // kinds; nil of New
	Is     []string  `json:"is"`     // nil of Gone
	Since  time.Time `json:"since"`  // the first body with it; of Gone, the last
}

// Type is what was seen of an event type. The API answers with its JSON.
type Type struct {
	Team     string `json:"team"`
	Source   string `json:"source"`
	Type     string `json:"type"`
	Samples  int    `json:"samples"`
	Learning bool   `json:"learning"` // fewer than Learn bodies came: nothing is compared yet
	More     bool   `json:"more"`     // it has more fields than are kept
}

// Recorder keeps the shapes of all sources of a process. Safe for concurrent use.
type Recorder struct {
	fields atomic.Int64 // kept, of all sources

	mu      sync.Mutex
	sources map[[2]string]*Source
}

// NewRecorder makes an empty one.
func NewRecorder() *Recorder { return &Recorder{sources: map[[2]string]*Source{}} }

// Source returns what is kept of a source. It is the same over reloads.
func (r *Recorder) Source(team, name string) *Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := [2]string{team, name}
	if r.sources[at] == nil {
		r.sources[at] = &Source{recorder: r, team: team, name: name, types: map[string]*shape{}}
	}
	return r.sources[at]
}

// Keep forgets sources that are configured no longer.
func (r *Recorder) Keep(configured func(team, name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, s := range r.sources {
		if !configured(at[0], at[1]) {
			delete(r.sources, at)
			s.forget()
		}
	}
}

// Report returns what changed, and what was looked at, both sorted.
func (r *Recorder) Report() (changes []Change, types []Type) {
	r.mu.Lock()
	sources := make([]*Source, 0, len(r.sources))
	for _, s := range r.sources {
		sources = append(sources, s)
	}
	r.mu.Unlock()
	for _, s := range sources {
		c, t := s.report()
		changes, types = append(changes, c...), append(types, t...)
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Change, b.Change))
	})
	slices.SortFunc(types, func(a, b Type) int {
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Type, b.Type))
	})
	return changes, types
}

// Source keeps the shapes of one source's events. Safe for concurrent use; nil keeps nothing.
type Source struct {
	recorder   *Recorder
	team, name string

	mu    sync.Mutex
	gone  bool // forgotten: a delivery that is still under way adds nothing
	types map[string]*shape
}

// Observe looks at the body of an event, if it is time for a sample. The body is not kept.
func (s *Source) Observe(eventType string, body []byte, now time.Time) {
	if s == nil || len(body) > maxBody || !s.due(eventType, now) {
		return
	}
	seen, whole := fieldsOf(body)
	if seen == nil {
		return // no JSON: not for us
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.types[eventType]; t != nil {
		t.add(s.recorder, seen, now)
		t.more = t.more || !whole
	}
}

// due reports whether a body of this type is a sample.
func (s *Source) due(eventType string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.types[eventType]
	if t == nil {
		if s.gone || len(s.types) >= maxTypes {
			return false
		}
		t = &shape{fields: map[string]*field{}}
		s.types[eventType] = t
	}
	if t.samples >= Learn && now.Sub(t.looked) < every && !now.Before(t.looked) {
		return false
	}
	t.looked = now
	return true
}

func (s *Source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	for _, t := range s.types {
		s.recorder.fields.Add(-int64(len(t.fields)))
	}
	s.types = map[string]*shape{}
}

func (s *Source) report() (changes []Change, types []Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.types {
		types = append(types, Type{Team: s.team, Source: s.name, Type: name, Samples: t.samples, Learning: t.samples < Learn, More: t.more})
		for _, c := range t.changes() {
			c.Team, c.Source, c.Type = s.team, s.name, name
			changes = append(changes, c)
		}
	}
	return changes, types
}
