package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// forms are the texts that are looked for, by their first bytes in lower case: secrets as they are, with the spaces of a query, in hex, each in
// whatever case, and in base64. Percent-encoding, the escapes of JSON, the entities of HTML and quoted-printable have too many spellings to be
// listed: the text that is searched is decoded instead. A + is not, for most are what they are.
type forms struct {
	begin [256]bool // whether any form begins with this byte
	by    map[[minSecret]byte][]form
}

type form struct {
	text, name string
	base64     bool
}

// add adds a secret, as it is and with + for its spaces, and what of its base64 is the same whatever stands around it: at each of the
// three places where it may begin.
func (f *forms) add(text, name string) {
	f.put(form{text: text, name: name})
	f.put(form{text: strings.ReplaceAll(text, " ", "+"), name: name})
	f.put(form{text: hex.EncodeToString([]byte(text)), name: name})
	for before := range 3 {
		raw := append(make([]byte, before), text...)
		first, end := (before*8+5)/6, len(raw)*8/6 // characters that are made of the secret's bits alone
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if encoded := encoding.EncodeToString(raw)[first:end]; len(encoded) >= minSecret {
				f.put(form{encoded, name, true})
			}
		}
	}
}

func (f *forms) put(add form) {
	key := firstOf([]byte(add.text))
	if !slices.ContainsFunc(f.by[key], func(has form) bool { return has.text == add.text }) {
		f.by[key] = append(f.by[key], add)
	}
	f.begin[key[0]], f.begin[upper(key[0])] = true, true
}

// firstOf returns the first bytes of a text in lower case.
func firstOf(text []byte) (key [minSecret]byte) {
	for i := range key {
		if key[i] = text[i]; 'A' <= key[i] && key[i] <= 'Z' {
			key[i] += 'a' - 'A'
		}
	}
	return key
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// is reports whether a text of the same length is the form: in whatever case, unless it is base64, where another case is another text.
func (f *form) is(text []byte) bool {
	if f.base64 {
		return string(text) == f.text
	}
	for i := range text {
		if upper(text[i]) != upper(f.text[i]) {
			return false
		}
	}
	return true
}

// sort puts the longest first, so that a secret that contains another one is replaced whole.
func (f *forms) sort() {
	for _, list := range f.by {
		slices.SortFunc(list, func(a, b form) int { return cmp.Or(len(b.text)-len(a.text), cmp.Compare(a.text, b.text)) })
	}
}

// span is where a secret stands, and what takes its place.
type span struct {
	from, to int
	name     string
}

// maxNested is how many encodings may be inside each other: JSON in a string of JSON in a query is three.
const maxNested = 3

// encoding is one that is taken off: what begins with one of the marks is read by unescape.
type encoding struct {
	marks    string
	unescape func(b []byte) (plain []byte, n int)
}

// encodings are taken off one at a time, since what is an escape in one means itself in another: \r in a text of HTML, or =ab in a query, which
// may be the beginning of a secret.
var encodings = []encoding{{`%\`, unescape}, {"&", entity}, {"=", unquote}}

// find returns where secrets stand in b, sorted and without overlaps: as they are, and in up to maxNested layers of encodings. The places are
// those in b.
func (f *forms) find(b []byte) (found []span) {
	if len(f.by) == 0 {
		return nil
	}
	return joined(f.within(nil, coded{text: b}))
}

// within adds what is found in a text and below its layers.
func (f *forms) within(found []span, text coded) []span {
	for i := 0; i+minSecret <= len(text.text); i++ {
		if s, ok := f.at(text, i); ok {
			found = append(found, s)
		}
	}
	if text.layers == maxNested {
		return found
	}
	for _, e := range encodings {
		if below, ok := text.decode(e); ok {
			found = f.within(found, below)
		}
	}
	return found
}

// at returns the secret that begins at a place.
func (f *forms) at(c coded, i int) (span, bool) {
	rest := c.text[i:]
	if !f.begin[rest[0]] {
		return span{}, false
	}
	for _, form := range f.by[firstOf(rest)] {
		if len(rest) < len(form.text) || !form.is(rest[:len(form.text)]) {
			continue
		}
		from, to := i, i+len(form.text)
		for form.base64 && from > 0 && isBase64(c.text[from-1]) { // what is left of it would show the secret's ends
			from--
		}
		for form.base64 && to < len(c.text) && isBase64(c.text[to]) {
			to++
		}
		return span{c.start(from), c.end(to - 1), form.name}, true
	}
	return span{}, false
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// joined sorts spans and makes one of those that overlap.
func joined(found []span) (list []span) {
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	for _, s := range found {
		if n := len(list); n > 0 && s.from < list[n-1].to {
			list[n-1].to = max(list[n-1].to, s.to)
			continue
		}
		list = append(list, s)
	}
	return list
}

// coded is a text that was decoded, and where each byte of it came from.
type coded struct {
	text     []byte
	from, to []int // of each byte, in what was given; nil: it was not decoded
	layers   int   // that were taken off
}

func (c coded) start(i int) int {
	if c.from == nil {
		return i
	}
	return c.from[i]
}

// end returns where the last byte of a span ends.
func (c coded) end(i int) int {
	if c.to == nil {
		return i + 1
	}
	return c.to[i]
}

// longestByte is how many bytes one byte of a secret becomes at most, where it is encoded once, as people do: \u0041, &#x0041;.
const longestByte = 8

// decode takes one layer off; false if there is none.
func (c coded) decode(e encoding) (coded, bool) {
	if !bytes.ContainsAny(c.text, e.marks) {
		return c, false
	}
	n := len(c.text)
	out, more := coded{text: make([]byte, 0, n), from: make([]int, 0, n), to: make([]int, 0, n), layers: c.layers + 1}, false
	for i := 0; i < n; {
		plain, taken := e.unescape(c.text[i:])
		more = more || taken > 1
		for _, b := range plain {
			out.text, out.from, out.to = append(out.text, b), append(out.from, c.start(i)), append(out.to, c.end(i+taken-1))
		}
		i += taken
	}
	return out, more
}

// unescape returns what the first bytes of b mean and how many they are: one that means itself, or an escape.
func unescape(b []byte) (plain []byte, n int) {
	if b[0] == '%' {
		if v, ok := digits(b, 1, 2); ok {
			return []byte{byte(v)}, 3
		}
	}
	if b[0] != '\\' || len(b) < 2 {
		return b[:1], 1
	}
	switch c := b[1]; c {
	case '"', '\\', '/', '\'':
		return b[1:2], 2
	case 'n', 'r', 't', 'b', 'f':
		i := strings.IndexByte("nrtbf", c)
		return []byte("\n\r\t\b\f")[i : i+1], 2
	case 'x':
		if v, ok := digits(b, 2, 2); ok {
			return []byte{byte(v)}, 4
		}
	case 'u':
		if v, ok := digits(b, 2, 4); ok {
			if low, second := digits(b, 8, 4); second && b[6] == '\\' && b[7] == 'u' && utf16.DecodeRune(v, low) != utf8.RuneError {
				return utf8.AppendRune(nil, utf16.DecodeRune(v, low)), 12
			}
			return utf8.AppendRune(nil, v), 6
		}
	case 'U':
		if v, ok := digits(b, 2, 8); ok {
			return utf8.AppendRune(nil, v), 10
		}
	}
	return b[:1], 1
}

// longestEntity is the length of the longest entity that is read.
const longestEntity = 16

// entity is unescape for HTML: &lt; or &#60; is <.
func entity(b []byte) (plain []byte, n int) {
	if b[0] == '&' {
		n = bytes.IndexByte(b[:min(len(b), longestEntity)], ';') + 1
	}
	if n == 0 || bytes.ContainsAny(b[1:n], "& ") {
		return b[:1], 1
	}
	if text := html.UnescapeString(string(b[:n])); text != string(b[:n]) {
		return []byte(text), n
	}
	return b[:1], 1
}

// unquote is unescape for quoted-printable: =41, and an = at the end of a line that goes on in the next.
func unquote(b []byte) (plain []byte, n int) {
	switch {
	case b[0] != '=':
	case bytes.HasPrefix(b, []byte("=\r\n")):
		return nil, 3
	case bytes.HasPrefix(b, []byte("=\n")):
		return nil, 2
	default:
		if v, ok := digits(b, 1, 2); ok {
			return []byte{byte(v)}, 3
		}
	}
	return b[:1], 1
}

// digits reads n hexadecimal digits of b at a place.
func digits(b []byte, at, n int) (rune, bool) {
	if len(b) < at+n {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[at:at+n]), 16, 32)
	return rune(v), err == nil
}
