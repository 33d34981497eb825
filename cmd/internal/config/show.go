package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns the effective configuration: with every default filled in and secrets redacted, in declared order. [Load] takes it
// again once its secrets are written back.
func (c *Config) YAML() ([]byte, error) {
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(nodeOf(reflect.ValueOf(c).Elem()))
	if err == nil {
		err = enc.Close()
	}
	return []byte(b.String()), err
}

// Value returns the effective configuration as plain maps, for other output formats.
func (c *Config) Value() (any, error) {
	var v any
	err := nodeOf(reflect.ValueOf(c).Elem()).Decode(&v)
	return v, err
}

// nodeOf returns v as a YAML node; nil for a nil pointer, whose key is left out.
func nodeOf(v reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return nodeOf(v.Elem())
	case reflect.Map:
		if v.Type() == paramsType {
			return v.Interface().(Params).node()
		}
		return tableNode(v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, nodeOf(v.Index(i)))
		}
		return n
	case reflect.Struct:
		if !isScalar(v.Type()) {
			return structNode(v)
		}
	}
	return scalarNode(v)
}

// structNode returns a struct as a mapping. A key that is not written and has no declared default is left out.
func structNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range members(v) {
		if m.value.IsZero() && m.def == "" {
			continue
		}
		if c := nodeOf(m.value); c != nil {
			n.Content = append(n.Content, text(m.name), c)
		}
	}
	return n
}

// tableNode returns a map as a mapping, sorted by name.
func tableNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		n.Content = append(n.Content, text(name.String()), nodeOf(v.MapIndex(name)))
	}
	return n
}

// text returns a string as a node.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// scalarNode returns a plain value in the form in which it is written; a secret as <redacted>.
func scalarNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{}
	switch {
	case v.Type() == secretType:
		return text("<redacted>")
	case isDuration(v.Type()):
		return text(Duration(v.Int()).String())
	case v.Type() == networkType:
		return text(v.Interface().(netip.Prefix).String())
	case v.Type() == sizeType:
		return text(Size(v.Int()).String())
	case isNumber(v.Type()):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: itoa(int(v.Int()))}
	}
	if v.Kind() == reflect.Bool {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	}
	// Encode quotes what would read as another type, "yes" or "12".
	if err := n.Encode(v.String()); err != nil {
		return text(v.String())
	}
	return n
}
