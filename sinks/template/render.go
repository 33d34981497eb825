package template

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/stream/sink"
)

// maxAll bounds what all parameters of an action weigh together, in bytes.
const maxAll = 1 << 20

// Values are an action's parameters, by name. One that was null, or not given, is not in it.
type Values map[string]any

// Text returns a parameter of kind Text; "" if there is none.
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Texts returns a parameter of kind Texts.
func (v Values) Texts(name string) []string { l, _ := v[name].([]string); return l }

// Render makes the parameters of an action. The error is a [sink.AttemptError] of class template that names a
// parameter and quotes nothing of the event.
func (p *Params) Render(a sink.Action) (Values, error) {
	in := newInput(a)
	values := Values{}
	for _, d := range p.declared {
		v, err := d.render(p.nodes, in)
		if err == nil && d.Required && (v == nil || v == "") {
			err = errors.New("is null, empty or not given, and needed")
		}
		if err != nil {
			return nil, &sink.AttemptError{Class: sink.ClassTemplate, Err: fmt.Errorf("params.%s %w", d.Name, err), Untouched: true}
		}
		if v != nil {
			values[d.Name] = v
		}
	}
	return values, nil
}

// render returns the value of one parameter; nil if it is null or not given.
func (d Param) render(nodes map[string]node, in *input) (any, error) {
	n, given := nodes[d.Name]
	if !given {
		return nil, nil
	}
	v, err := n.value(in)
	if err != nil || v == nil {
		return nil, err
	}
	switch d.Kind {
	case Text:
		s, err := written(v)
		if err == nil {
			err = d.judge(s)
		}
		return s, err
	case Texts:
		return texts(v)
	case List:
		if _, ok := v.([]any); !ok {
			return nil, errors.New("is not a list")
		}
	case Object:
		if _, ok := v.(map[string]any); !ok {
			return nil, errors.New("is not an object")
		}
	}
	return v, nil
}

// texts returns a list's elements as strings. It leaves out what is null: so a template can omit an element.
func texts(v any) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("is not a list")
	}
	out := []string{}
	for i, element := range list {
		if element == nil {
			continue
		}
		s, err := written(element)
		if err != nil {
			return nil, fmt.Errorf("[%d] %w", i, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// value renders a node for one event.
func (n node) value(in *input) (any, error) {
	switch {
	case n.text != nil:
		v, err := n.text.value(in)
		if err == nil {
			err = in.weigh(v)
		}
		return v, err
	case n.list != nil:
		list := make([]any, len(n.list))
		for i, e := range n.list {
			v, err := e.value(in)
			if err != nil {
				return nil, fmt.Errorf("[%d] %w", i, err)
			}
			list[i] = v
		}
		return list, nil
	case n.object != nil:
		object := make(map[string]any, len(n.object))
		for name, e := range n.object {
			v, err := e.value(in)
			if err != nil {
				return nil, fmt.Errorf(".%s %w", name, err)
			}
			object[name] = v
		}
		return object, nil
	}
	return n.literal, nil
}

// weigh charges a value that a template made.
func (in *input) weigh(v any) error {
	if in.left -= weight(v); in.left < 0 {
		return fmt.Errorf("is too large: all parameters together have at most %d bytes", maxAll)
	}
	return nil
}

// weight returns how much a value weighs: one for each value in it, and the bytes of its texts.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v)
	case json.Number:
		n += len(v)
	case []any:
		for _, e := range v {
			n += weight(e)
		}
	case map[string]any:
		for name, e := range v {
			n += len(name) + weight(e)
		}
	}
	return n
}
