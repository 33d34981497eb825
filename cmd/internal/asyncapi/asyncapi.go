// Package asyncapi writes what a configuration's topics carry as a document of AsyncAPI 3.0, for tools that show, generate from or compare
// such documents. The application that it describes is Forebay: it sends events, quarantined deliveries and dead letters, and receives
// events for its subscriptions.
package asyncapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// object is a JSON object.
type object = map[string]any

// Document returns the document, to be written as JSON or YAML. version is that of info.
func Document(c *config.Config, version string) (map[string]any, error) {
	d := &document{c: c, channels: object{}, operations: object{}, messages: object{}}
	for _, t := range topics.Wanted(c, c.MaxBody) {
		d.channels[t.Name] = object{"address": t.Name, "bindings": object{"kafka": object{
			"topic": t.Name, "partitions": t.Partitions, "replicas": t.Replication, "bindingVersion": "0.5.0"}}}
	}
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Sources)) {
			if err := d.source(team, name); err != nil {
				return nil, fmt.Errorf("source %s/%s: %w", team, name, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Subscriptions)) {
			d.subscription(team, name)
		}
	}
	return object{
		"asyncapi": "3.0.0", "defaultContentType": "application/json",
		"info": object{"title": "Events of Forebay", "version": version,
			"description": "CloudEvents in binary mode: attributes are headers of the Kafka record (ce_*), the value is the provider's body as it came, the key is the entity."},
		"servers": d.servers(), "channels": d.channels, "operations": d.operations,
		"components": object{"messages": d.messages},
	}, nil
}

type document struct {
	c                              *config.Config
	channels, operations, messages object
}

func (d *document) servers() object {
	servers, protocol := object{}, "kafka"
	if tls := d.c.Kafka.TLS; tls != nil && tls.Enabled {
		protocol = "kafka-secure"
	}
	for i, broker := range d.c.Kafka.Brokers {
		if strings.Contains(broker, "${") {
			continue // a reference, which is not followed for this
		}
		servers[fmt.Sprintf("broker%d", i+1)] = object{"host": broker, "protocol": protocol}
	}
	return servers
}

// source describes a source's topic and its quarantine.
func (d *document) source(team, name string) error {
	s := d.c.Teams[team].Sources[name]
	full := team + "." + name
	if s.JSONSchema.Own != "" {
		own, err := jsonschema.Parse([]byte(s.JSONSchema.Own))
		if err != nil {
			return fmt.Errorf("json_schema.own %w", err)
		}
		d.carries(s.Topic, full, d.message(full, "Events of "+team+"/"+name, own))
	} else {
		for _, schema := range catalogueOf(s) {
			d.carries(s.Topic, schema.Name(), d.message(schema.Name(), schema.Title, schema))
		}
	}
	// Types without a schema, bodies that nobody has described, and those that do not fit (check: off, warn) or were too much to check.
	d.carries(s.Topic, "event", d.message("event", "Any other event", nil))
	d.sends(full, s.Topic, "Deliveries that became events")
	quarantine := topics.Quarantine(team, name)
	d.carries(quarantine, "forebay.quarantine", d.record("forebay.quarantine"))
	d.sends("quarantine."+full, quarantine, "Authentic deliveries that could not become events")
	return nil
}

// catalogueOf returns the catalogue's schemas for what a source's preset knows.
func catalogueOf(s *config.Source) (all []*jsonschema.Schema) {
	known, _ := provider.Config{Preset: s.Preset, Event: s.Event}.Types()
	for _, schema := range jsonschema.All() {
		if slices.ContainsFunc(schema.Types, func(t string) bool {
			return slices.ContainsFunc(known, func(k string) bool { return provider.GlobsMeet(t, k) })
		}) {
			all = append(all, schema)
		}
	}
	return all
}

// subscription describes what a subscription reads, and its dead letters.
func (d *document) subscription(team, name string) {
	full := team + "." + name
	for _, s := range d.c.SourcesOf(team, name) {
		d.operations[full+".reads."+s.Team+"."+s.Name] = object{"action": "receive", "channel": reference("channels", s.Topic),
			"summary":  "Subscription " + team + "/" + name,
			"bindings": object{"kafka": object{"groupId": object{"type": "string", "enum": []string{full}}, "bindingVersion": "0.5.0"}}}
	}
	dead := "dead." + full
	d.carries(dead, "forebay.deadletter", d.record("forebay.deadletter"))
	d.sends(dead, dead, "Actions that were given up, with the event")
}

func (d *document) carries(topic, key string, message object) {
	channel := d.channels[topic].(object)
	messages, _ := channel["messages"].(object)
	if messages == nil {
		messages = object{}
		channel["messages"] = messages
	}
	messages[key] = message
}

func (d *document) sends(name, topic, summary string) {
	d.operations[name+".sent"] = object{"action": "send", "channel": reference("channels", topic), "summary": summary}
}

func reference(section, name string) object {
	return object{"$ref": "#/" + section + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")}
}

// message adds an event whose body a schema describes, and returns the reference to it; without a schema it can be anything.
func (d *document) message(name, title string, schema *jsonschema.Schema) object {
	m := object{"name": name, "title": title, "headers": eventHeaders(),
		"bindings": object{"kafka": object{"key": object{"type": "string", "description": "The entity."}, "bindingVersion": "0.5.0"}}}
	if schema != nil {
		m["payload"] = payload(schema, "#/components/messages/"+name+"/payload/schema")
		if len(schema.Types) > 0 {
			m["summary"] = "Types: " + strings.Join(schema.Types, ", ")
		}
	}
	d.messages[name] = m
	return reference("components/messages", name)
}

// record adds a record of our own, whose schema is about its headers.
func (d *document) record(name string) object {
	schema, _ := jsonschema.Lookup(name)
	d.messages[name] = object{"name": name, "title": schema.Title, "headers": payload(schema, "")}
	return reference("components/messages", name)
}

// eventHeaders are the headers that every event has, and those that say how a consumer has to take it. Others are in the package schemas/record.
func eventHeaders() object {
	text := object{"type": "string"}
	properties := object{"ce_specversion": object{"const": "1.0"}}
	required := []string{"ce_specversion"}
	for _, name := range []string{"id", "source", "type", "time", "subject", "partitionkey", "recordedtime", "versionkind", "payloadkind", "bodyhash"} {
		properties["ce_"+name] = text
		required = append(required, "ce_"+name)
	}
	for _, name := range []string{"entityversion", "versionclock", "versionfirst", "backfill", "entitydeleted", "contentencoding", "dataschema"} {
		properties["ce_"+name] = text
	}
	return object{"type": "object", "required": required, "properties": properties}
}

// since2019 are keywords that AsyncAPI's own schemas, which are those of draft 7, do not have or read in another way.
var since2019 = []string{"$ref", "$defs", "$anchor", "prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
	"minContains", "maxContains"}

// payload returns a schema as AsyncAPI takes it: as one of its own where that says the same, else with its dialect named, and its references
// beginning at place, where it stands in the document.
func payload(s *jsonschema.Schema, place string) object {
	var tree object
	if err := json.Unmarshal(s.Text(), &tree); err != nil {
		return object{} // it was parsed before
	}
	if s.ID != "" {
		tree["x-schema-id"] = s.ID // $id would be where references of the document begin
	}
	delete(tree, "$id")
	delete(tree, "$schema")
	switch {
	case !uses(tree, since2019):
		return tree
	case !moved(tree, place):
		return object{"x-schema-id": s.ID, "description": "Its schema refers to places in it by ids or anchors, which do not work inside of another document."}
	}
	return object{"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": tree}
}

// moved changes the references in a schema to what they lead to in a document that has it at place. It returns false for references that are
// no JSON Pointers.
func moved(value any, place string) bool {
	switch v := value.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			if !strings.HasPrefix(ref, "#/") {
				return false
			}
			v["$ref"] = place + ref[1:]
		}
		for _, inner := range v {
			if !moved(inner, place) {
				return false
			}
		}
	case []any:
		for _, inner := range v {
			if !moved(inner, place) {
				return false
			}
		}
	}
	return true
}

// uses reports whether one of the keys is anywhere in a value.
func uses(value any, keys []string) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if slices.Contains(keys, key) || uses(inner, keys) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return uses(inner, keys) })
	}
	return false
}
