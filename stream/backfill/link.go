package backfill

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// nextPage returns the URL of the next page from the Link headers of the answer to u (RFC 8288, rel="next"); nil if there is none. A
// link to another scheme or host is an error: the request's headers hold secrets.
func nextPage(u *url.URL, h http.Header) (*url.URL, error) {
	for _, line := range h.Values("Link") {
		for line != "" {
			target, params, rest := cutLink(line)
			line = rest
			if !hasRel(params, "next") {
				continue
			}
			ref, err := url.Parse(target)
			if err != nil {
				return nil, errors.New("the link to the next page cannot be parsed")
			}
			next := u.ResolveReference(ref)
			if next.Scheme != u.Scheme || next.Host != u.Host || next.User != nil {
				return nil, errors.New("the link to the next page leads to another host")
			}
			next.Fragment, next.RawFragment = "", ""
			return next, nil
		}
	}
	return nil, nil
}

// cutLink cuts the first link off a Link header's value: its target, its parameters unparsed, and the rest behind the comma. All three
// are empty if the value does not begin with a link.
func cutLink(line string) (target, params, rest string) {
	open, line, ok := strings.Cut(line, "<")
	if !ok || strings.Trim(open, " \t,") != "" {
		return "", "", ""
	}
	target, line, ok = strings.Cut(line, ">")
	if !ok {
		return "", "", ""
	}
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return target, line[:i], line[i+1:]
		}
	}
	return target, line, ""
}

// hasRel reports whether rel is among the relation types of a link's parameters.
func hasRel(params, rel string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for word := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(word, rel) {
				return true
			}
		}
	}
	return false
}
