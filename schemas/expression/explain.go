package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Part is what became of a condition, or of a part of it, for one event.
type Part struct {
	Text string // as it is written
	// Result is "true", "false" or "error"; Error says why.
	Result, Error string
	// Values are what the fields that a part without parts names have here.
	Values []Named
	// All says that Parts are joined by &&, not by ||.
	All   bool
	Parts []Part
}

// Named is a field and its value as JSON, cut short; "" if there is none.
type Named struct{ Name, Value string }

// Explain evaluates a condition for an event, and each operand of its && and || by itself. Unlike errors elsewhere, values are quoted.
func Explain(text string, in *Input) Part {
	text = bare(text)
	p := Part{Text: text, Result: "error"}
	x, err := Condition(text)
	if err == nil {
		var is bool
		if is, err = in.True(x); err == nil {
			p.Result = strconv.FormatBool(is)
		}
	}
	if err != nil {
		p.Error = err.Error()
	}
	parts := []string{text}
	if !ternary(text) {
		if parts = Split(text, "||"); len(parts) == 1 {
			parts, p.All = Split(text, "&&"), true
		}
	}
	if len(parts) == 1 {
		p.All, p.Values = false, values(text, in)
		return p
	}
	for _, part := range parts {
		p.Parts = append(p.Parts, Explain(part, in))
	}
	return p
}

// bare returns an expression without white space and brackets around it.
func bare(text string) string {
	for {
		text = strings.TrimSpace(text)
		inner, ok := strings.CutPrefix(text, "(")
		if !ok || End(inner, ")") != len(inner)-1 {
			return text
		}
		text = inner[:len(inner)-1]
	}
}

// ternary reports whether an expression has a question mark that does not belong to an optional field.
func ternary(text string) bool {
	for i := 0; ; i++ {
		n := End(text[i:], "?")
		if n < 0 {
			return false
		}
		if i += n; i == 0 || text[i-1] != '.' {
			return true
		}
	}
}

// values returns the fields that an expression names, each once, with what they are.
func values(text string, in *Input) (list []Named) {
	env, err := Events.make()
	if err != nil {
		return nil
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil
	}
	var walk func(e ast.Expr)
	walk = func(e ast.Expr) {
		if name := fieldName(e); name != "" {
			if known := slices.ContainsFunc(list, func(n Named) bool { return n.Name == name }); !known {
				if value, ok := shown(name, in); ok {
					list = append(list, Named{name, value})
				}
			}
			return
		}
		for _, child := range ast.NavigateAST(ast.NewAST(e, parsed.NativeRep().SourceInfo())).Children() {
			walk(child)
		}
	}
	walk(parsed.NativeRep().Expr())
	return list
}

// fieldName returns the name of a variable, or of a field or element of one, as it is written; "" for anything else.
func fieldName(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if of := fieldName(e.AsSelect().Operand()); of != "" {
			return of + "." + e.AsSelect().FieldName()
		}
	case ast.CallKind:
		c := e.AsCall()
		if len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
			return ""
		}
		of, literal := fieldName(c.Args()[0]), c.Args()[1].AsLiteral().Value()
		key, err := json.Marshal(literal)
		switch {
		case of == "" || err != nil:
		case c.FunctionName() == operators.Index:
			return of + "[" + string(key) + "]"
		case c.FunctionName() == operators.OptIndex:
			return of + "[?" + string(key) + "]"
		case c.FunctionName() == operators.OptSelect:
			return fmt.Sprintf("%s.?%s", of, literal)
		}
	}
	return ""
}

// maxShown is how much of a value is shown, in bytes.
const maxShown = 200

// shown returns the value of a field as JSON, "" if it has none; false for what is no field of the event, such as the variable of a macro.
func shown(name string, in *Input) (string, bool) {
	x, err := Events.Compile(name, nil)
	if err != nil {
		return "", false
	}
	v, err := x.Eval(in)
	if err != nil {
		return "", true
	}
	if of, ok := v.(*types.Optional); ok {
		if !of.HasValue() {
			return "", true
		}
		v = of.GetValue()
	}
	native, err := Native(v, 64<<10)
	if errors.Is(err, ErrTooLarge) {
		return "...", true
	}
	if err != nil {
		return "", true
	}
	text, err := json.Marshal(native)
	if err != nil {
		return "", true
	}
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "...", true
	}
	return string(text), true
}
