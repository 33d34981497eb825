package expression

import "strings"

// End returns the index of the first stop that is outside the strings, comments and brackets of an expression; -1 if there is none.
func End(text, stop string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i += quoted(text, i) - 1
		case strings.HasPrefix(text[i:], "//"):
			line := strings.IndexByte(text[i:], '\n')
			if line < 0 {
				return -1
			}
			i += line
		case depth == 0 && strings.HasPrefix(text[i:], stop):
			return i
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(0, depth-1)
		}
	}
	return -1
}

// Split cuts a text at each operator that is outside its strings, comments and brackets.
func Split(text, operator string) (parts []string) {
	for {
		i := End(text, operator)
		if i < 0 {
			return append(parts, text)
		}
		parts, text = append(parts, text[:i]), text[i+len(operator):]
	}
}

// quoted returns the length of the string literal that begins at i, to the end of s if it is not closed.
func quoted(s string, i int) int {
	raw := false
	for j := i - 1; j >= 0 && i-j <= 2 && strings.IndexByte("rRbB", s[j]) >= 0; j-- { // r'', br'' and so on
		raw = raw || s[j]|0x20 == 'r'
	}
	quote := s[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s[i:], triple) {
		quote = triple
	}
	for j := i + len(quote); j < len(s); j++ {
		switch {
		case s[j] == '\\' && !raw:
			j++
		case strings.HasPrefix(s[j:], quote):
			return j + len(quote) - i
		}
	}
	return len(s) - i
}
