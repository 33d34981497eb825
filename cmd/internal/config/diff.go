package config

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Shown returns what the configuration has at each of the paths, in one line, as [Config.ForStrangers] shows it: the references of secrets, and no
// secret. It is empty where there is nothing.
func (c *Config) Shown(paths ...string) []string {
	root := c.node(reflect.ValueOf(c).Elem(), "")
	c.redactTexts(root, reflect.ValueOf(c).Elem(), field{})
	shown := make([]string, len(paths))
	for i, path := range paths {
		shown[i] = inLine(nodeAt(root, path))
	}
	return shown
}

// nodeAt returns the node at a path; nil if there is none.
func nodeAt(n *yaml.Node, path string) *yaml.Node {
	for path != "" && n != nil {
		path = strings.TrimPrefix(path, ".")
		if rest, ok := strings.CutPrefix(path, "["); ok {
			index, after, _ := strings.Cut(rest, "]")
			i, err := strconv.Atoi(index)
			if err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
				return nil
			}
			n, path = n.Content[i], after
			continue
		}
		n, path = memberOf(n, path)
	}
	return n
}

// memberOf returns the value of the key that a path begins with, and the rest of the path. A key may have dots.
func memberOf(n *yaml.Node, path string) (*yaml.Node, string) {
	if n.Kind != yaml.MappingNode {
		return nil, ""
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i].Value; below(path, key) {
			return n.Content[i+1], path[len(key):]
		}
	}
	return nil, ""
}

// inLine returns a node as one line.
func inLine(n *yaml.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind == yaml.ScalarNode:
		return n.Value
	}
	toFlow(n)
	text, err := yaml.Marshal(n)
	if err != nil {
		return "(it cannot be shown)"
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// toFlow has a node, and all in it, written in one line.
func toFlow(n *yaml.Node) {
	n.Style, n.HeadComment = n.Style|yaml.FlowStyle, ""
	for _, c := range n.Content {
		toFlow(c)
	}
}
