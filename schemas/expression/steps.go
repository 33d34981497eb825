package expression

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"

	"github.com/forebay-io/forebay/schemas/scan"
)

// steps prices calls in expressions by the sizes of what they get and give: ten bytes of text are a step, and so is a
// value of an array or object that is compared. CEL's own prices look at types, and a body's values have none before
// they are there: a text of megabytes, joined once per element of an array, would cost one step each time.
type steps struct{}

// sizes weighs arrays and objects, however large a body they come from.
var sizes = types.NewSizeCalculator(types.SizeCalculatorMaxDepth(scan.MaxDepth), types.SizeCalculatorMaxTraversal(maxValues))

// CallCost implements cost.ActualCostEstimator.
func (steps) CallCost(function, _ string, args []celref.Val, result celref.Val) *uint64 {
	n := 1 + weight(result)
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		for _, a := range args {
			n += uint64(sizes.AggregateSize(a))
		}
	case overloads.Matches: // the text, for every four characters of the pattern
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
	return &n
}

// weight returns the weight of a text, and 0 for anything else.
func weight(v celref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	}
	return 0
}
