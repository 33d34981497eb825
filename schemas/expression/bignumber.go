package expression

import (
	"errors"
	"reflect"

	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
)

// bigNumber is a JSON number that CEL cannot hold: an integer beyond 64 bits, a decimal beyond a double. A body may have one: it equals only
// itself, and everything else that an expression does with it fails.
type bigNumber string

var (
	beyondType = types.NewOpaqueType("number_beyond_64_bits")
	errBeyond  = errors.New("a number beyond 64 bits")
)

// ConvertToNative implements [celref.Val].
func (bigNumber) ConvertToNative(reflect.Type) (any, error) { return nil, errBeyond }

// ConvertToType implements [celref.Val].
func (bigNumber) ConvertToType(t celref.Type) celref.Val {
	if t == types.TypeType {
		return beyondType
	}
	return types.WrapErr(errBeyond)
}

// Equal implements [celref.Val].
func (b bigNumber) Equal(other celref.Val) celref.Val {
	o, ok := other.(bigNumber)
	return types.Bool(ok && o == b)
}

// Type implements [celref.Val].
func (bigNumber) Type() celref.Type { return beyondType }

// Value implements [celref.Val].
func (b bigNumber) Value() any { return string(b) }
