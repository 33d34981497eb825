package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/schemas/scan"
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
	inside     func(around map[string]any, name string) func(string) string
	most       int // characters; 0: no bound but maxText
	mostInside func(around map[string]any, name string) int
	cuts       bool // a value that is too large is cut
	fences     bool // what it is part of may take its text for instructions
}

// part is literal text, or an expression.
type part struct {
	literal string
	xs      []*expression.Expression // with ?? between them: the first one that has a value counts
	source  string                   // of them, cut short
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
		n := expression.End(inner, "}}")
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
	for _, alternative := range expression.Split(source, "??") {
		x, err := environment.Compile(alternative, takes)
		if err != nil {
			return p, fmt.Errorf("{{%s}} %w", p.source, err)
		}
		p.xs = append(p.xs, x)
	}
	return p, nil
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
		v, err := t.valueOf(t.parts[0], in)
		return t.escaped(v, t.escape, t.most), err
	}
	var b strings.Builder
	length := 0 // in characters
	for _, p := range t.parts {
		piece := p.literal
		if p.xs != nil {
			v, err := t.valueOf(p, in)
			if err != nil {
				return nil, err
			}
			if piece, err = written(v); err != nil {
				return nil, fmt.Errorf("{{%s}} %w", p.source, err)
			}
			piece, _ = t.escaped(piece, t.escape, t.most).(string)
			if _, words := v.(string); words && t.fences && p.untrusted() {
				piece = fenced(piece, string(in.a.ID))
			}
		}
		if room := maxText - b.Len(); t.cuts && len(piece) > room {
			b.WriteString(strings.ToValidUTF8(piece[:room], "") + Cut)
			break
		}
		if t.most == 0 && b.Len()+len(piece) > maxText {
			return nil, fmt.Errorf("is longer than %d bytes", maxText)
		}
		b.WriteString(piece)
		if length += utf8.RuneCountInString(piece); t.most > 0 && length > t.most {
			break // and cut below
		}
	}
	return Shorten(b.String(), t.most), nil
}

// valueOf returns what a part's expression gives: its texts made harmless where they may be taken for instructions.
func (t *text) valueOf(p part, in *input) (any, error) {
	fences := t.fences && p.untrusted()
	v, err := p.value(in, t.most, t.cuts || fences)
	if fences {
		v = stripped(v)
	}
	return v, err
}

// escaped returns the value of an expression with every text in it escaped and cut.
func (t *text) escaped(v any, escape func(string) string, most int) any {
	switch v := v.(type) {
	case string:
		if escape != nil {
			v = escape(v)
		}
		return Shorten(v, most)
	case []any:
		for i := range v {
			v[i] = t.escaped(v[i], escape, most)
		}
	case map[string]any:
		for name := range v {
			own := escape
			if own == nil {
				own = t.inside(v, name)
			}
			v[name] = t.escaped(v[name], own, t.mostInside(v, name))
		}
	}
	return v
}

// value evaluates the expression for one event. Of a text of most characters no more is kept than is needed to cut it; 0 is no bound. With cuts,
// as much is kept of any other value as there is room for, and room is left for the other parameters.
func (p part) value(in *input, most int, cuts bool) (any, error) {
	for i, x := range p.xs {
		v, err := x.Eval(in)
		var native any
		if err == nil {
			if s, ok := v.(types.String); ok && most > 0 && len(s) > (most+1)*utf8.UTFMax { // a character more than is kept
				v = types.String(strings.ToValidUTF8(string(s[:(most+1)*utf8.UTFMax]), ""))
			}
			room := maxText
			if cuts {
				room = max(0, min(room, in.left-maxAll/2))
			}
			if native, err = expression.Native(v, room); errors.Is(err, expression.ErrTooLarge) && cuts {
				native, err = expression.Cut(v, room, Cut)
			}
		}
		failure, none := errors.AsType[*expression.Failure](err)
		if none && cuts && failure.Text != nil && failure.Text.Reason == scan.TooMany {
			return Cut, nil
		}
		none = none && !failure.Cost || err == nil && native == nil
		switch {
		case none && i < len(p.xs)-1:
		case none && err != nil && in.Bad() != nil && x.Reads("body"):
			return nil, in.Bad()
		case errors.Is(err, expression.ErrTooLarge):
			return nil, fmt.Errorf("{{%s}} %w: an expression gives at most %d bytes, nested at most %d deep", p.source, err, maxText, scan.MaxDepth)
		case err != nil:
			return nil, fmt.Errorf("{{%s}} %w", p.source, err)
		default:
			return native, nil
		}
	}
	return nil, nil
}

// written returns a value as it is written between other text.
func written(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("is null: say what stands there instead, such as {{x ?? 'none'}}")
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
