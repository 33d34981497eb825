package expression

import (
	"bytes"
	"strconv"

	"github.com/forebay-io/forebay/schemas/scan"
)

// JSON reads a JSON text for expressions, as strictly as [scan.Tree], and with its errors.
func JSON(text []byte) (any, error) { return scan.Tree(text, maxValues, number) }

// number returns a JSON number as CEL has them: an integer exactly, as an int or, beyond those, a uint; a decimal as a double.
func number(text []byte) any {
	if !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return n
		}
		return bigNumber(text)
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return bigNumber(text)
	}
	return f
}
