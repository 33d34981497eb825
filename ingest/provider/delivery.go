package provider

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// delivery is a request, parsed as far as its source needs.
type delivery struct {
	src      *Source
	req      *verify.Request
	buffer   []scan.Value // used again
	values   []scan.Value // by slot; nil when there is no JSON text
	form     url.Values   // nil when the body is not a form
	zipped   bool         // the body is compressed
	fromForm bool         // the JSON text is a field of the form
	text     []byte       // the JSON text; nil when there is none
	inputs   *inputs      // of expressions; nil until one asks
}

// parse reads the form, if the source knows forms, and the JSON text, if the source reads any of it.
func (d *delivery) parse() *Unusable {
	var bad *Unusable
	if d.text, bad = d.jsonText(); bad != nil || d.text == nil || d.src.set == nil {
		return bad
	}
	values, err := d.src.set.Scan(d.text, d.buffer)
	if err != nil {
		return scanReason(err)
	}
	d.buffer, d.values = values, values
	return nil
}

// jsonText returns the JSON text: the body, or the form's field that has it; nil for a form without one.
func (d *delivery) jsonText() ([]byte, *Unusable) {
	s, text := d.src, d.req.Body
	if d.zipped = schemas.Zipped(text); d.zipped {
		var err error
		if text, err = schemas.Unzip(text, s.MaxBody); err != nil {
			return nil, unusable(BadEncoding, "the body cannot be unpacked: %v", err)
		}
	}
	if !s.forms || mediaType(d.req) != mediaForm {
		if text == nil {
			text = []byte{}
		}
		return text, nil
	}
	var err error
	if d.form, err = url.ParseQuery(string(text)); err != nil || isJSON(text) {
		return nil, unusable(BadForm, "the body is not a form")
	}
	payload, bad := d.field(s.preset.formPayload)
	switch {
	case bad != nil:
		return nil, bad
	case payload == "" && s.preset.formPayload != "" && s.preset.formRule == "":
		return nil, unusable(MissingField, "no form:%s", s.preset.formPayload)
	case payload == "":
		return nil, nil
	}
	d.fromForm = true
	return []byte(payload), nil
}

// isJSON reports whether a body begins like a JSON text, as no form does. The content type is not signed: a text inside of the JSON
// that somebody else wrote ("&payload=...") must not become the form's field.
func isJSON(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// close makes d available to the next request. Texts that were read from it are copies, and stay valid.
func (d *delivery) close() {
	s := d.src
	*d = delivery{buffer: d.buffer}
	s.deliveries.Put(d)
}

// scanReason returns why a body that cannot be scanned is unusable.
func scanReason(err error) *Unusable {
	reason := NotJSON
	switch scan.ErrorReason(err) {
	case scan.DuplicateKey:
		reason = DuplicateKey
	case scan.TooDeep:
		reason = TooDeep
	case scan.BadString:
		reason = BadString
	case scan.TooMany:
		reason = TooLong
	}
	return unusable(reason, "body: %v", err)
}

// rule returns the mapping of the delivery's event type.
func (d *delivery) rule() (*rule, *Unusable) {
	p := &d.src.preset
	switch {
	case d.fromForm && p.payloadRule != "":
		return d.src.rules[p.payloadRule], nil
	case d.form != nil && !d.fromForm && p.formRule != "":
		return d.src.rules[p.formRule], nil
	}
	name := ""
	for i, v := range d.src.selects {
		text, found, bad := d.scalar(v)
		if bad != nil {
			return nil, bad
		}
		if i == 0 {
			if bad := d.checkFields(text); bad != nil {
				return nil, bad
			}
		}
		if !found || strings.Contains(text, "/") && len(d.src.selects) > 1 {
			break
		}
		if i > 0 {
			name += "/"
		}
		name += text
	}
	for name != "" {
		if m, ok := d.src.rules[name]; ok && name != p.payloadRule && name != p.formRule {
			return m, nil
		}
		name = name[:max(strings.LastIndexByte(name, '/'), 0)]
	}
	return d.src.fallback, nil
}

// scalar returns the text of the first of v's refs that is a string or a number and not empty. found is false if an optional v has
// none.
func (d *delivery) scalar(v value) (text string, found bool, bad *Unusable) {
	text, kind, bad := d.scalarAndKind(v)
	return text, kind != scan.Absent, bad
}

// scalarAndKind returns the text and the kind of the first of v's refs that is a string or a number and not empty. If there is none:
// a bool, an array or an object is an error, even of an optional value; nothing at all is Absent if v is optional, else an error.
func (d *delivery) scalarAndKind(v value) (string, scan.Kind, *Unusable) {
	wrong := scan.Absent
	for _, r := range v.refs {
		kind, text, bad := d.read(r)
		if bad != nil {
			return "", scan.Absent, bad
		}
		switch kind {
		case scan.String, scan.Number:
			if r.end != "" {
				text, _, _ = strings.Cut(text, r.end)
			}
			if text != "" {
				return r.prefix + text, kind, nil
			}
		case scan.Bool, scan.Array, scan.Object:
			wrong = kind
		}
	}
	switch {
	case wrong != scan.Absent:
		return "", scan.Absent, unusable(WrongType, "%s is of type %s", v.text, wrong)
	case v.optional:
		return "", scan.Absent, nil
	}
	return "", scan.Absent, unusable(MissingField, "no %s", v.text)
}

// read returns the kind and the text of the value at r. Headers and form fields are strings.
func (d *delivery) read(r ref) (scan.Kind, string, *Unusable) {
	switch r.kind {
	case refLiteral:
		return scan.String, r.name, nil
	case refCaller:
		return scan.String, d.req.Caller.Name, nil
	case refHeader:
		values := d.req.Header[r.name]
		switch len(values) {
		case 0:
			return scan.Absent, "", nil
		case 1:
			return scan.String, values[0], nil
		}
		return 0, "", unusable(RepeatedHeader, "%s appears more than once", r.name)
	case refForm:
		text, bad := d.field(r.name)
		return scan.String, text, bad
	case refExpression:
		return d.evaluate(r)
	}
	if d.values == nil {
		return scan.Absent, "", nil
	}
	v := d.values[r.slot]
	if r.kind == refThere {
		if v.Kind == scan.Absent || v.Kind == scan.Null {
			return scan.Absent, "", nil
		}
		return scan.String, r.name, nil
	}
	if v.Kind == scan.Array || v.Kind == scan.Object {
		return v.Kind, "", nil
	}
	return v.Kind, v.Text(), nil
}

func (d *delivery) field(name string) (string, *Unusable) {
	switch values := d.form[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", unusable(DuplicateKey, "form field %s appears more than once", name)
}

// withoutVolatile returns the body without the bytes of the values that change between retries. The body of a form is returned whole.
func (d *delivery) withoutVolatile(m *rule) []byte {
	body := d.req.Body
	if len(m.volatile) == 0 || d.values == nil || d.fromForm {
		return body
	}
	if d.zipped {
		body = d.text
	}
	var spans []scan.Value
	for _, slot := range m.volatile {
		if v := d.values[slot]; v.Kind != scan.Absent {
			spans = append(spans, v)
		}
	}
	if len(spans) == 0 {
		return body
	}
	slices.SortFunc(spans, func(a, b scan.Value) int { return cmp.Compare(a.Start, b.Start) })
	out, end := make([]byte, 0, len(body)), 0
	for _, v := range spans {
		if v.Start >= end { // not inside the one before
			out = append(out, body[end:v.Start]...)
			end = v.End
		}
	}
	return append(out, body[end:]...)
}

const mediaForm = "application/x-www-form-urlencoded"

// mediaType returns the type that the body is said to have, in lower case and without parameters.
func mediaType(r *verify.Request) string {
	values := r.Header["Content-Type"]
	if len(values) == 0 {
		return ""
	}
	return mediaTypeOf(values[0])
}

func mediaTypeOf(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// contentType returns the header as received, unless it could not be stored.
func (d *delivery) contentType() string {
	if values := d.req.Header["Content-Type"]; len(values) > 0 && printable(values[0]) && len(values[0]) <= 255 {
		return values[0]
	}
	return ""
}

// headers appends the request's headers that the source keeps.
func (d *delivery) headers(kept []schemas.Header) []schemas.Header {
	for _, h := range d.src.headers {
		for _, v := range d.req.Header[h.canonical] {
			if printable(v) && len(v) <= maxHeader {
				kept = append(kept, schemas.Header{Name: h.lower, Value: v})
				break // one of each
			}
		}
	}
	return kept
}

func printable(text string) bool {
	return plain(text) || utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
