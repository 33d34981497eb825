package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/forebay-io/forebay/schemas/scan"
)

// ErrTooLarge is the error of Native about a value that weighs more than the limit, or is nested too deeply.
var ErrTooLarge = errors.New("is too large")

// Native returns a value as JSON has it: nil, a bool, an int64, a uint64, a float64, a [json.Number] where those do not hold
// the number, a string (times and durations as their texts), a []any or a map[string]any. A value that JSON does not have is an error,
// and so is one that weighs more than limit: one for each value in it, and one for each byte of its texts. The error's text follows that
// of the expression, and quotes no value.
func Native(v celref.Val, limit int) (any, error) {
	n := jsonConverter{left: limit}
	return n.value(v, 0)
}

// Cut is Native of which as much is kept as weighs no more than limit: texts, lists and objects end where that is reached, a text with mark.
func Cut(v celref.Val, limit int, mark string) (any, error) {
	n := jsonConverter{left: limit, cuts: true, mark: mark}
	return n.value(v, 0)
}

// jsonConverter converts one value. It counts what it has converted, because a value may hold one part of itself many times.
type jsonConverter struct {
	left int // how much more the value may weigh
	cuts bool
	mark string
}

// value converts a value that is depth levels deep in the whole one.
func (n *jsonConverter) value(v celref.Val, depth int) (any, error) {
	n.left--
	if n.cuts && n.left < 0 {
		return n.mark, nil
	}
	if n.left < 0 || depth > scan.MaxDepth {
		return nil, ErrTooLarge
	}
	switch v := v.(type) {
	case *types.Err:
		return nil, unread(v)
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if _, err := json.Marshal(float64(v)); err != nil {
			return nil, errors.New("gives a number that JSON does not have")
		}
		return float64(v), nil
	case bigNumber:
		return json.Number(v), nil
	case types.String:
		return n.text(string(v))
	case types.Timestamp:
		return n.text(v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return n.text(v.Duration.String())
	case traits.Lister:
		return n.list(v, depth)
	case traits.Mapper:
		return n.object(v, depth)
	}
	return nil, fmt.Errorf("gives a value of type %s, which JSON does not have", TypeName(v.Type()))
}

// text counts the bytes of a text, and returns the text.
func (n *jsonConverter) text(s string) (any, error) {
	if n.cuts && n.left < len(s) {
		s, n.left = strings.ToValidUTF8(s[:max(n.left, 0)], "")+n.mark, 0
		return s, nil
	}
	n.left -= len(s)
	if n.left < 0 {
		return nil, ErrTooLarge
	}
	return s, nil
}

// list converts a list.
func (n *jsonConverter) list(l traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := l.Iterator(); it.HasNext() == types.True && (!n.cuts || n.left > 0); {
		v, err := n.value(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// object converts a map. All of its keys must be strings; their bytes are counted too.
func (n *jsonConverter) object(m traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True && (!n.cuts || n.left > 0); {
		k := it.Next()
		if bad, is := k.(*types.Err); is {
			return nil, unread(bad)
		}
		key, ok := k.(types.String)
		if !ok {
			return nil, fmt.Errorf("gives an object with a key of type %s, which JSON does not have", TypeName(k.Type()))
		}
		if _, err := n.text(string(key)); err != nil { // counts it
			return nil, err
		}
		v, err := n.value(m.Get(k), depth+1)
		if err != nil {
			return nil, err
		}
		object[string(key)] = v
	}
	return object, nil
}

// unread is the error of a value in a lazy text that cannot be read. Texts of other errors may quote values.
func unread(v *types.Err) error {
	if bad, ok := errors.AsType[*scan.Error](v.Unwrap()); ok {
		return &Failure{Text: bad}
	}
	return &Failure{}
}
