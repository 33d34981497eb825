package provider

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/scan"
)

// MaxElements is how many events one delivery can have. Providers send some thousands at most; a megabyte of "{}," is more.
const MaxElements = 10_000

// WholeBody is the `each` of a source whose body is the list itself.
const WholeBody = "/"

// compileEach compiles a source's `each`: a JSON Pointer to the list, or [WholeBody].
func compileEach(each string) (*scan.Set, error) {
	if each == "" {
		return nil, nil // one delivery is one event
	}
	pointer := each
	if each == WholeBody {
		pointer = ""
	}
	set, err := scan.Compile(pointer)
	if err != nil {
		return nil, &KeyError{"each", fmt.Errorf("%q is not a JSON Pointer to a list in the body, such as /events; / is the body itself", each)}
	}
	return set, nil
}

// Several reports whether a delivery of the source has a list of events.
func (s *Source) Several() bool { return s.each != nil }

// Split returns the elements of a delivery's list, in its order: each is a delivery by itself for [Source.Read] and [Source.CheckSchema],
// with the element's bytes as body. A single object in the place of the list is its only element. Only for a source that has [Source.Several].
// An error is an *[Unusable].
func (s *Source) Split(r *verify.Request) ([]verify.Request, error) {
	d := s.deliveries.Get().(*delivery)
	defer d.close()
	d.src, d.req = s, r
	text, bad := d.jsonText()
	if bad != nil {
		return nil, bad
	}
	values, err := s.each.Scan(text, nil)
	if err != nil {
		return nil, scanReason(err)
	}
	header, whole := r.Header, r.Header.Get("Content-Type")
	if element := elementType(whole); element != whole {
		header = r.Header.Clone()
		header.Set("Content-Type", element)
	}
	element := func(raw []byte) verify.Request {
		return verify.Request{Method: r.Method, URL: r.URL, Header: header, Body: raw, Secret: r.Secret, SignedAt: r.SignedAt}
	}
	switch list := values[0]; list.Kind {
	case scan.Object:
		return []verify.Request{element(list.Raw())}, nil
	case scan.Array:
		var elements []verify.Request
		err := scan.Each(list.Raw(), func(_ string, v scan.Value) error {
			if len(elements) == MaxElements {
				return errTooMany
			}
			elements = append(elements, element(slices.Clip(v.Raw())))
			return nil
		})
		if errors.Is(err, errTooMany) {
			return nil, unusable(TooLong, "the list has more than %d elements", MaxElements)
		}
		return elements, err
	case scan.Absent:
		return nil, unusable(MissingField, "no list at %s", s.eachText)
	default:
		return nil, unusable(WrongType, "%s is of type %s, not a list", s.eachText, list.Kind)
	}
}

var errTooMany = errors.New("too many elements")

// elementType returns the content type of an element, by that of the delivery.
func elementType(whole string) string {
	switch mediaTypeOf(whole) {
	case mediaForm:
		return "application/json"
	case mediaBatch:
		return "application/cloudevents+json"
	}
	return whole
}

// mediaBatch is a list of CloudEvents.
const mediaBatch = "application/cloudevents-batch+json"
