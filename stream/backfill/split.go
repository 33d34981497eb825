package backfill

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas/scan"
)

// errLimit ends a walk over elements.
var errLimit = errors.New("more elements than the limit")

// split takes an answer apart: what items points to is one element where it is an object, many where it is an array, none
// where it is null. Each element is its bytes in the answer. At most limit come back, and more says that there were others.
func split(body []byte, items *scan.Set, limit int) (elements [][]byte, more bool, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, false, nil // 204
	}
	values, err := items.Scan(body, nil)
	if err != nil {
		return nil, false, fmt.Errorf("the answer is not JSON that can be read: %w", err)
	}
	switch at := values[0]; at.Kind {
	case scan.Object:
		return [][]byte{at.Raw()}, false, nil
	case scan.Null:
		return nil, false, nil
	case scan.Array:
		err = scan.Each(at.Raw(), func(_ string, v scan.Value) error {
			if more = len(elements) == limit; more {
				return errLimit
			}
			elements = append(elements, v.Raw())
			return nil
		})
		if more {
			err = nil
		}
		return elements, more, err
	case scan.Absent:
		return nil, false, errors.New("no elements: nothing stands where items points to")
	}
	return nil, false, errors.New("no elements: the answer is neither an object nor an array there")
}
