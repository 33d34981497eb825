package backfill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON Pointer (RFC 6901) as its tokens.
type pointer []string

func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, errors.New("items is not a JSON Pointer such as /data/items")
	}
	tokens := strings.Split(text[1:], "/")
	for i, t := range tokens {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(t)
		if strings.Contains(plain, "~") {
			return nil, errors.New("items is not a JSON Pointer: ~ stands before 0 or 1 only")
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, nil
}

// errNoItems: the pointer leads nowhere, or to something that has no elements.
var errNoItems = errors.New("no elements")

// split takes an answer apart: an object is one element, an array many, null none. Each element is its bytes in the
// answer. At most limit come back, and more says that there were others.
func split(body []byte, items pointer, limit int) (elements [][]byte, more bool, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, false, nil // 204
	}
	if !json.Valid(body) {
		return nil, false, errors.New("the answer is not JSON")
	}
	at := json.RawMessage(body)
	for i, token := range items {
		if at, err = step(at, token); err != nil {
			return nil, false, fmt.Errorf("%w: %w at token %d of items", errNoItems, err, i+1)
		}
	}
	switch at = bytes.TrimSpace(at); at[0] {
	case '{':
		return [][]byte{at}, false, nil
	case 'n':
		return nil, false, nil
	case '[':
	default:
		return nil, false, fmt.Errorf("%w: the answer is neither an object nor an array there", errNoItems)
	}
	err = each(at, func(_ string, value json.RawMessage) bool {
		if more = len(elements) == limit; !more {
			elements = append(elements, value)
		}
		return !more
	})
	return elements, more, err
}

// step goes down one token. A name that is there twice is refused: other readers would take the other one.
func step(at json.RawMessage, token string) (found json.RawMessage, err error) {
	at = bytes.TrimSpace(at)
	if at[0] != '{' && at[0] != '[' {
		return nil, errors.New("no object or array")
	}
	twice, n := false, 0
	err = each(at, func(name string, value json.RawMessage) bool {
		if at[0] == '[' {
			name = strconv.Itoa(n)
			n++
		}
		if name == token {
			twice = twice || found != nil
			found = value
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, errors.New("no such name")
	case twice:
		return nil, errors.New("the name is there twice")
	}
	return found, nil
}

// each visits the members of the object, or the elements of the array, in value, which is valid JSON, until visit says
// no.
func each(value json.RawMessage, visit func(name string, value json.RawMessage) bool) error {
	d := json.NewDecoder(bytes.NewReader(value))
	open, err := d.Token()
	if err != nil {
		return err
	}
	for d.More() {
		name := ""
		if open == json.Delim('{') {
			t, err := d.Token()
			if err != nil {
				return err
			}
			name, _ = t.(string)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		if !visit(name, v) {
			return nil
		}
	}
	return nil
}
