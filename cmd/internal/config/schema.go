package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// reference is the schema of a reference, which may be written instead of any plain value.
var reference = map[string]any{"type": "string", "pattern": `\$\{(env|file):.+\}`}

// Schema returns the JSON Schema (2020-12) of the file, generated from the same declaration that decodes it.
func Schema() ([]byte, error) {
	root := schemaOf(reflect.TypeFor[Config](), field{})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://forebay.io/schemas/config-1.json"
	root["title"] = "Forebay configuration"
	data, err := json.MarshalIndent(root, "", "  ")
	return append(data, '\n'), err
}

// schemaOf returns the schema of a value of type t that f declares.
func schemaOf(t reflect.Type, f field) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), f)
	case isScalar(t):
		return describeField(scalarSchema(t, f), f)
	case t == teamsDirType:
		return describeField(map[string]any{"anyOf": []any{scalarSchema(reflect.TypeFor[string](), field{}), objectSchema(t)}}, f)
	case t == sourceSecretType:
		return describeField(map[string]any{"anyOf": []any{scalarSchema(secretType, field{}), objectSchema(t)}}, f)
	case t.Kind() == reflect.Slice:
		items := schemaOf(t.Elem(), field{values: f.values})
		return describeField(map[string]any{"type": "array", "items": items}, f)
	case t == headersType, t == envType:
		form, _ := secretNames(t)
		return describeField(map[string]any{
			"type": "object", "additionalProperties": scalarSchema(secretType, field{}),
			"propertyNames": map[string]any{"pattern": form.String()},
		}, f)
	case t == paramsType:
		return describeField(map[string]any{"type": "object"}, f)
	case t.Kind() == reflect.Map:
		return describeField(map[string]any{
			"type": "object", "additionalProperties": schemaOf(t.Elem(), field{}),
			"propertyNames": map[string]any{"pattern": nameForm.String()},
		}, f)
	}
	return describeField(objectSchema(t), f)
}

// objectSchema returns the schema of a struct: its keys, of which the required ones are required and no others allowed.
func objectSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range members(reflect.New(t).Elem()) {
		properties[m.name] = schemaOf(m.value.Type(), m.field)
		if m.required {
			required = append(required, m.name)
		}
	}
	switch t {
	case destinationType:
		sinkProperties(properties, sinkNames())
	case reflect.TypeFor[Receiver]():
		sinkProperties(properties, receiverTypes)
	case reflect.TypeFor[Config](): // shared destinations have teams
		shared := entriesOf(properties["destinations"])
		shared["required"] = append(shared["required"].([]string), "teams")
	case reflect.TypeFor[Team](): // a team's own have not
		delete(entriesOf(properties["destinations"])["properties"].(map[string]any), "teams")
	}
	object := map[string]any{
		"type": "object", "description": shapes[t].doc, "properties": properties, "additionalProperties": false,
	}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

// entriesOf returns the schema of the entries of a table, by the table's.
func entriesOf(table any) map[string]any {
	return table.(map[string]any)["additionalProperties"].(map[string]any)
}

// sinkProperties adds the keys that destinations and receivers have by their types. A key that several types have is of one kind in all of
// them (TestKeysOfSeveralTypes); its description says what it means for which types. The schema allows each key for every type; only the
// check of the file refuses one that its type does not have.
func sinkProperties(properties map[string]any, types []string) {
	for key, byType := range sinkKeys(types) {
		var property map[string]any
		var docs []string
		typesByDoc := map[string][]string{}
		for _, name := range keys(byType) {
			f := byType[name]
			property = schemaOf(valueOf(f).Type(), fieldOf(f))
			doc, _ := property["description"].(string)
			if typesByDoc[doc] == nil {
				docs = append(docs, doc)
			}
			typesByDoc[doc] = append(typesByDoc[doc], name)
		}
		for i, doc := range docs {
			docs[i] = strings.Join(typesByDoc[doc], ", ") + ": " + doc
		}
		property["description"] = strings.Join(docs, " ")
		properties[key] = property
	}
}

// scalarSchema returns the schema of a plain value. Wherever a reference may be written instead, it allows one.
func scalarSchema(t reflect.Type, f field) map[string]any {
	switch {
	case isDuration(t):
		return map[string]any{"type": "string", "pattern": `^\$\{|^([0-9]+d)?(([0-9]+(\.[0-9]+)?)(ns|us|µs|ms|s|m|h))*$|^0$`}
	case t == sizeType:
		return map[string]any{"anyOf": []any{
			map[string]any{"type": "integer", "minimum": f.minimum},
			map[string]any{"type": "string", "pattern": `^\$\{|^[0-9]+ ?([KMG]iB)?$`},
		}}
	case isNumber(t) && len(f.values) == 0:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": f.minimum}, reference}}
	case isNumber(t):
		return map[string]any{"enum": []any{json.RawMessage(f.values[0])}}
	case t == costType:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number", "exclusiveMinimum": 0}, reference}}
	case t == fractionType:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, reference}}
	case t.Kind() == reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, reference}}
	case len(f.values) > 0:
		return map[string]any{"anyOf": []any{map[string]any{"enum": f.values}, reference}}
	}
	return map[string]any{"type": []string{"string", "number"}}
}

// describeField adds what f declares to a schema: the doc and the default.
func describeField(s map[string]any, f field) map[string]any {
	if f.doc != "" {
		s["description"] = f.doc
	}
	if f.computed != "" {
		s["description"] = f.doc + " Default: " + f.computed + "."
	}
	if f.def != "" {
		s["default"] = f.def
	}
	return s
}
