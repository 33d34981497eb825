// Package scan reads chosen values out of a JSON text, strictly and in one pass, without decoding the rest. [Tree] reads all values, and
// [Each] visits the members of an object or the elements of an array.
//
//	set, _ := scan.Compile("/action", "/issue/number")
//	values, err := set.Scan(body, nil)
//	values[1].Text() // "42", as it stands in the body
//
// The whole text must be one valid JSON value (RFC 8259, no deeper than [MaxDepth]), maybe behind a byte order mark. Keys are compared as text, after
// unescaping and case-sensitively. A key that a pointer goes through must not stand twice in its object, because two
// readers would then read two values; other duplicates are ignored. Strings that are read must be valid UTF-8
// without unpaired surrogates; strings that are skipped are only checked for their form. Where only loose pointers lead
// ([CompileLoose]), a string that is not so is absent, and of two members with one key the last that has a value counts. A lazy set ([CompileLazy]) checks the
// form of the text and leaves the rest to whoever reads a value.
package scan

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxDepth is how many arrays and objects may be inside each other.
const MaxDepth = 128

// Kind is what a pointer points to.
type Kind uint8

const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
	Twice // a member whose key stands twice, of a lazy set
)

func (k Kind) String() string {
	return [...]string{"absent", "null", "boolean", "number", "string", "array", "object", "twice"}[k]
}

// Value is the value that a pointer leads to. It refers to the scanned body, which must not change while the value is used.
type Value struct {
	Kind Kind
	// Start and End are the span of the value in the body: body[Start:End], quotes and brackets included.
	Start, End int
	escaped    bool
	raw        []byte
}

// Raw returns the value's text in the body, quotes and brackets included.
func (v Value) Raw() []byte { return v.raw }

// Text returns a string's content, or the exact source text of any other kind; "" for Absent.
func (v Value) Text() string {
	if v.Kind != String {
		return string(v.raw)
	}
	content := v.raw[1 : len(v.raw)-1]
	if !v.escaped {
		return string(content)
	}
	text, _ := unescape(content) // checked while scanning
	return text
}

// Set is a compiled set of JSON Pointers. Safe for concurrent use.
type Set struct {
	root     *node
	nodes    int
	pointers int
	lazy     bool
}

// node is a place that pointers lead to or through: all pointers together are a tree of nodes.
type node struct {
	slot     int  // where its value is stored; the pointers' own slots come first
	strict   bool // some pointer that is not loose leads to it or through it
	children []child
}

// child is the node behind one more reference token.
type child struct {
	key   string
	index int // the token as an array index, or -1
	node  *node
}

// Compile prepares the pointers (RFC 6901; "" is the whole text). Scan returns their values in this order.
func Compile(pointers ...string) (*Set, error) {
	return CompileLoose(pointers, func(int) bool { return false })
}

// CompileLoose is Compile, but a text is not refused for what is behind the pointers of which loose holds, by their index.
func CompileLoose(pointers []string, loose func(int) bool) (*Set, error) {
	s := &Set{pointers: len(pointers)}
	var tokens [][]string
	for _, p := range pointers {
		t, err := split(p)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
	s.nodes = len(pointers)
	s.root = &node{slot: -1}
	for i, t := range tokens {
		n := s.root
		n.strict = n.strict || !loose(i)
		for _, token := range t {
			n = n.grow(token)
			n.strict = n.strict || !loose(i)
		}
		if n.slot >= 0 {
			return nil, fmt.Errorf("JSON Pointer %q is listed twice", pointers[i])
		}
		n.slot = i
	}
	s.number(s.root)
	return s, nil
}

// CompileLazy is Compile, but a text is refused for its form alone: a string may be no Unicode, of which [Value.Content] tells, and a member whose
// key stands twice is a value of kind Twice, which begins where the last of them does.
func CompileLazy(pointers ...string) (*Set, error) {
	s, err := CompileLoose(pointers, func(int) bool { return true })
	if err == nil {
		s.lazy = true
	}
	return s, err
}

// number gives the inner nodes slots behind those of the pointers.
func (s *Set) number(n *node) {
	if n.slot < 0 {
		n.slot = s.nodes
		s.nodes++
	}
	for _, c := range n.children {
		s.number(c.node)
	}
}

// grow returns the node behind a token, which it adds if it is not there.
func (n *node) grow(token string) *node {
	for _, c := range n.children {
		if c.key == token {
			return c.node
		}
	}
	c := child{key: token, index: -1, node: &node{slot: -1}}
	if i, err := strconv.Atoi(token); err == nil && i >= 0 && strconv.Itoa(i) == token {
		c.index = i
	}
	n.children = append(n.children, c)
	return c.node
}

var unescapeToken = strings.NewReplacer("~1", "/", "~0", "~")

// split returns the reference tokens of a pointer, unescaped.
func split(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("JSON Pointer %q does not begin with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		for j := range len(t) {
			if t[j] == '~' && !strings.HasPrefix(t[j:], "~0") && !strings.HasPrefix(t[j:], "~1") {
				return nil, fmt.Errorf("JSON Pointer %q: ~ must be written ~0, and / inside a name ~1", pointer)
			}
		}
		tokens[i] = unescapeToken.Replace(t)
	}
	return tokens, nil
}

// Reason is the closed list of what can be wrong with a text.
type Reason string

const (
	Syntax       Reason = "syntax"
	DuplicateKey Reason = "duplicate_key"
	BadString    Reason = "bad_string"
	TooDeep      Reason = "too_deep"
	TooMany      Reason = "too_many_values" // of Tree only
)

// Error says what is wrong and where; it quotes nothing of the text.
type Error struct {
	Reason Reason
	// Offset is the byte where the scanner stopped.
	Offset int
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// ErrorReason returns the reason of an *[Error]; "" for nil and other errors.
func ErrorReason(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// afterMark is where a text begins: behind the byte order mark that some senders (.NET, PowerShell) write, which is no part of it (RFC 8259, 8.1).
func afterMark(body []byte) int {
	return len(body) - len(bytes.TrimPrefix(body, []byte("\ufeff")))
}

// Scan reads body and returns the values in the order of the pointers; those that are not there have kind Absent. If buf has room, they
// are in it. The error is an *[Error].
func (s *Set) Scan(body []byte, buf []Value) ([]Value, error) {
	if cap(buf) < s.nodes {
		buf = make([]Value, s.nodes)
	}
	buf = buf[:s.nodes]
	clear(buf)
	r := reader{b: body, i: afterMark(body), wanted: s.pointers, out: buf, deepest: MaxDepth, lazy: s.lazy}
	r.space()
	if err := r.value(s.root, 0); err != nil {
		return nil, err
	}
	r.space()
	if r.i != len(body) {
		return nil, r.fail(Syntax)
	}
	return buf[:s.pointers], nil
}
