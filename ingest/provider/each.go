package provider

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/scan"
)

// MaxElements is how many events one delivery can have. Providers send some thousands at most; a megabyte of "{}," is more.
const MaxElements = 10_000

// WholeBody is the `each` of a source whose body is the list itself.
const WholeBody = "/"

// compileEach compiles a source's `each`: a JSON Pointer to the list, or [WholeBody]. Where each element of a list has a list itself, "/*/" stands
// between the two pointers.
func compileEach(each string) (sets []*scan.Set, err error) {
	if each == "" {
		return nil, nil // one delivery is one event
	}
	for i, pointer := range strings.Split(each, "/*/") {
		switch {
		case i > 0:
			pointer = "/" + pointer
		case each == WholeBody:
			pointer = ""
		}
		set, err := scan.Compile(pointer)
		if err != nil {
			return nil, &KeyError{"each", fmt.Errorf("%q is not a JSON Pointer to a list in the body, such as /events, or /entry/*/changes for the lists in a list; / is the body itself", each)}
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// aroundHeader has what a preset reads around an element. No request has it.
const aroundHeader = "Forebay-Around"

// Several reports whether a delivery of the source has a list of events.
func (s *Source) Several() bool { return s.each != nil || s.preset.unpack != nil }

// Split returns the elements of a delivery's list, in its order: each is a delivery by itself for [Source.Read] and [Source.CheckSchema],
// with the element's bytes as body. A single object in the place of the list is its only element. Only for a source that has [Source.Several].
// An error is an *[Unusable].
func (s *Source) Split(r *verify.Request) ([]verify.Request, error) {
	if s.each == nil {
		return s.preset.unpack(r, s.MaxBody)
	}
	d := s.deliveries.Get().(*delivery)
	defer d.close()
	d.src, d.req = s, r
	text, bad := d.jsonText()
	if bad != nil {
		return nil, bad
	}
	header, whole := r.Header, r.Header.Get("Content-Type")
	if element := elementType(whole); element != whole {
		header = r.Header.Clone()
		header.Set("Content-Type", element)
	}
	if len(s.preset.around) > 0 {
		header = header.Clone()
		header.Del(aroundHeader)
	}
	var elements []verify.Request
	err := s.list(text, s.each, header, func(header http.Header, raw []byte) error {
		if len(elements) == MaxElements {
			return unusable(TooLong, "the list has more than %d elements", MaxElements)
		}
		elements = append(elements, verify.Request{Method: r.Method, URL: r.URL, Header: header, Body: raw, Secret: r.Secret, SignedAt: r.SignedAt, Caller: r.Caller})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return elements, nil
}

// list calls element with each element of the list in text, or of the lists in its elements, and with its headers.
func (s *Source) list(text []byte, at []*scan.Set, header http.Header, element func(header http.Header, raw []byte) error) error {
	values, err := at[0].Scan(text, nil)
	if err != nil {
		return scanReason(err)
	}
	if len(at) > 1 {
		last := element
		element = func(header http.Header, raw []byte) error {
			header, err := s.surrounded(header, raw)
			if err != nil {
				return err
			}
			return s.list(raw, at[1:], header, last)
		}
	}
	switch list := values[0]; list.Kind {
	case scan.Object:
		return element(header, list.Raw())
	case scan.Array:
		return scan.Each(list.Raw(), func(_ string, v scan.Value) error { return element(header, slices.Clip(v.Raw())) })
	case scan.Absent:
		return unusable(MissingField, "no list at %s", s.eachText)
	default:
		return unusable(WrongType, "%s is of type %s, not a list", s.eachText, list.Kind)
	}
}

// surrounded returns the headers of the elements of the list in outer, with what the preset reads around them.
func (s *Source) surrounded(header http.Header, outer []byte) (http.Header, error) {
	if s.around == nil {
		return header, nil
	}
	values, err := s.around.Scan(outer, nil)
	if err != nil {
		return nil, scanReason(err)
	}
	var texts []string
	for _, v := range values {
		text := ""
		if v.Kind == scan.String || v.Kind == scan.Number {
			text = v.Text()
		}
		texts = append(texts, text)
	}
	header = header.Clone()
	header.Set(aroundHeader, strings.Join(texts, ":"))
	return header, nil
}

// elementType returns the content type of an element, by that of the delivery.
func elementType(whole string) string {
	switch mediaTypeOf(whole) {
	case mediaForm:
		return "application/json"
	case mediaBatch:
		return mediaStructured
	}
	return whole
}

// CloudEvents in JSON: a list of them, and one.
const (
	mediaBatch      = "application/cloudevents-batch+json"
	mediaStructured = "application/cloudevents+json"
)
