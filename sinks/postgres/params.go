package postgressink

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// Params declares the parameters of a statement.
func Params() []template.Param {
	return []template.Param{
		{Name: "values", Doc: "List of the values of $1, $2, ...; null is NULL, lists and objects are JSON.", Kind: template.List},
	}
}

// bind makes the statement's parameters of an action.
func bind(params *template.Set, a sink.Action) ([][]byte, error) {
	values, err := params.Render(a)
	if err != nil {
		return nil, err
	}
	list, given := values["values"].([]any)
	if !given {
		return nil, nil
	}
	bound := make([][]byte, len(list))
	for i, v := range list {
		if bound[i], err = text(v); err != nil {
			return nil, unmade(fmt.Errorf("params.values[%d] cannot be written: %w", i, err))
		}
	}
	return bound, nil
}

func unmade(err error) error {
	return &sink.AttemptError{Class: sink.ClassTemplate, Err: err, Untouched: true}
}

// withoutNUL returns a value with another character for each NUL in its texts: neither a text of Postgres nor jsonb takes one.
func withoutNUL(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "\ufffd")
	case []any:
		for i := range v {
			v[i] = withoutNUL(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, of := range v {
			clean[strings.ReplaceAll(name, "\x00", "\ufffd")] = withoutNUL(of)
		}
		return clean
	}
	return v
}

// text returns a value as Postgres reads it; nil is NULL.
func text(v any) ([]byte, error) {
	switch v := withoutNUL(v).(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil // never nil: an empty text is no NULL
	}
	return json.Marshal(v)
}
