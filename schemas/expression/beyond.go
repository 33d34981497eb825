package expression

import (
	"errors"
	"reflect"

	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
)

// beyond is a JSON number that CEL cannot hold: an integer beyond 64 bits, a decimal beyond a double. A body may have one: it equals only
// itself, and everything else that an expression does with it fails.
type beyond string

var (
	beyondType = types.NewOpaqueType("number_beyond_64_bits")
	errBeyond  = errors.New("a number beyond 64 bits")
)

// ConvertToNative implements [celref.Val].
func (beyond) ConvertToNative(reflect.Type) (any, error) { return nil, errBeyond }

// ConvertToType implements [celref.Val].
func (beyond) ConvertToType(t celref.Type) celref.Val {
	if t == types.TypeType {
		return beyondType
	}
	return types.WrapErr(errBeyond)
}

// Equal implements [celref.Val].
func (b beyond) Equal(other celref.Val) celref.Val {
	o, ok := other.(beyond)
	return types.Bool(ok && o == b)
}

// Type implements [celref.Val].
func (beyond) Type() celref.Type { return beyondType }

// Value implements [celref.Val].
func (b beyond) Value() any { return string(b) }
