package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// notDeciding are keys of a subscription that say nothing of what it does with an event that comes now.
var notDeciding = []string{"owners", "contact", "begin", "postgres"}

// Decides returns what decides about the events of a subscription and what is done for them, by the keys of the files: the subscription, the
// destinations of its actions, and of its sources what the stream uses. A value is as the file has it, with references that were not followed but
// for those to names and addresses; secrets are left out.
func (c *Config) Decides(team, subscription string) map[string]string {
	out := map[string]string{}
	add := func(path string, v any) {
		if n := c.node(reflect.ValueOf(v), path); n != nil {
			c.flatten(n, path, out)
		}
	}
	t := c.Teams[team]
	if t == nil || t.Subscriptions[subscription] == nil { // a reload has just taken it out
		return out
	}
	sub, path := t.Subscriptions[subscription], "teams."+team+".subscriptions."+subscription
	add(path, sub)
	for _, key := range notDeciding {
		for at := range out {
			if rest, ok := strings.CutPrefix(at, path+"."+key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				delete(out, at)
			}
		}
	}
	add("policy", c.Policy)
	add("teams."+team+".policy", t.Policy)
	for _, a := range sub.Actions {
		if d, ok := c.Destination(team, a.To); ok {
			add(d.Path(), d.Destination)
		}
	}
	if t.Budget != nil {
		add("teams."+team+".budget", t.Budget)
	}
	for _, s := range c.SourcesOf(team, subscription) {
		at := "teams." + s.Team + ".sources." + s.Name
		add(at+".topic", s.Topic)
		add(at+".thin", s.Thin)
		add(at+".backfill", s.Backfill)
	}
	return out
}

// flatten adds the scalars of a node, by their paths.
func (c *Config) flatten(n *yaml.Node, path string, out map[string]string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.flatten(n.Content[i+1], join(path, n.Content[i].Value), out)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			c.flatten(item, path+"["+itoa(i)+"]", out)
		}
	default:
		out[path] = n.Value
		if r := c.references[path]; r.shown {
			for value, reference := range r.led {
				out[path] = strings.ReplaceAll(out[path], reference, value)
			}
		}
	}
}
