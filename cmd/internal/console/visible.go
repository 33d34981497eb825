package console

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// visible returns a rendered page with every character written out as \uNNNN that would hide text or change its direction: control and
// format characters, line separators, what is not UTF-8. The templates have none of these, so they come from what somebody has sent. It is
// applied to the whole page, so that no template can forget it.
func visible(page []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(page))
	for len(page) > 0 {
		r, n := utf8.DecodeRune(page)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, page[0])
		case r == '\n' || r == '\t' || !hides(r):
			out.Write(page[:n])
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		page = page[n:]
	}
	return out.Bytes()
}

func hides(r rune) bool {
	return !(' ' <= r && r <= '~') && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) // most of a page is ASCII
}
