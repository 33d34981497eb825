package config

import (
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/stream/sink"
)

// YAML returns the effective configuration with every default filled in, in declared order. What was written with references is
// shown as it was written, other secrets are redacted. It is to be read; it loads again once those are written back.
func (c *Config) YAML() ([]byte, error) { return c.encoded(c.node(reflect.ValueOf(c).Elem(), "")) }

// ForStrangers returns the effective configuration as [Config.YAML] does, for somebody who may not know what is in it: of a text that is no name
// and no address the references alone are shown, and of a URL where it leads to. A token may be written out anywhere in such a text.
func (c *Config) ForStrangers() ([]byte, error) {
	n := c.node(reflect.ValueOf(c).Elem(), "")
	c.redactTexts(n, reflect.ValueOf(c).Elem(), field{})
	return c.encoded(n)
}

func (c *Config) encoded(n *yaml.Node) ([]byte, error) {
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(n)
	if err == nil {
		err = enc.Close()
	}
	return []byte(b.String()), err
}

// redactTexts takes out of a node what [Config.ForStrangers] does not show. v is the value that the node is of, f its declaration.
func (c *Config) redactTexts(n *yaml.Node, v reflect.Value, f field) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case n.Kind == yaml.ScalarNode:
		if v.Kind() == reflect.String && !f.shown && len(f.values) == 0 {
			n.SetString(referencesOf(n.Value))
		}
	case v.Type() == paramsType:
		redactAll(n)
	case v.Kind() == reflect.Slice:
		for i, item := range n.Content {
			c.redactTexts(item, v.Index(i), f)
		}
	case v.Kind() == reflect.Map:
		for i := 0; i < len(n.Content); i += 2 {
			c.redactTexts(n.Content[i+1], v.MapIndex(reflect.ValueOf(n.Content[i].Value).Convert(v.Type().Key())), f)
		}
	case v.Kind() == reflect.Struct:
		for _, m := range members(v) {
			for i := 0; i < len(n.Content); i += 2 {
				if n.Content[i].Value == m.name {
					c.redactTexts(n.Content[i+1], m.value, m.field)
				}
			}
		}
	}
}

// redactAll takes every text out of a node.
func redactAll(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		n.SetString(referencesOf(n.Value))
		return
	}
	for i, item := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			redactAll(item)
		}
	}
}

var references = regexp.MustCompile(`\$\{(?:env|file):[^}]*\}`)

// referencesOf returns what of a text may be shown to anybody.
func referencesOf(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" && u.Scheme != "" && !strings.Contains(u.Host, "$") {
		return u.Scheme + "://" + u.Host + "/<redacted>"
	}
	if all := references.FindAllString(s, -1); strings.Join(all, "") == s {
		return s
	} else if len(all) > 0 {
		return "<redacted> " + strings.Join(all, " ")
	}
	return "<redacted>"
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
		if s, ok := reflect.TypeAssert[SourceSecret](v); ok && s.Expires == "" && !c.refers(path) {
			return text("<redacted>")
		}
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
	if v.Type() == costType {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: sink.Cost(v.Int()).String()}
	}
	if v.Type() == fractionType {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(v.Float(), 'f', -1, 64)}
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
