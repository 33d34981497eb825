package expression

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"

	"github.com/forebay-io/forebay/schemas/scan"
)

// steps gives the cost of calls in expressions, by the sizes of their arguments and results: ten bytes of text are a step, and so is a
// value of an array or object that is compared. CEL's own costs go by types, and a body's values have none when the expression is
// compiled: a text of megabytes, joined once per element of an array, would cost one step each time.
type steps struct{}

// sizes counts the values in arrays and objects, as many as a body may have.
var sizes = types.NewSizeCalculator(types.SizeCalculatorMaxDepth(scan.MaxDepth), types.SizeCalculatorMaxTraversal(maxValues))

// CallCost implements cost.ActualCostEstimator.
func (steps) CallCost(function, _ string, args []celref.Val, result celref.Val) *uint64 {
	n := 1 + weight(result)
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		for _, a := range args {
			n += uint64(sizes.AggregateSize(a))
		}
	case overloads.Matches: // the text's cost, once for every four characters of the pattern
		pattern := uint64(1)
		if p, ok := args[len(args)-1].(types.String); ok {
			pattern += uint64(len(p)) / 4
		}
		n += (1 + weight(args[0])) * pattern
	default:
		for _, a := range args {
			n += weight(a)
		}
	}
	if n < uint64(len(few)) {
		return &few[n]
	}
	return &n
}

// few are the costs of most calls, which then take no memory.
var few = func() (n [64]uint64) {
	for i := range n {
		n[i] = uint64(i)
	}
	return n
}()

// weight returns the steps of a text or bytes, and 0 for anything else.
func weight(v celref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	}
	return 0
}
