package provider

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// celPrefix is how a `from` says that it is an expression.
const celPrefix = "cel:"

// Bounds of expressions. The cost, see [steps], is some ten milliseconds and a megabyte of texts.
const (
	maxExpression = 2000 // characters
	maxCost       = 100_000
	maxPattern    = 2000    // instructions of a regular expression, which may come from the body
	maxResult     = 4 << 10 // bytes of a text
	maxValues     = 1 << 18 // in a body that an expression reads
)

// Types that a place takes from an expression. Decimals have no place: as a version or part of a name they would not be
// exact.
var (
	names    = []*cel.Type{cel.StringType, cel.IntType, cel.UintType}
	counters = names
	moments  = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.TimestampType}
	words    = []*cel.Type{cel.StringType}
	flags    = []*cel.Type{cel.BoolType, cel.StringType, cel.IntType, cel.UintType}
)

// expression is a compiled `cel:`. Safe for concurrent use.
type expression struct {
	program cel.Program
	source  *ast.SourceInfo
	takes   []*cel.Type
	body    bool // it reads the body
	form    bool // it reads the form
}

// environment is what expressions can name: the standard library, and the delivery as body (the JSON text), header
// (lower-case names to first values) and form (names to values).
var environment = sync.OnceValues(func() (*cel.Env, error) {
	texts := cel.MapType(cel.StringType, cel.StringType)
	return cel.NewEnv(cel.Variable("body", cel.DynType), cel.Variable("header", texts), cel.Variable("form", texts),
		cel.ParserExpressionSizeLimit(maxExpression), cel.RegexProgramSizeLimit(maxPattern))
})

// express compiles and type-checks an expression. Its errors go behind the name of a key.
func express(text string, takes []*cel.Type) (*expression, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if err := problem(issues); err != nil {
		return nil, err
	}
	if t := checked.OutputType(); t.Kind() != cel.DynKind && !taken(takes, t.TypeName()) {
		return nil, fmt.Errorf("is an expression of type %s, and must give one of %s%s", cel.FormatCELType(t), typeNames(takes), remark(t))
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(steps{}), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("is not an expression: %w", err)
	}
	x := &expression{program: program, source: checked.NativeRep().SourceInfo(), takes: takes}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			x.body = x.body || e.AsIdent() == "body"
			x.form = x.form || e.AsIdent() == "form"
		}
	}))
	return x, nil
}

// problem is the first thing that is wrong, on one line.
func problem(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	all := issues.Errors()
	if len(all) == 0 {
		return fmt.Errorf("is not an expression: %w", issues.Err())
	}
	first := slices.MinFunc(all, func(a, b *cel.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	message, _, _ := strings.Cut(first.Message, "\n")
	message, _, _ = strings.Cut(message, " expecting {") // every token there is
	return fmt.Errorf("is not an expression: at %s: %s", position(first.Location.Line(), first.Location.Column()), message)
}

// position counts columns from 1, as people do; the end of an empty text has none. Expressions of one line are the rule.
func position(line, column int) string {
	column = max(column, 0)
	if line > 1 {
		return fmt.Sprintf("line %d, character %d", line, column+1)
	}
	return fmt.Sprintf("character %d", column+1)
}

func taken(takes []*cel.Type, name string) bool {
	return slices.ContainsFunc(takes, func(t *cel.Type) bool { return t.TypeName() == name })
}

func typeNames(takes []*cel.Type) string {
	var texts []string
	for _, t := range takes {
		texts = append(texts, strings.TrimPrefix(strings.ToLower(t.TypeName()), "google.protobuf."))
	}
	return strings.Join(texts, ", ")
}

func remark(t *cel.Type) string {
	switch t.Kind() {
	case cel.DoubleKind:
		return ": decimals are not exact"
	case cel.NullTypeKind:
		return ": null is a value that is missing"
	}
	return ""
}
