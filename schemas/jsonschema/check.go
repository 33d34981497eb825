package jsonschema

import (
	"errors"
	"fmt"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/forebay-io/forebay/schemas/scan"
)

// Bounds of a check: a tenth of a second at the very worst, and some ten MB. An event of the catalogue takes a few hundred steps.
const (
	Budget    = 5_000_000 // steps
	MaxBody   = 1 << 20   // bytes
	maxValues = 100_000   // a tree takes much more memory than its text
	// A pattern goes over a byte in much less time than a schema over a value.
	bytesPerStep = 16
)

// Verdict says whether a body fits a schema.
type Verdict string

const (
	Fits      Verdict = "fits"
	Misfit    Verdict = "misfit"
	Unchecked Verdict = "unchecked" // the check would take too much
)

// Check holds a body against the schema. why is empty where it fits; it has names of fields, and no values.
func (s *Schema) Check(body []byte) (verdict Verdict, why string) {
	defer func() {
		if p := recover(); p != nil { // of the validator: a fault of it must not keep a delivery from being taken
			verdict, why = Unchecked, fmt.Sprintf("the check itself failed: %T", p)
		}
	}()
	if len(body) > MaxBody {
		return Unchecked, fmt.Sprintf("the body has %d bytes, and only up to %d are checked", len(body), MaxBody)
	}
	left := Budget - s.cost.once - s.cost.bytes*(len(body)/bytesPerStep)
	if left <= 0 {
		return Unchecked, "the patterns of the schema would take too long on a body of this size"
	}
	value, err := scan.Tree(body, min(maxValues, left/max(s.cost.each, 1)), number)
	switch {
	case scan.ErrorReason(err) == scan.TooMany:
		return Unchecked, "the body has more values than the schema can be held against in time"
	case err != nil:
		return Misfit, "is no JSON: " + err.Error()
	}
	if err := s.compiled.Validate(value); err != nil {
		if found, ok := errors.AsType[*validator.ValidationError](err); ok {
			return Misfit, problemOf(found)
		}
		return Misfit, shown(err.Error())
	}
	return Fits, ""
}
