package backfill

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas/scan"
)

// errLimit ends a walk over elements.
var errLimit = errors.New("more elements than the limit")

// split returns the elements of an answer, each as its bytes in body: one if items points to an object, those of the array if it points
// to one, none if it points to null or body is empty. It returns at most limit; more says that there were others.
func split(body []byte, items *scan.Set, limit int) (elements [][]byte, more bool, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, false, nil // 204
	}
	values, err := items.Scan(body, nil)
	if err != nil {
		return nil, false, fmt.Errorf("the answer is not JSON that can be read: %w", err)
	}
	switch found := values[0]; found.Kind {
	case scan.Object:
		return [][]byte{found.Raw()}, false, nil
	case scan.Null:
		return nil, false, nil
	case scan.Array:
		err = scan.Each(found.Raw(), func(_ string, v scan.Value) error {
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
		return nil, false, errors.New("no elements: the answer has nothing where items points to")
	}
	return nil, false, errors.New("no elements: the answer is neither an object nor an array there")
}
