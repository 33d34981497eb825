package record

import (
	"bytes"
	"encoding/base64"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay-io/forebay/schemas/scan"
)

// checkStructuredType refuses content types of structured mode other than JSON in UTF-8.
func checkStructuredType(ctype string) error {
	media, params, err := mime.ParseMediaType(ctype)
	if err != nil {
		return invalid("content-type is malformed")
	}
	if media != "application/cloudevents+json" {
		return invalid("content-type %s is not read on Kafka, only application/cloudevents+json", safe(media))
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return invalid("charset %s is not utf-8", safe(charset))
	}
	return nil
}

// readStructured reads an event of the JSON format into a and returns its data, never nil.
func readStructured(value []byte, a *attributes) ([]byte, error) {
	if !utf8.Valid(value) {
		return nil, invalid("structured event is not UTF-8")
	}
	if text := bytes.TrimLeft(value, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return nil, invalid("structured event is not an object")
	}
	seen := make(map[string]scan.Value)
	err := scan.Each(value, func(name string, v scan.Value) error {
		if _, twice := seen[name]; twice {
			return invalid("member %s is there twice", safe(name))
		}
		seen[name] = v
		if name == "data" || name == "data_base64" {
			return nil
		}
		return a.setJSON(name, v)
	})
	switch scan.ErrorReason(err) {
	case "":
	case scan.BadString:
		err = errSurrogate
	default:
		err = invalid("structured event is not JSON")
	}
	if err != nil {
		return nil, err
	}
	return a.data(seen["data"], seen["data_base64"])
}

// errSurrogate refuses an unpaired surrogate, which encoding/json would replace.
var errSurrogate = invalid("unpaired surrogate in a string")

// unquote returns the content of a JSON string.
func unquote(v scan.Value) (string, error) {
	text, ok := v.Content()
	if !ok {
		return "", errSurrogate
	}
	return text, nil
}

// setJSON stores an attribute from its JSON value; null is absent.
func (a *attributes) setJSON(name string, v scan.Value) error {
	switch v.Kind {
	case scan.Null:
		return nil
	case scan.String:
		text, err := unquote(v)
		if err != nil {
			return err
		}
		return a.set(name, []byte(text))
	case scan.Object, scan.Array:
		return invalid("attribute %s is an object or an array", safe(name))
	}
	if mustBeString(name) {
		return invalid("attribute %s is not a string", name)
	}
	if v.Kind == scan.Number {
		if _, err := strconv.ParseInt(v.Text(), 10, 32); err != nil {
			return invalid("attribute %s is not a 32-bit integer", safe(name))
		}
	}
	return a.set(name, v.Raw())
}

// mustBeString reports whether an attribute's JSON value must be a string: it must, unless it is an extension or one of ours that is a
// Boolean or an Integer.
func mustBeString(name string) bool {
	known, ok := attrsByName[name]
	if !ok {
		return false
	}
	switch known {
	case attrEntityDeleted, attrBackfill, attrVersionFirst, attrSecret:
		return false
	}
	return true
}

// data returns the event's data from the members data and data_base64, and sets datacontenttype where the format implies it. JSON is
// returned as it is in the event, other text without its quotes and escapes.
func (a *attributes) data(data, dataBase64 scan.Value) ([]byte, error) {
	encoded := dataBase64.Kind != scan.Absent && dataBase64.Kind != scan.Null
	if encoded {
		if data.Kind != scan.Absent {
			return nil, invalid("data and data_base64 are both there")
		}
		if dataBase64.Kind != scan.String {
			return nil, invalid("data_base64 is not a string")
		}
		text, err := unquote(dataBase64)
		if err != nil {
			return nil, err
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return nil, invalid("data_base64 is not base64")
		}
		return b, nil
	}
	if data.Kind == scan.Absent {
		return []byte{}, nil
	}
	ctype := a.known[attrDataContentType]
	if ctype == nil { // implied by the format
		a.known[attrDataContentType] = []byte("application/json")
		return data.Raw(), nil
	}
	if data.Kind == scan.String && !isJSON(string(ctype)) {
		text, err := unquote(data)
		return []byte(text), err
	}
	return data.Raw(), nil
}

// isJSON reports whether a content type declares JSON: a subtype json or ending in +json.
func isJSON(ctype string) bool {
	media, _, _ := strings.Cut(ctype, ";")
	_, sub, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	return sub == "json" || strings.HasSuffix(sub, "+json")
}
