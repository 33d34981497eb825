package provider

import (
	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas/expression"
)

// celPrefix is how a `from` says that it is an expression.
const celPrefix = "cel:"

// maxResult bounds the text that an expression gives, in bytes.
const maxResult = 4 << 10

// Types that a place takes from an expression. Decimals have no place: as a version or part of a name they would not be
// exact.
var (
	names    = []*cel.Type{cel.StringType, cel.IntType, cel.UintType}
	counters = names
	moments  = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.TimestampType}
	words    = []*cel.Type{cel.StringType}
	flags    = []*cel.Type{cel.BoolType, cel.StringType, cel.IntType, cel.UintType}
)

// texts is the type of header and form.
var texts = cel.MapType(cel.StringType, cel.StringType)

// environment is what expressions can name: the delivery as body (the JSON text), header (lower-case names to first
// values) and form (names to values).
var environment = expression.Over(cel.Variable("body", cel.DynType), cel.Variable("header", texts), cel.Variable("form", texts))

// compiled is a compiled `cel:`. Safe for concurrent use.
type compiled struct {
	*expression.Expression
	body bool // it reads the body
	form bool // it reads the form
}

// express compiles and type-checks an expression. Its errors go behind the name of a key.
func express(text string, takes []*cel.Type) (*compiled, error) {
	x, err := environment.Compile(text, takes)
	if err != nil {
		return nil, err
	}
	return &compiled{Expression: x, body: x.Reads("body"), form: x.Reads("form")}, nil
}
