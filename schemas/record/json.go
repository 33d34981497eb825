package record

import (
	"encoding/json"
	"strconv"
)

// members calls f with the raw name and the raw value of each member of the object in value, which is valid JSON. It
// exists because encoding/json takes the last of two equal names without a word.
func members(value []byte, f func(name, value []byte) error) error {
	i := space(value, 0)
	if value[i] != '{' {
		return invalid("structured event is not an object")
	}
	for i = space(value, i+1); value[i] != '}'; {
		name := value[i:skip(value, i)]
		i = space(value, i+len(name)) // at the colon
		i = space(value, i+1)
		end := skip(value, i)
		if err := f(name, value[i:end:end]); err != nil {
			return err
		}
		if i = space(value, end); value[i] == ',' {
			i = space(value, i+1)
		}
	}
	return nil
}

func space(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// skip is the index behind the value that starts at i.
func skip(b []byte, i int) int {
	depth := 0
	for ; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			for i < len(b) && !delimiter(b[i]) { // number, true, false, null
				i++
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
}

func delimiter(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// unquote reads a JSON string, refusing the unpaired surrogates that encoding/json replaces.
func unquote(raw []byte) (string, error) {
	high := false
	for i := 1; i < len(raw)-1; i++ {
		unit := uint64(0)
		if raw[i] == '\\' {
			if i++; raw[i] == 'u' {
				unit, _ = strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
				i += 4
			}
		}
		low := 0xDC00 <= unit && unit < 0xE000
		if low != high {
			return "", invalid("unpaired surrogate in a string")
		}
		high = 0xD800 <= unit && unit < 0xDC00
	}
	if high {
		return "", invalid("unpaired surrogate in a string")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", invalid("malformed string")
	}
	return s, nil
}
