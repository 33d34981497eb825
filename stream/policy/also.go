package policy

import (
	"crypto/sha256"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/gate"
)

// AlsoOf returns the hash of a second key that is not empty.
func AlsoOf(text string) gate.Also {
	sum := sha256.Sum256([]byte(text))
	return gate.Also(sum[:len(gate.Also{})])
}

// AlsoText compiles a second key that there is. The function that it returns is safe for concurrent use and gives an event's key as it is written,
// empty for none; its error says why the expression has no value for the event, and quotes nothing of it. The text of AlsoText's own error follows
// the name of a configuration key.
func AlsoText(text string) (func(*schemas.Event) (string, error), error) {
	x, err := alsoKey(text)
	if err != nil {
		return nil, err
	}
	return func(e *schemas.Event) (string, error) { return alsoText(x, &expression.Input{Event: e}) }, nil
}

func alsoKey(text string) (*expression.Expression, error) {
	x, err := expression.Events.Compile(text, []*cel.Type{cel.StringType})
	if err != nil {
		return nil, err
	}
	if x.Reads("action.name") || x.Reads("action.to") {
		return nil, fmt.Errorf("reads action, and there is none yet")
	}
	return x, nil
}

func alsoText(x *expression.Expression, in *expression.Input) (string, error) {
	v, err := x.Eval(in)
	if err != nil && in.Bad() != nil && x.Reads("body") {
		err = in.Bad()
	}
	key, is := v.(types.String)
	switch {
	case err != nil:
		return "", fmt.Errorf("dedupe.also.key %w", err)
	case !is:
		return "", fmt.Errorf("dedupe.also.key is no text")
	}
	return string(key), nil
}
