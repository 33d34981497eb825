package provider

import (
	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas/expression"
)

// celPrefix begins a `from` that is an expression.
const celPrefix = "cel:"

// maxResult bounds the text that an expression gives, in bytes.
const maxResult = 4 << 10

// The types that an expression may have, by what it is for. Decimals are in none: they would not be exact as a version or in a name.
var (
	names    = []*cel.Type{cel.StringType, cel.IntType, cel.UintType}
	counters = names
	moments  = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.TimestampType}
	words    = []*cel.Type{cel.StringType}
	flags    = []*cel.Type{cel.BoolType, cel.StringType, cel.IntType, cel.UintType}
)

// texts is the type of header and form.
var texts = cel.MapType(cel.StringType, cel.StringType)

// environment has the variables of expressions: body (the JSON text), header (lower-case names to first values) and form (names to
// values).
var environment = expression.Over(cel.Variable("body", cel.DynType), cel.Variable("header", texts), cel.Variable("form", texts))

// compiled is a compiled `cel:`. Safe for concurrent use.
type compiled struct {
	*expression.Expression
	body bool // it reads the body
	form bool // it reads the form
}

// express compiles and type-checks an expression. Its errors are written after the name of a key.
func express(text string, takes []*cel.Type) (*compiled, error) {
	x, err := environment.Compile(text, takes)
	if err != nil {
		return nil, err
	}
	return &compiled{Expression: x, body: x.Reads("body"), form: x.Reads("form")}, nil
}
