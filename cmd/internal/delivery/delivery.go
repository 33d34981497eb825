// Package delivery is the file form of a delivery, one HTTP request as it was received: a test fixture. `forebay sign` and the console write it,
// `forebay send` and `forebay verify` read it.
package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"
)

// File is one delivery. Its body stands in Body where it is text, else in BodyBase64.
type File struct {
	Source     string            `json:"source,omitempty"` // TEAM/SOURCE that it was sent to
	Received   *time.Time        `json:"received,omitempty"`
	Method     string            `json:"method,omitempty"` // empty: POST
	URL        string            `json:"url,omitempty"`
	Headers    map[string]Values `json:"headers,omitempty"`
	Body       string            `json:"body,omitempty"`
	BodyBase64 []byte            `json:"body_base64,omitempty"`
}

// Values are those of one header: a text in the file, or a list of several.
type Values []string

// MarshalJSON implements [json.Marshaler].
func (v Values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Values) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		*v = make(Values, 1)
		return json.Unmarshal(text, &(*v)[0])
	}
	return json.Unmarshal(text, (*[]string)(v))
}

// Read reads a file of one delivery. A field that it does not know is an error: a slip would be left out in silence.
func Read(r io.Reader) (f File, err error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, fmt.Errorf("it is not the JSON of one delivery, as `forebay sign -o json` writes it: %w", err)
	}
	if f.Body != "" && len(f.BodyBase64) > 0 {
		return f, errors.New("it has both body and body_base64: leave one out")
	}
	return f, nil
}

// Content returns the body.
func (f *File) Content() []byte {
	if len(f.BodyBase64) > 0 {
		return f.BodyBase64
	}
	return []byte(f.Body)
}

// SetContent sets the body.
func (f *File) SetContent(body []byte) {
	f.Body, f.BodyBase64 = "", nil
	if utf8.Valid(body) {
		f.Body = string(body)
	} else {
		f.BodyBase64 = body
	}
}

// Header returns the headers under their canonical names.
func (f *File) Header() http.Header {
	h := http.Header{}
	for name, values := range f.Headers {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}

// SetHeader sets the headers.
func (f *File) SetHeader(h http.Header) {
	f.Headers = map[string]Values{}
	for name, values := range h {
		f.Headers[name] = values
	}
}
