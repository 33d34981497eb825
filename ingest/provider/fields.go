package provider

import (
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas/scan"
)

// fields says what the body of an event type has (a name such as "orders" is that of all types "orders/..." without their own), for presets whose type comes from a header that is not signed. A body that does not
// fit was sent under another name than it had when it was signed.
type fields struct {
	// has are pointers of which each must be there, also where it is null; lacks those of which none may be.
	has, lacks []string
	// alone: the body has no field that sets another type apart.
	alone bool
}

// envelope are the fields that events of any type may have. They set none apart.
var envelope = []string{"/action", "/changes", "/repository", "/organization", "/installation", "/sender"}

// compiledFields are slots, each with its pointer for messages.
type compiledFields struct {
	has, lacks []slot
}

type slot struct {
	at      int
	pointer string
}

// fields compiles those of a preset.
func (c *refs) fields(types map[string]fields) map[string]*compiledFields {
	marks := map[string]bool{}
	for _, f := range types {
		for _, pointer := range f.has {
			if first := firstStep(pointer); !slices.Contains(envelope, first) {
				marks[first] = true
			}
		}
	}
	compiled := make(map[string]*compiledFields, len(types))
	for name, f := range types {
		lacks := f.lacks
		if f.alone {
			lacks = slices.AppendSeq(slices.Clone(lacks), maps.Keys(marks))
		}
		compiled[name] = &compiledFields{has: c.pointed(f.has), lacks: c.pointed(lacks)}
	}
	return compiled
}

func firstStep(pointer string) string {
	step, _, _ := strings.Cut(pointer[1:], "/")
	return "/" + step
}

func (c *refs) pointed(pointers []string) []slot {
	slots := make([]slot, len(pointers))
	for i, pointer := range pointers {
		slots[i] = slot{c.slot(pointer), pointer}
	}
	return slots
}

// checkFields refuses a body that is not of the type whose name an unsigned header gives. What the preset does not list can be anything,
// but its name is one word, unless the preset lists it: "issues.opened" would pass for a type of "issues".
func (d *delivery) checkFields(name string) *Unusable {
	if d.src.fields == nil {
		return nil
	}
	f := d.src.fields[name]
	if f == nil && !word(name) {
		return unusable(TypeMismatch, "the name of the event is not of lower-case letters, digits, _, : and /")
	}
	for of := name; f == nil; f = d.src.fields[of] {
		cut := strings.LastIndexByte(of, '/')
		if cut < 0 {
			return nil
		}
		of = of[:cut]
	}
	for _, s := range f.has {
		if !d.there(s) {
			return unusable(TypeMismatch, "%s has %s, and the body has not", name, s.pointer)
		}
	}
	for _, s := range f.lacks {
		if d.there(s) {
			return unusable(TypeMismatch, "%s has no %s, and the body has", name, s.pointer)
		}
	}
	return nil
}

func (d *delivery) there(s slot) bool { return d.values != nil && d.values[s.at].Kind != scan.Absent }

func word(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == ':' || c == '/') {
			return false
		}
	}
	return s != ""
}
