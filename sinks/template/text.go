package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas/expression"
)

// maxText bounds a text that a template makes, and the weight of a value, in bytes.
const maxText = 256 << 10

// inText are the types that can stand between other text; JSON's numbers beyond 64 bits can, too.
var inText = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.BoolType, cel.DoubleType, cel.TimestampType, cel.DurationType}

// text is a compiled string: literal text and expressions in turn.
type text struct {
	parts  []part
	escape func(string) string // of what expressions give; nil: it stands as it is
	// inside is the parameter's Escape, for the objects that an expression makes.
	inside func(around map[string]any, name string) func(string) string
}

// part is literal text, or an expression.
type part struct {
	literal string
	x       *expression.Expression
	source  string // of the expression, cut short
}

// parse compiles a string. What one expression alone gives must be of the types that takes lists; nil takes any.
// Errors go behind the name of a key.
func parse(s string, takes []*cel.Type) (*text, error) {
	t := &text{}
	for rest := s; rest != ""; {
		literal, inner, found := strings.Cut(rest, "{{")
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !found {
			break
		}
		n := end(inner)
		if n < 0 {
			return nil, fmt.Errorf("has {{ at character %d without }}; two braces alone are written {{'{{'}}", len(s)-len(inner)-1)
		}
		source := inner[:n]
		rest = inner[n+2:]
		wanted := inText
		if len(t.parts) == 0 && rest == "" {
			wanted = takes
		}
		p, err := compile(source, wanted)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
	}
	return t, nil
}

// compile compiles the expression between {{ and }}.
func compile(source string, takes []*cel.Type) (part, error) {
	p := part{source: brief(source)}
	if strings.TrimSpace(source) == "" {
		return p, errors.New("has {{}} without an expression")
	}
	var err error
	if p.x, err = environment.Compile(source, takes); err != nil {
		return p, fmt.Errorf("{{%s}} %w", p.source, err)
	}
	return p, nil
}

// end returns the index of the }} that closes an expression, which is outside its strings, comments and brackets; -1 if there is none.
func end(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			i += quoted(s, i) - 1
		case strings.HasPrefix(s[i:], "//"):
			line := strings.IndexByte(s[i:], '\n')
			if line < 0 {
				return -1
			}
			i += line
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case depth == 0 && strings.HasPrefix(s[i:], "}}"):
			return i
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(0, depth-1)
		}
	}
	return -1
}

// quoted returns the length of the string literal that begins at i, to the end of s if it is not closed.
func quoted(s string, i int) int {
	raw := false
	for j := i - 1; j >= 0 && i-j <= 2 && strings.IndexByte("rRbB", s[j]) >= 0; j-- { // r'', br'' and so on
		raw = raw || s[j]|0x20 == 'r'
	}
	quote := s[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s[i:], triple) {
		quote = triple
	}
	for j := i + len(quote); j < len(s); j++ {
		switch {
		case s[j] == '\\' && !raw:
			j++
		case strings.HasPrefix(s[j:], quote):
			return j + len(quote) - i
		}
	}
	return len(s) - i
}

// brief returns an expression shortened to one line, for messages.
func brief(source string) string {
	const most = 60
	if source = strings.Join(strings.Fields(source), " "); len(source) <= most {
		return source
	}
	return strings.ToValidUTF8(source[:most], "") + "..."
}

// value returns what the string makes of in: a text, or what its one expression gives.
func (t *text) value(in *input) (any, error) {
	if t.alone() {
		v, err := t.parts[0].value(in)
		return t.escaped(v, t.escape), err
	}
	var b strings.Builder
	for _, p := range t.parts {
		piece := p.literal
		if p.x != nil {
			v, err := p.value(in)
			if err != nil {
				return nil, err
			}
			if piece, err = written(v); err != nil {
				return nil, fmt.Errorf("{{%s}} %w", p.source, err)
			}
			piece, _ = t.escaped(piece, t.escape).(string)
		}
		if b.Len()+len(piece) > maxText {
			return nil, fmt.Errorf("is longer than %d bytes", maxText)
		}
		b.WriteString(piece)
	}
	return b.String(), nil
}

// escaped returns the value of an expression with every text in it escaped.
func (t *text) escaped(v any, escape func(string) string) any {
	switch v := v.(type) {
	case string:
		if escape != nil {
			return escape(v)
		}
	case []any:
		for i := range v {
			v[i] = t.escaped(v[i], escape)
		}
	case map[string]any:
		for name := range v {
			own := escape
			if own == nil {
				own = t.inside(v, name)
			}
			v[name] = t.escaped(v[name], own)
		}
	}
	return v
}

// value evaluates the expression for one event.
func (p part) value(in *input) (any, error) {
	if p.x.Reads("body") {
		if err := in.parse(); err != nil {
			return nil, err
		}
	}
	v, err := p.x.Eval(in)
	if err != nil {
		return nil, fmt.Errorf("{{%s}} %w", p.source, err)
	}
	native, err := expression.Native(v, maxText)
	if err != nil {
		return nil, fmt.Errorf("{{%s}} %w", p.source, err)
	}
	return native, nil
}

// written returns a value as it is written between other text.
func written(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("is null: say what stands there instead, such as {{x == null ? 'none' : x}}")
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64, uint64, float64, json.Number:
		b, err := json.Marshal(v)
		return string(b), err
	}
	return "", errors.New("is a list or an object: only texts, numbers, booleans and times stand in a text")
}
