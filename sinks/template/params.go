package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// Kind is what a parameter takes.
type Kind string

const (
	Text   Kind = "text"   // a text; numbers and booleans are taken as theirs
	Texts  Kind = "texts"  // a list of texts, or one expression that gives one
	List   Kind = "list"   // a list of any JSON values, or one expression that gives one
	Object Kind = "object" // an object, or one expression that gives one
	Value  Kind = "value"  // any JSON value
)

// Param declares a parameter of a sink.
type Param struct {
	Name, Doc string
	Kind      Kind
	Required  bool
	Values    []string // the closed list of a Text, if there is one
	Default   string   // a template, as it would be written; empty: none
	// Check judges a Text, when it is compiled where it is literal, else when it is made. Its error goes behind the
	// parameter's name and quotes nothing. nil takes every text.
	Check func(text string) error
	// Escape says how what expressions give is made harmless where it stands: literal text means what it says, a text of
	// the event means itself. It is asked with the object around a text and its name there (nil and the parameter's own
	// name at the top), and gives nil if a text stands as it is. nil is nowhere.
	Escape func(around map[string]any, name string) func(string) string
	// Max is how many characters a text may have, where it is asked as Escape is; what is longer is cut, with [Cut] at its end. 0, and a nil
	// Max, is no bound but that of all texts, beyond which an action is dead.
	Max func(around map[string]any, name string) int
	// Cuts says that of a value that is too large as much is kept as there is room for; else the action is dead.
	Cuts bool
	// Instructs says that what reads the parameter may take its text for instructions: see [Params.Untrusted]. What an event says is fenced and cut there.
	Instructs bool
}

// KeyError is what is wrong with one parameter, or with a value inside it. Err goes behind the key.
type KeyError struct {
	Key string // "blocks[0].text"
	Err error
}

func (e *KeyError) Error() string { return e.Key + " " + e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// Params are compiled parameters. Safe for concurrent use.
type Params struct {
	declared  []Param
	nodes     map[string]node
	untrusted string
}

// Untrusted returns the key of the first text that puts words of an event where they may be taken for instructions; "" if none does.
func (p *Params) Untrusted() string { return p.untrusted }

// Bounds of what is written, in one destination or action.
const (
	maxStrings     = 200
	maxNesting     = 32
	maxExpressions = 500 // in all strings: each may cost some ten milliseconds for each attempt
)

// Compile compiles values: strings with templates, bools, numbers (int, int64, float64, [json.Number]), lists ([]any) and
// objects (map[string]any). Defaults are added for what is not given; what is required and missing is an error of
// [Params.Render]. The error is a *[KeyError].
func Compile(declared []Param, values map[string]any) (*Params, error) {
	all := maps.Clone(values)
	if all == nil {
		all = map[string]any{}
	}
	for _, d := range declared {
		if _, given := values[d.Name]; !given && d.Default != "" {
			all[d.Name] = d.Default
		}
	}
	return compileGiven(declared, all)
}

// compileGiven is Compile without defaults.
func compileGiven(declared []Param, values map[string]any) (*Params, error) {
	p := &Params{declared: declared, nodes: map[string]node{}}
	c := compiler{}
	defer func() { p.untrusted = c.untrusted }()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(declared, func(d Param) bool { return d.Name == name })
		if i < 0 {
			return nil, &KeyError{name, fmt.Errorf("is no parameter here; there are %s", names(declared))}
		}
		n, err := c.param(name, declared[i], values[name])
		if err != nil {
			return nil, err
		}
		p.nodes[name] = n
	}
	return p, nil
}

// names lists the parameters' names, for an error.
func names(declared []Param) string {
	if len(declared) == 0 {
		return "none"
	}
	var list []string
	for _, d := range declared {
		list = append(list, d.Name)
	}
	return strings.Join(list, ", ")
}

// node is a compiled value.
type node struct {
	literal any // bool, int64, float64 or json.Number
	text    *text
	list    []node // not nil: a list
	object  map[string]node
}

type compiler struct {
	strings     int
	expressions int
	untrusted   string
	// Of the parameter at hand, never nil:
	escape func(around map[string]any, name string) func(string) string
	most   func(around map[string]any, name string) int
	of     Param
}

// param compiles the value of one parameter, and checks that it can give what the parameter takes.
func (c *compiler) param(key string, d Param, v any) (node, error) {
	if c.escape = d.Escape; c.escape == nil {
		c.escape = func(map[string]any, string) func(string) string { return nil }
	}
	if c.most = d.Max; c.most == nil {
		c.most = func(map[string]any, string) int { return 0 }
	}
	c.of = d
	n, err := c.node(key, v, place{takes: d.takes(), escape: c.escape(nil, d.Name), most: c.most(nil, d.Name)})
	switch {
	case err != nil:
		return n, err
	case d.Kind == Text && (n.list != nil || n.object != nil):
		return n, &KeyError{key, errors.New("is a list or an object: one text is wanted")}
	case d.Kind == Texts && n.list == nil && (n.text == nil || !n.text.alone()):
		return n, &KeyError{key, errors.New("is not a list of texts, and not one expression that gives one")}
	case d.Kind == List && n.list == nil && (n.text == nil || !n.text.alone()):
		return n, &KeyError{key, errors.New("is not a list, and not one expression that gives one")}
	case d.Kind == Object && n.object == nil && (n.text == nil || !n.text.alone()):
		return n, &KeyError{key, errors.New("is not an object, and not one expression that gives one")}
	}
	if text, ok := n.plain(); ok && d.Kind == Text {
		if err := d.judge(text); err != nil {
			return n, &KeyError{key, err}
		}
	}
	return n, nil
}

// judge returns what is wrong with a text.
func (d Param) judge(text string) error {
	if len(d.Values) > 0 && !slices.Contains(d.Values, text) {
		return fmt.Errorf("is not one of %s", strings.Join(d.Values, ", "))
	}
	if d.Check != nil {
		return d.Check(text)
	}
	return nil
}

// place is the position of a value in the parameters.
type place struct {
	takes  []*cel.Type         // what one expression alone may give; nil takes any
	escape func(string) string // nil: a text stands as it is
	most   int                 // characters; 0: no bound
	depth  int
}

// inside returns a place in a list or an object at p, in a parameter of a kind.
func (p place) inside(kind Kind, escape func(string) string, most int) place {
	in := place{escape: escape, most: most, depth: p.depth + 1}
	if kind == Text || kind == Texts {
		in.takes = append(slices.Clone(inText), cel.NullType)
	}
	return in
}

// takes returns the types that one expression alone may give; nil takes any.
func (d Param) takes() []*cel.Type {
	switch d.Kind {
	case Text:
		return append(slices.Clone(inText), cel.NullType)
	case Texts, List:
		return []*cel.Type{cel.ListType(cel.DynType), cel.NullType}
	case Object:
		return []*cel.Type{cel.MapType(cel.StringType, cel.DynType), cel.NullType}
	}
	return nil
}

// node compiles a value of the config: a string as a template, lists and objects with what they hold, anything else as it is. key is the
// value's path, for errors.
func (c *compiler) node(key string, v any, at place) (node, error) {
	if at.depth > maxNesting {
		return node{}, &KeyError{key, fmt.Errorf("is nested deeper than %d", maxNesting)}
	}
	switch v := v.(type) {
	case string:
		if c.strings++; c.strings > maxStrings {
			return node{}, &KeyError{key, fmt.Errorf("is one text too many: %d are the most", maxStrings)}
		}
		if c.expressions += strings.Count(v, "{{"); c.expressions > maxExpressions { // before any of them is compiled
			return node{}, &KeyError{key, fmt.Errorf("has one expression too many: %d in all parameters are the most", maxExpressions)}
		}
		t, err := parse(v, at.takes)
		if err != nil {
			return node{}, &KeyError{key, err}
		}
		t.escape, t.inside, t.most, t.mostInside, t.cuts, t.fences = at.escape, c.escape, at.most, c.most, c.of.Cuts, c.of.Instructs
		if c.of.Instructs && c.untrusted == "" && t.untrusted() {
			c.untrusted = key
		}
		return node{text: t}, nil
	case bool, int64, float64, json.Number:
		return node{literal: v}, nil
	case int:
		return node{literal: int64(v)}, nil
	case []any:
		list := make([]node, len(v))
		for i := range v {
			var err error
			if list[i], err = c.node(fmt.Sprintf("%s[%d]", key, i), v[i], at.inside(c.of.Kind, at.escape, at.most)); err != nil {
				return node{}, err
			}
		}
		return node{list: list}, nil
	case map[string]any:
		object := make(map[string]node, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			path := key + "." + name
			if strings.Contains(name, "{{") {
				return node{}, &KeyError{path, errors.New("has braces in its key: only values are templates")}
			}
			var err error
			if object[name], err = c.node(path, v[name], at.inside(c.of.Kind, c.escape(v, name), c.most(v, name))); err != nil {
				return node{}, err
			}
		}
		return node{object: object}, nil
	}
	if v == nil {
		return node{}, &KeyError{key, errors.New("is null: leave it out")}
	}
	return node{}, &KeyError{key, fmt.Errorf("has a value that JSON does not have (%T)", v)}
}

// alone reports whether the string is one expression and nothing else.
func (t *text) alone() bool { return len(t.parts) == 1 && t.parts[0].xs != nil }

// plain returns the text of a value that has no expression in it; false if it has one.
func (n node) plain() (string, bool) {
	switch {
	case n.text == nil && n.literal != nil:
		s, err := written(n.literal)
		return s, err == nil
	case n.text == nil || len(n.text.parts) > 1:
		return "", false
	case len(n.text.parts) == 0:
		return "", true
	}
	return n.text.parts[0].literal, n.text.parts[0].xs == nil
}
