package scan

import (
	"encoding/binary"
	"math/bits"
)

// reader reads one text from its beginning. Its methods for values take the node of the pointers that lead to the value; with a nil node
// they only check the value's form.
type reader struct {
	b      []byte
	i      int     // the next byte to read
	wanted int     // how many pointers there are: their slots in out come first, then those of inner nodes
	out    []Value // the values that were met, by the node's slot

	deepest int  // how many arrays and objects may be inside each other
	lazy    bool // see [CompileLazy]
}

// fail returns an error at the next byte to read.
func (r *reader) fail(reason Reason) error { return &Error{Reason: reason, Offset: r.i} }

// space skips white space.
func (r *reader) space() {
	for r.i < len(r.b) && r.b[r.i] <= ' ' {
		switch r.b[r.i] {
		case ' ', '\n', '\t', '\r':
			r.i++
		default:
			return
		}
	}
}

// value reads the value at r.i, and stores it if there is a node for it. depth is how many arrays and objects it is in.
func (r *reader) value(n *node, depth int) error {
	if r.i >= len(r.b) {
		return r.fail(Syntax)
	}
	start := r.i
	v := Value{Start: start}
	var err error
	switch c := r.b[r.i]; {
	case c == '"':
		v.Kind = String
		if v.escaped, err = r.str(); err == nil && n != nil && n.slot < r.wanted && !r.lazy {
			end := r.i
			if err = r.checkString(start, v.escaped); err != nil && !n.strict {
				r.i = end
				return nil
			}
		}
	case c == '{':
		v.Kind = Object
		err = r.object(n, depth+1)
	case c == '[':
		v.Kind = Array
		err = r.array(n, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		v.Kind = Number
		err = r.number()
	case c == 't':
		v.Kind = Bool
		err = r.word("true")
	case c == 'f':
		v.Kind = Bool
		err = r.word("false")
	case c == 'n':
		v.Kind = Null
		err = r.word("null")
	default:
		err = r.fail(Syntax)
	}
	if err != nil {
		return err
	}
	if n != nil {
		v.End, v.raw = r.i, r.b[start:r.i:r.i]
		r.out[n.slot] = v
	}
	return nil
}

// open reads the bracket at r.i, and the closing one, end, if the object or array is empty. depth includes this one.
func (r *reader) open(end byte, depth int) (empty bool, err error) {
	if depth > r.deepest {
		return false, r.fail(TooDeep)
	}
	r.i++
	r.space()
	if r.i < len(r.b) && r.b[r.i] == end {
		r.i++
		return true, nil
	}
	return false, nil
}

// colon reads the colon between a key and its value, with the space around it.
func (r *reader) colon() error {
	r.space()
	if r.i >= len(r.b) || r.b[r.i] != ':' {
		return r.fail(Syntax)
	}
	r.i++
	r.space()
	return nil
}

// object reads the object at r.i, and stores the members that pointers go through. One of these twice is an error.
func (r *reader) object(n *node, depth int) error {
	if empty, err := r.open('}', depth); empty || err != nil {
		return err
	}
	for {
		if r.i >= len(r.b) || r.b[r.i] != '"' {
			return r.fail(Syntax)
		}
		start := r.i
		escaped, err := r.str()
		if err != nil {
			return err
		}
		next := n.member(r.b[start+1:r.i-1], escaped)
		twice := next != nil && r.seen(next)
		if twice && next.strict {
			r.i = start
			return r.fail(DuplicateKey)
		}
		if err := r.colon(); err != nil {
			return err
		}
		if err := r.value(next, depth); err != nil {
			return err
		}
		if twice && r.lazy {
			r.out[next.slot].Kind = Twice
		}
		done, err := r.more('}')
		if done || err != nil {
			return err
		}
	}
}

// array reads the array at r.i, and stores the elements that pointers go through.
func (r *reader) array(n *node, depth int) error {
	if empty, err := r.open(']', depth); empty || err != nil {
		return err
	}
	for index := 0; ; index++ {
		if err := r.value(n.element(index), depth); err != nil {
			return err
		}
		done, err := r.more(']')
		if done || err != nil {
			return err
		}
	}
}

// more reads the comma before the next member or element, or the closing bracket: then done is true.
func (r *reader) more(end byte) (done bool, err error) {
	r.space()
	if r.i >= len(r.b) {
		return false, r.fail(Syntax)
	}
	switch r.b[r.i] {
	case end:
		r.i++
		return true, nil
	case ',':
		r.i++
		r.space()
		return false, nil
	}
	return false, r.fail(Syntax)
}

// member returns the node of the member with this key, as it is in the text; nil if no pointer goes there.
func (n *node) member(key []byte, escaped bool) *node {
	if n == nil || len(n.children) == 0 {
		return nil
	}
	if escaped {
		text, ok := unescape(key)
		if !ok {
			return nil // no pointer has such a name
		}
		key = []byte(text)
	}
	for i := range n.children {
		if n.children[i].key == string(key) {
			return n.children[i].node
		}
	}
	return nil
}

// element returns the node of the element with this index; nil if no pointer goes there.
func (n *node) element(index int) *node {
	if n == nil {
		return nil
	}
	for i := range n.children {
		if n.children[i].index == index {
			return n.children[i].node
		}
	}
	return nil
}

// seen reports whether the value of a node was met before. Every value that has a node is stored, inner ones too.
func (r *reader) seen(n *node) bool { return r.out[n.slot].Kind != Absent }

// word reads true, false or null.
func (r *reader) word(w string) error {
	if len(r.b)-r.i < len(w) || string(r.b[r.i:r.i+len(w)]) != w {
		return r.fail(Syntax)
	}
	r.i += len(w)
	return nil
}

// number reads a number as JSON spells it: no leading zeros, no plus, digits on both sides of the point.
func (r *reader) number() error {
	if r.b[r.i] == '-' {
		r.i++
	}
	switch {
	case r.i < len(r.b) && r.b[r.i] == '0':
		r.i++
	case !r.digits():
		return r.fail(Syntax)
	}
	if r.i < len(r.b) && r.b[r.i] == '.' {
		r.i++
		if !r.digits() {
			return r.fail(Syntax)
		}
	}
	if r.i < len(r.b) && (r.b[r.i] == 'e' || r.b[r.i] == 'E') {
		r.i++
		if r.i < len(r.b) && (r.b[r.i] == '+' || r.b[r.i] == '-') {
			r.i++
		}
		if !r.digits() {
			return r.fail(Syntax)
		}
	}
	return nil
}

// digits skips digits, and reports whether there was one.
func (r *reader) digits() bool {
	start := r.i
	for r.i < len(r.b) && '0' <= r.b[r.i] && r.b[r.i] <= '9' {
		r.i++
	}
	return r.i > start
}

// The lowest and the highest bit of each of eight bytes.
const (
	low  = 0x0101010101010101
	high = 0x8080808080808080
)

// str skips the string at r.i, eight bytes at a time, and reports whether it has escapes.
func (r *reader) str() (escaped bool, err error) {
	b, i := r.b, r.i+1
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(low*'"'), w^(low*'\\')
			// The lowest bit set marks the first quote, backslash or control character: borrows only run upwards.
			hit := ((quote - low) &^ quote) | ((slash - low) &^ slash) | ((w - low*0x20) &^ w)
			if hit &= high; hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			r.i = i
			return escaped, r.fail(Syntax)
		}
		switch c := b[i]; {
		case c == '"':
			r.i = i + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				r.i = i
				return escaped, r.fail(Syntax)
			}
			i += n
		case c < 0x20:
			r.i = i
			return escaped, r.fail(Syntax)
		default:
			i++
		}
	}
}

// escapeLen returns the length of the escape at the start of b, or 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}
