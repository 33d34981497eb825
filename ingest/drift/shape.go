package drift

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/forebay-io/forebay/schemas/scan"
)

// kinds are a set of JSON's kinds.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	number
	text
	array
	object
)

var kindNames = []string{"null", "boolean", "number", "string", "array", "object"}

func (k kinds) names() (all []string) {
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

// field is what was seen of one field of a type.
type field struct {
	learned int       // bodies with it while the type was learned
	was     kinds     // then
	is      kinds     // of the bodies since
	last    int       // number of the last body with it
	lastAt  time.Time // when that came
	newAt   time.Time // when it came first, after the type was learned
	kindAt  time.Time // when a kind came first that it had not been of
}

// shape is what was seen of the bodies of one type.
type shape struct {
	samples int
	looked  time.Time
	more    bool
	fields  map[string]*field
}

// add takes in the fields of one body.
func (t *shape) add(r *Recorder, seen map[string]kinds, now time.Time) {
	t.samples++
	learning := t.samples <= Learn
	for path, k := range seen {
		f := t.fields[path]
		if f == nil {
			if len(t.fields) >= maxFields || r.fields.Load() >= maxAll {
				t.more = true
				continue
			}
			r.fields.Add(1)
			f = &field{}
			t.fields[path] = f
		}
		f.last, f.lastAt = t.samples, now
		if learning {
			f.learned++
			f.was |= k
			continue
		}
		if f.learned == 0 && f.newAt.IsZero() {
			f.newAt = now
		}
		if f.learned > 0 && k&^f.was != 0 && f.kindAt.IsZero() {
			f.kindAt = now
		}
		f.is |= k
	}
}

// changes returns what differs from the bodies that were learned from. What is inside of an object that is new or gone is left out.
func (t *shape) changes() (all []Change) {
	whole := map[string]bool{} // fields that are new or gone
	for path, f := range t.fields {
		whole[path] = t.isNew(f) || t.isGone(f)
	}
	for path, f := range t.fields {
		if whole[path[:strings.LastIndexByte(path, '/')]] {
			continue
		}
		switch {
		case t.isNew(f):
			all = append(all, Change{Field: path, Change: New, Is: f.is.names(), Since: f.newAt})
		case t.isGone(f):
			all = append(all, Change{Field: path, Change: Gone, Was: f.was.names(), Since: f.lastAt})
		case f.learned > 0 && f.is&^f.was != 0:
			all = append(all, Change{Field: path, Change: Kind, Was: f.was.names(), Is: f.is.names(), Since: f.kindAt})
		}
	}
	return all
}

func (t *shape) isNew(f *field) bool { return f.learned == 0 }

// isGone reports whether a field that every body had has been in none of the last.
func (t *shape) isGone(f *field) bool { return f.learned == Learn && t.samples-f.last >= Learn }

// fieldsOf returns the fields of a body with their kinds, nil if it is no JSON; whole is false if there are more than are looked at.
func fieldsOf(body []byte) (seen map[string]kinds, whole bool) {
	value, err := scan.Tree(body, maxValues, func([]byte) any { return 0 })
	if err != nil {
		return nil, false
	}
	w := walk{seen: map[string]kinds{}, whole: true}
	w.into("", value, 0)
	return w.seen, w.whole
}

type walk struct {
	seen  map[string]kinds
	whole bool
}

// into notes what is inside of a value. Elements of arrays are one field, *.
func (w *walk) into(path string, value any, depth int) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			w.note(path+"/"+strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"), inner, depth)
		}
	case []any:
		for _, inner := range v {
			w.note(path+"/*", inner, depth)
		}
	}
}

func (w *walk) note(path string, value any, depth int) {
	if depth >= maxDepth || len(path) > maxPath || len(w.seen) > maxFields {
		w.whole = false
		return
	}
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		path = "/" + strings.ReplaceAll(strconv.Quote(path), "/", "~1")
	}
	w.seen[path] |= kindOf(value)
	w.into(path, value, depth+1)
}

func kindOf(value any) kinds {
	switch value.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case string:
		return text
	case []any:
		return array
	case map[string]any:
		return object
	}
	return number
}
