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

// Also compiles a subscription's second key. The function that it returns is safe for concurrent use; an event whose key is an empty text has
// none, and an error says why the expression has no value for an event, and quotes nothing of it. Without a text it is nil. The text of
// Also's own error follows the name of a configuration key.
func Also(text string) (func(*schemas.Event) (gate.Also, error), error) {
	if text == "" {
		return nil, nil
	}
	key, err := AlsoText(text)
	if err != nil {
		return nil, err
	}
	return func(e *schemas.Event) (gate.Also, error) {
		text, err := key(e)
		if err != nil || text == "" {
			return gate.Also{}, err
		}
		return AlsoOf(text), nil
	}, nil
}

// AlsoOf returns the hash of a second key that is not empty.
func AlsoOf(text string) gate.Also {
	sum := sha256.Sum256([]byte(text))
	return gate.Also(sum[:len(gate.Also{})])
}

// AlsoText is [Also] for a text that there is, and gives the key as it is written.
func AlsoText(text string) (func(*schemas.Event) (string, error), error) {
	x, err := expression.Events.Compile(text, []*cel.Type{cel.StringType})
	if err != nil {
		return nil, err
	}
	if x.Reads("action.name") || x.Reads("action.to") {
		return nil, fmt.Errorf("reads action, and there is none yet")
	}
	return func(e *schemas.Event) (string, error) {
		in := expression.Input{Event: e}
		v, err := x.Eval(&in)
		if err != nil && in.Bad() != nil {
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
	}, nil
}
