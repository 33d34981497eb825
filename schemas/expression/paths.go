package expression

import (
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	celref "cel.dev/cel-go/common/types/ref"

	"github.com/forebay-io/forebay/schemas/scan"
)

// paths are the places in a body that an expression names, such as body.issue.state: the pass over the text that checks its form finds them,
// and nothing else of the text is kept. What is named by a value, body[event.type], is looked for when it is asked for.
type paths struct {
	set  *scan.Set
	root *path
}

// path is a place in a text: the whole text, or a member of the object at another path.
type path struct {
	slot    int // of its value in lazyText
	members map[string]*path
}

// nothingNamed leads to the whole text alone.
var nothingNamed = newPaths(nil)

// newPaths returns the paths to what an expression names in the variable body.
func newPaths(names [][]string) *paths {
	p := &paths{root: &path{}}
	pointers := []string{""}
	for _, keys := range names {
		at, pointer := p.root, ""
		for _, key := range keys {
			pointer += "/" + escaped.Replace(key)
			next := at.to(key)
			if next == nil {
				next = &path{slot: len(pointers)}
				pointers = append(pointers, pointer)
				if at.members == nil {
					at.members = map[string]*path{}
				}
				at.members[key] = next
			}
			at = next
		}
	}
	var err error
	if p.set, err = scan.CompileLazy(pointers...); err != nil {
		panic(err) // pointers that are made here are right, and each is another
	}
	return p
}

// escaped writes a key as a part of a JSON Pointer.
var escaped = strings.NewReplacer("~", "~0", "/", "~1")

// to returns the path to a member, nil if it was not named.
func (p *path) to(key string) *path {
	if p == nil {
		return nil
	}
	return p.members[key]
}

// read is [Lazy], with the values at the paths at hand; nil leads nowhere.
func (p *paths) read(text []byte) (celref.Val, error) {
	if p == nil {
		p = nothingNamed
	}
	l := &lazyText{left: maxValues}
	var err error
	if l.found, err = p.set.Scan(text, l.room.found[:0]); err != nil {
		return nil, err
	}
	if l.made = l.room.made[:]; len(l.found) > fewNamed {
		l.made = make([]celref.Val, len(l.found))
	}
	return l.named(p.root), nil
}

// keysOf returns the keys by which an expression goes from the variable body to a member, body.issue['state']; nil if that is not what it does.
func keysOf(e ast.Expr) []string {
	var of ast.Expr
	var key string
	switch e.Kind() {
	case ast.SelectKind:
		of, key = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		default:
			return nil
		}
		if c.Args()[1].Kind() != ast.LiteralKind {
			return nil
		}
		text, ok := c.Args()[1].AsLiteral().Value().(string)
		if !ok {
			return nil
		}
		of, key = c.Args()[0], text
	default:
		return nil
	}
	if of.Kind() == ast.IdentKind && of.AsIdent() == "body" {
		return []string{key}
	}
	if keys := keysOf(of); keys != nil {
		return append(keys, key)
	}
	return nil
}
