package scan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// checkString refuses the string that begins at start and ends before r.i if it is not valid Unicode.
func (r *reader) checkString(start int, escaped bool) error {
	content := r.b[start+1 : r.i-1]
	ok := utf8.Valid(content)
	if ok && escaped {
		_, ok = unescape(content)
	}
	if !ok {
		r.i = start
		return r.fail(BadString)
	}
	return nil
}

// unescape returns a string's content as text; ok is false if it is not valid UTF-8 or has an unpaired surrogate.
func unescape(content []byte) (text string, ok bool) {
	i := 0
	for i < len(content) && content[i] != '\\' {
		i++
	}
	if i == len(content) {
		return string(content), utf8.Valid(content)
	}
	out := make([]byte, i, len(content))
	copy(out, content)
	for i < len(content) {
		if content[i] != '\\' {
			out = append(out, content[i])
			i++
			continue
		}
		switch c := content[i+1]; c {
		case 'u':
			first, _ := hex4(content[i+2:])
			i += 6
			if !utf16.IsSurrogate(first) {
				out = utf8.AppendRune(out, first)
				continue
			}
			second, paired := lowSurrogate(content[i:])
			if first >= 0xdc00 || !paired {
				return "", false
			}
			out = utf8.AppendRune(out, utf16.DecodeRune(first, second))
			i += 6
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, c)
		}
		i += 2
	}
	return string(out), utf8.Valid(out)
}

// lowSurrogate reads the second half of a surrogate pair, which must be an escape too; false if b does not begin with one.
func lowSurrogate(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	c, ok := hex4(b[2:])
	return c, ok && 0xdc00 <= c && c <= 0xdfff
}

// hex4 reads four hex digits; false if b does not begin with them.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var c rune
	for _, d := range b[:4] {
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	return c, true
}
