package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns the effective configuration with every default filled in, in declared order. What was written with references is
// shown as it was written, other secrets are redacted. It is to be read; it loads again once those are written back.
func (c *Config) YAML() ([]byte, error) {
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(c.node(reflect.ValueOf(c).Elem(), ""))
	if err == nil {
		err = enc.Close()
	}
	return []byte(b.String()), err
}

// Value returns the effective configuration as plain maps, for other output formats.
func (c *Config) Value() (any, error) {
	var v any
	err := c.node(reflect.ValueOf(c).Elem(), "").Decode(&v)
	return v, err
}

// node returns what stands at a path as a YAML node; nil leaves a key out.
func (c *Config) node(v reflect.Value, path string) *yaml.Node {
	if written, ok := c.written(path); ok {
		return text(written)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return c.node(v.Elem(), path)
	case reflect.Map:
		if v.Type() == paramsType {
			return v.Interface().(Params).node()
		}
		return c.tableNode(v, path)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, c.node(v.Index(i), path+"["+itoa(i)+"]"))
		}
		return n
	case reflect.Struct:
		if !isScalar(v.Type()) {
			return c.structNode(v, path)
		}
	}
	return scalarNode(v)
}

// structNode returns a struct as a mapping. A key that is not written and has no declared default is left out.
func (c *Config) structNode(v reflect.Value, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range members(v) {
		at := join(path, m.name)
		if m.value.IsZero() && m.def == "" && !c.refers(at) {
			continue
		}
		if value := c.node(m.value, at); value != nil {
			n.Content = append(n.Content, text(m.name), value)
		}
	}
	if times := c.timesOf(v, path); times != "" {
		n.Content[0].HeadComment = times
	}
	return n
}

// tableNode returns a map as a mapping, sorted by name.
func (c *Config) tableNode(v reflect.Value, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		n.Content = append(n.Content, text(name.String()), c.node(v.MapIndex(name), join(path, name.String())))
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
