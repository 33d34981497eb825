package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Params are the parameters of a sink. Their values are paramText, bool, int64 or json.Number, and []any and map[string]any of these.
type Params map[string]any

// paramText is a text of params: value is what it is with its references resolved, which may be a secret and is never shown; written
// is what the file has.
type paramText struct{ value, written string }

// Values returns the parameters as sinks/template compiles them.
func (p Params) Values() map[string]any {
	if p == nil {
		return nil
	}
	return plain(map[string]any(p)).(map[string]any)
}

// plain returns a copy of v with the resolved text in place of each paramText.
func plain(v any) any {
	switch v := v.(type) {
	case paramText:
		return v.value
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name := range v {
			object[name] = plain(v[name])
		}
		return object
	}
	return v
}

// params decodes the parameters of a destination or an action.
func (d *decoder) params(n *yaml.Node, path string, v reflect.Value) {
	if object, ok := d.param(n, path).(map[string]any); ok {
		v.Set(reflect.ValueOf(Params(object)))
	} else if n.Kind != yaml.MappingNode {
		d.problem(n, path, "expected a mapping (name: value), found %s", describe(n))
	}
}

// param returns the value of a parameter, or of a part of one; nil after a problem.
func (d *decoder) param(n *yaml.Node, path string) any {
	d.places[path] = place{d.file, n.Line}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.problem(n, path, "anchors and aliases are not supported; write the value out")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		d.pairs(n, path, func(key string, k, value *yaml.Node) {
			at := join(path, key)
			object[key] = d.param(value, at)
			d.places[at] = place{d.file, k.Line}
		})
		return object
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = d.param(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return list
	}
	v, err := d.paramScalar(n, path)
	if err != nil {
		d.problem(n, path, "%v", err)
		d.unresolved[path] = true // the checks leave out what is already reported
		return nil
	}
	return v
}

// paramScalar returns a plain value by the type that YAML gives it. Numbers that are no int64 stay as they are written.
func (d *decoder) paramScalar(n *yaml.Node, path string) (any, error) {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return d.paramText(n, path)
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", nil
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i, nil
		}
		fallthrough
	case "!!float":
		if !json.Valid([]byte(n.Value)) {
			return nil, fmt.Errorf("%s is not a number as JSON has them", clip(n.Value))
		}
		return json.Number(n.Value), nil
	case "!!null":
		return nil, fmt.Errorf("has no value; an expression gives null: {{null}}")
	}
	return nil, fmt.Errorf("tag %s is not supported", n.Tag)
}

// paramText returns a text. Its references are resolved if a role of this process uses it.
func (d *decoder) paramText(n *yaml.Node, path string) (any, error) {
	t := paramText{n.Value, n.Value}
	if !hasReference(n.Value) {
		d.counted(n, path, inBraces(n.Value))
		return t, nil
	}
	if err := d.env.refused(n.Value); err != nil {
		return nil, err
	}
	if !d.uses(path) {
		d.unresolved[path] = true
		return t, nil
	}
	value, led, err := d.env.expand(n.Value)
	t.value = value
	d.counted(n, path, inBraces(value))
	d.refer(path, n.Value, led, false)
	return t, err
}

// node returns the parameters as they were written.
func (p Params) node() *yaml.Node { return paramNode(map[string]any(p)) }

// paramNode returns the value of a parameter, or a part of it, as YAML; a text as it is in the file, before references are resolved. What is
// none of the cases is an object.
func paramNode(v any) *yaml.Node {
	switch v := v.(type) {
	case paramText:
		return text(v.written)
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v, 10)}
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: string(v)}
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, e := range v {
			n.Content = append(n.Content, paramNode(e))
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	object, _ := v.(map[string]any)
	for _, name := range keys(object) {
		n.Content = append(n.Content, text(name), paramNode(object[name]))
	}
	return n
}

// references reports whether the parameter at a key such as blocks[0].text is a text with references in it. It is also true if the key
// cannot be followed, since a name has a dot in it: what might be a secret is not shown.
func (p Params) references(key string) bool {
	v := any(map[string]any(p))
	for step := range strings.SplitSeq(strings.NewReplacer("[", ".", "]", "").Replace(key), ".") {
		switch around := v.(type) {
		case map[string]any:
			v = around[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(around) {
				return true
			}
			v = around[i]
		}
		if v == nil {
			return true
		}
	}
	t, ok := v.(paramText)
	return ok && t.value != t.written
}

// led reports whether a text in v has references in it.
func led(v any) bool {
	switch v := v.(type) {
	case paramText:
		return v.value != v.written
	case []any:
		return slices.ContainsFunc(v, led)
	case map[string]any:
		return slices.ContainsFunc(keys(v), func(name string) bool { return led(v[name]) })
	}
	return false
}
