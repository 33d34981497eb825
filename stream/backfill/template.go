package backfill

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// Use is what is asked for, which decides the placeholders that a template may have. It is a metric label.
type Use string

const (
	// Gap asks for the events that are missing on a line: {entity}, {entity.0}, {entity.1} ..., {from} and {to}.
	Gap Use = "backfill"
	// Body asks for the document that an event names: {entity}, {entity.0}, {entity.1} ..., {id} and {type}.
	Body Use = "thin"
)

// names are the names that a use's placeholders may have.
func (u Use) names() []string {
	if u == Gap {
		return []string{"entity", "from", "to"}
	}
	return []string{"entity", "id", "type"}
}

// Values fill the placeholders of a template. An empty field has no value: a template that needs it cannot be expanded.
type Values struct {
	Entity   schemas.EntityKey
	From, To string // of the closed range that is missing
	ID, Type string // of the event
}

// Template is a URL with placeholders in its path and its query only. Values cannot change its scheme, host or other path segments.
// Immutable.
//
// A placeholder becomes its value, with everything outside the unreserved characters of RFC 3986 percent-encoded. {entity.N} is
// part N of the entity, counted from 0 and decoded first. {entity} is all of its parts, each a segment of its own in the path, and
// the entity's text in the query.
type Template struct {
	sink.Opaque
	parts []part
}

// part is literal text, or a placeholder.
type part struct {
	text  string // literal
	name  string // of a placeholder; "" for literal text
	index int    // N of {entity.N}; -1 for {entity}
	query bool   // the placeholder is in the query
}

// maxURL bounds an expanded URL; servers take no longer ones.
const maxURL = 8000

// ParseTemplate compiles a URL. Errors do not quote it: it may hold a secret.
func ParseTemplate(use Use, text string) (*Template, error) {
	if text == "" {
		return nil, errors.New("url is missing")
	}
	start, err := pathStart(text)
	if err != nil {
		return nil, err
	}
	t := &Template{Opaque: "URL template"}
	plain, query := "", false // plain is the URL with an x for each placeholder
	for rest := text; rest != ""; {
		literal, inner, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("url has a } without a {")
		}
		query = query || strings.Contains(literal, "?")
		t.parts = append(t.parts, part{text: literal})
		plain += literal
		if !found {
			break
		}
		name, after, closed := strings.Cut(inner, "}")
		if !closed {
			return nil, errors.New("url has a { without a }")
		}
		if len(text)-len(inner) < start {
			return nil, errors.New("url has a {placeholder} in its scheme or host: only the path and the query may have them")
		}
		p, err := placeholder(use, name, query)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
		plain += "x"
		rest = after
	}
	if strings.Contains(text[:start], "%") {
		return nil, errors.New("url has a host with a %, which no name has")
	}
	if err := checkPlain(plain); err != nil {
		return nil, err
	}
	return t, nil
}

// pathStart returns the index at which a URL's scheme and host end: that of the path, query or fragment, or the text's length.
func pathStart(text string) (int, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return 0, errors.New("url is not an absolute http or https URL")
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return len(text) - len(rest) + i, nil
	}
	return len(text), nil
}

// placeholder parses the name of a placeholder; query says that the placeholder is in the query of the URL.
func placeholder(use Use, name string, query bool) (part, error) {
	p := part{name: name, index: -1, query: query}
	if number, ok := strings.CutPrefix(name, "entity."); ok {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i > 99 || strconv.Itoa(i) != number {
			return p, errors.New("url has an {entity.N} whose N is not a number from 0 to 99, such as {entity.0}")
		}
		p.name, p.index = "entity", i
	}
	if !slices.Contains(use.names(), p.name) {
		return p, fmt.Errorf("url has {%.40s}, which means nothing in %s: use {%s} or {entity.0} and so on", name, use, strings.Join(use.names(), "}, {"))
	}
	return p, nil
}

// checkPlain checks the URL with an x for each placeholder.
func checkPlain(plain string) error {
	for i := range len(plain) {
		if c := plain[i]; c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`|", c) >= 0 {
			return errors.New("url has a character that URLs do not have: percent-encode it")
		}
	}
	u, err := url.Parse(plain)
	if err != nil {
		return errors.New("url cannot be parsed")
	}
	switch {
	case u.Host == "" || u.Opaque != "":
		return errors.New("url has no host")
	case u.User != nil:
		return errors.New("url carries credentials: use headers")
	case strings.Contains(plain, "#"):
		return errors.New("url has a fragment, which is never sent")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), dots):
		return errors.New("url has . or .. as a segment of its path")
	}
	if _, err := url.PathUnescape(u.RawQuery); err != nil {
		return errors.New("url has a query with a % that encodes nothing")
	}
	return nil
}

// dots reports whether a path segment is . or .., percent-encoded or not.
func dots(segment string) bool {
	if plain, err := url.PathUnescape(segment); err == nil {
		segment = plain
	}
	return segment == "." || segment == ".."
}

// Expand fills the placeholders; each value is escaped for where it stands. A value that is missing or cannot stand there is an error, and so
// is a URL that is too long, cannot be parsed, or has . or .. as a segment of its path. Errors name the placeholder and show no value, which
// may be a secret.
func (t *Template) Expand(v Values) (*url.URL, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		text, err := p.expand(v)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	text := b.String()
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL is %d bytes long, more than %d", len(text), maxURL)
	}
	path, _, _ := strings.Cut(text, "?")
	if slices.ContainsFunc(strings.Split(path, "/"), dots) {
		return nil, errors.New("the path has . or .. as a segment")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	return u, nil
}

// expand returns the escaped value of a placeholder.
func (p part) expand(v Values) (string, error) {
	text := ""
	switch p.name {
	case "from":
		text = v.From
	case "to":
		text = v.To
	case "id":
		text = v.ID
	case "type":
		text = v.Type
	case "entity":
		return p.entity(v.Entity)
	}
	return p.escape(text)
}

// entity returns the value of {entity} or {entity.N}, as [Template] says.
func (p part) entity(key schemas.EntityKey) (string, error) {
	if p.index < 0 && p.query {
		return p.escape(string(key))
	}
	segments := strings.Split(string(key), "/")
	if p.index >= 0 {
		if p.index >= len(segments) {
			return "", fmt.Errorf("{entity.%d}: the entity has only %d parts", p.index, len(segments))
		}
		segments = segments[p.index : p.index+1]
	}
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil {
			return "", errors.New("{entity}: the entity is not percent-encoded")
		}
		if segments[i], err = p.escape(decoded); err != nil {
			return "", err
		}
	}
	return strings.Join(segments, "/"), nil
}

// escape percent-encodes all of a value but unreserved characters: no value ends a segment or parameter. An empty value and one with a
// control character is an error.
func (p part) escape(value string) (string, error) {
	const digits = "0123456789ABCDEF"
	if value == "" {
		return "", fmt.Errorf("{%s} has no value here", p.name)
	}
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		switch {
		case c < ' ' || c == 0x7f:
			return "", fmt.Errorf("{%s} has a control character", p.name)
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String(), nil
}
