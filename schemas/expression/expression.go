// Package expression compiles and runs CEL over the variables that its user declares. Expressions are type-checked when they are
// compiled, have no loops, no I/O and no clock, and their cost is bounded; integers are exact.
//
//	orders := expression.Over(cel.Variable("body", cel.DynType))
//	x, err := orders.Compile("body.order.rev * 10 + body.order.minor", []*cel.Type{cel.IntType})
//	body, err := expression.JSON(text)
//	value, err := x.Eval(activation)
//
// An error names only the character at which it fails, never the reason: the reasons that CEL gives quote values.
package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/forebay-io/forebay/schemas/scan"
)

// Bounds of expressions. The cost, see [steps], is some ten milliseconds and a megabyte of texts; a bounded repeat of a
// regular expression (.{0,990}) takes a hundred times as long.
const (
	maxExpression = 2000 // characters
	// maxNesting is how deep what holds other values may be nested: the type check takes the fourth power of it, 11 s for 250 maps in 2000
	// characters and a millisecond for 16.
	maxNesting = 16
	maxCost    = 100_000
	maxPattern = 2000    // instructions of a regular expression, which may come from the body
	maxValues  = 1 << 18 // in a JSON text that an expression reads
)

// Environment is what expressions can name: the standard library, optional values (body.?issue.?title.orValue('none')) and variables. Safe for concurrent use.
type Environment struct {
	make func() (*cel.Env, error) // once, and then returns the same
	kept kept
	// checking is held during a type check: a check that meets an undeclared name writes to the environment, without a lock, what
	// other checks read (cel-go 0.33.2, checker.Env.Catalog).
	checking sync.Mutex
}

// Over returns an environment with the variables. A name with a dot in it is written like a field in expressions.
func Over(variables ...cel.EnvOption) *Environment {
	options := append(slices.Clone(variables), cel.OptionalTypes(), cel.ParserExpressionSizeLimit(maxExpression), cel.RegexProgramSizeLimit(maxPattern))
	return &Environment{make: sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(options...) })}
}

// Expression is a compiled expression. Safe for concurrent use.
type Expression struct {
	program cel.Program
	source  *ast.SourceInfo
	gives   *cel.Type
	takes   []*cel.Type // the types that a value may have; nil: any
	reads   []string    // the variables that it names
	names   [][]string  // of members of body, by their keys
	paths   *paths      // to those, and to what is named by those that it was put together with
}

// Compile compiles and type-checks an expression whose value must be of one of the types in takes; nil takes any. A value whose type is
// only known when the expression runs passes, see [Expression.Takes]. The text of an error follows the name of a configuration key: "is
// not an expression ...". What was compiled since the last [Forget] but one is taken again.
func (e *Environment) Compile(text string, takes []*cel.Type) (*Expression, error) {
	whole, err := e.kept.compiled(text, e.compile)
	if err != nil {
		return nil, err
	}
	x := *whole
	x.takes = takes
	if x.gives.Kind() != cel.DynKind && !x.taken(x.gives.TypeName()) {
		return nil, fmt.Errorf("is an expression of type %s, and must give one of %s%s", shortened(cel.FormatCELType(x.gives)), x.TypeNames(), remark(x.gives))
	}
	return &x, nil
}

// compile compiles and type-checks an expression, whatever the type of its value.
func (e *Environment) compile(text string) (*Expression, error) {
	env, err := e.make()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if err := problem(issues); err != nil {
		return nil, err
	}
	if nestedBeyond(maxNesting, ast.NavigateAST(parsed.NativeRep())) {
		return nil, fmt.Errorf("is not an expression: lists, maps, optional values and macros (map, filter, exists, ..., some of which count twice) are nested more than %d deep", maxNesting)
	}
	e.checking.Lock()
	checked, issues := env.Check(parsed)
	e.checking.Unlock()
	if err := problem(issues); err != nil {
		return nil, err
	}
	x := &Expression{source: checked.NativeRep().SourceInfo(), gives: checked.OutputType()}
	x.program, err = env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(steps{}), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("is not an expression: %w", err)
	}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			x.reads = append(x.reads, e.AsIdent())
		}
		if keys := keysOf(e); keys != nil {
			x.names = append(x.names, keys)
		}
	}))
	x.paths = newPaths(x.names)
	return x, nil
}

// Together has the body of an [Input] that these expressions share read for all of them by the first that names it. They must not be in use yet.
func Together(all ...*Expression) {
	var names [][]string
	for _, x := range all {
		names = append(names, x.names...)
	}
	paths := newPaths(names)
	for _, x := range all {
		x.paths = paths
	}
}

// nestedBeyond reports whether what holds other values is nested more than most deep.
func nestedBeyond(most int, e ast.NavigableExpr) bool {
	switch k := e.Kind(); {
	case k == ast.ListKind, k == ast.MapKind, k == ast.StructKind, k == ast.ComprehensionKind,
		k == ast.CallKind && strings.HasPrefix(e.AsCall().FunctionName(), "of"): // optional.of, optional.ofNonZeroValue
		most--
	}
	return most < 0 || slices.ContainsFunc(e.Children(), func(c ast.NavigableExpr) bool { return nestedBeyond(most, c) })
}

// Reads reports whether the expression names the variable.
func (x *Expression) Reads(variable string) bool { return slices.Contains(x.reads, variable) }

// Eval runs the expression. The value may be null, or of a type that is not wanted, see [Expression.Takes]. The error is a *[Failure].
func (x *Expression) Eval(variables cel.Activation) (celref.Val, error) {
	if in, ok := variables.(interface{ names(*paths) }); ok {
		in.names(x.paths)
	}
	out, _, err := x.program.Eval(variables)
	if err != nil {
		return nil, x.failed(err)
	}
	return out, nil
}

// Takes reports whether the type of v is one that Compile was given.
func (x *Expression) Takes(v celref.Val) bool { return x.taken(v.Type().TypeName()) }

// taken is Takes of a type's name.
func (x *Expression) taken(name string) bool {
	return x.takes == nil || slices.ContainsFunc(x.takes, func(t *cel.Type) bool { return t.TypeName() == name })
}

// TypeNames returns the types that Compile was given, for error messages.
func (x *Expression) TypeNames() string {
	var texts []string
	for _, t := range x.takes {
		texts = append(texts, TypeName(t))
	}
	return strings.Join(texts, ", ")
}

// TypeName returns a type's name in expressions, for messages.
func TypeName(t celref.Type) string {
	return strings.TrimPrefix(strings.ToLower(t.TypeName()), "google.protobuf.")
}

// Failure says that an evaluation gave no value. It quotes nothing of what the expression has read.
type Failure struct {
	Cost  bool   // it would have taken too many steps
	Where string // " at character 15"; "" if that is not known
	// Text is what is wrong with the JSON text there; nil: nothing is.
	Text *scan.Error
}

// Error returns a text that follows that of the expression: "fails at character 15: ...".
func (f *Failure) Error() string {
	if f.Cost {
		return fmt.Sprintf("takes more than %d steps", maxCost)
	}
	if f.Text != nil {
		return fmt.Sprintf("fails%s: the body cannot be read there: %v", f.Where, f.Text)
	}
	return fmt.Sprintf("fails%s: a value is missing, of another type or out of range", f.Where)
}

// failed returns the failure for an error of CEL: only where the expression failed, because the error's text may quote the body.
func (x *Expression) failed(err error) *Failure {
	if _, cancelled := errors.AsType[interpreter.EvalCancelledError](err); cancelled {
		return &Failure{Cost: true}
	}
	f := &Failure{}
	if e, ok := errors.AsType[*types.Err](err); ok && e.NodeID() != 0 {
		at := x.source.GetStartLocation(e.NodeID())
		f.Where = " at " + position(at.Line(), at.Column())
	}
	f.Text, _ = errors.AsType[*scan.Error](err)
	return f
}
