package record

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
	if !json.Valid(value) {
		return nil, invalid("structured event is not JSON")
	}
	var data, dataBase64 []byte
	seen := make(map[string]bool)
	err := members(value, func(rawName, raw []byte) error {
		name, err := unquote(rawName)
		if err != nil {
			return err
		}
		if seen[name] {
			return invalid("member %s is there twice", safe(name))
		}
		seen[name] = true
		switch name {
		case "data":
			data = raw
			return nil
		case "data_base64":
			dataBase64 = raw
			return nil
		}
		return a.setJSON(name, raw)
	})
	if err != nil {
		return nil, err
	}
	return a.data(data, dataBase64)
}

// setJSON stores an attribute from its JSON value; null is absent.
func (a *attributes) setJSON(name string, raw []byte) error {
	switch raw[0] {
	case 'n':
		return nil
	case '"':
		text, err := unquote(raw)
		if err != nil {
			return err
		}
		return a.set(name, []byte(text))
	case '{', '[':
		return invalid("attribute %s is an object or an array", safe(name))
	}
	if required(name) {
		return invalid("attribute %s is not a string", name)
	}
	if raw[0] != 't' && raw[0] != 'f' {
		if _, err := strconv.ParseInt(string(raw), 10, 32); err != nil {
			return invalid("attribute %s is not a 32-bit integer", safe(name))
		}
	}
	return a.set(name, raw)
}

// required names the attributes whose type is String: everything of CloudEvents itself.
func required(name string) bool {
	known, ok := attrsByName[name]
	if !ok {
		return false
	}
	switch known {
	case attrEntityDeleted, attrBackfill, attrVersionFirst:
		return false
	}
	return true
}

func (a *attributes) data(data, dataBase64 []byte) ([]byte, error) {
	if string(dataBase64) == "null" {
		dataBase64 = nil
	}
	if data != nil && dataBase64 != nil {
		return nil, invalid("data and data_base64 are both there")
	}
	if dataBase64 != nil {
		if dataBase64[0] != '"' {
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
	if data == nil {
		return []byte{}, nil
	}
	ctype := a.known[attrDataContentType]
	if ctype == nil { // implied by the format
		a.known[attrDataContentType] = []byte("application/json")
		return data, nil
	}
	if data[0] == '"' && !isJSON(string(ctype)) {
		text, err := unquote(data)
		return []byte(text), err
	}
	return data, nil
}

// isJSON reports whether a content type declares JSON: a subtype json or ending in +json.
func isJSON(ctype string) bool {
	media, _, _ := strings.Cut(ctype, ";")
	_, sub, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	return sub == "json" || strings.HasSuffix(sub, "+json")
}
