package verify

import (
	"crypto/hmac"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// HMAC is the configurable scheme; most providers are one set of [Params] for it. Safe for concurrent use. The zero
// value refuses everything.
type HMAC struct {
	params Params
	// The names of headers are canonical; empty: there is none.
	signatureHeader, timestampHeader, idHeader string
	pieces                                     []piece
	idEnd                                      string // the literal behind the id, which it may not contain; empty: there is none
	stamped                                    bool   // the source has a timestamp
	// bodyTimestamp is where the timestamp is in the body; nil if it is not there.
	bodyTimestamp *scan.Set
	keys          []*macKey
}

// NewHMAC compiles params. The error names what is wrong in the words of [Params]; an unusable secret is an *[Error]
// of reason BadKey.
func NewHMAC(params Params, secrets []schemas.Secret) (*HMAC, error) {
	params = params.withDefaults()
	if err := params.Validate(); err != nil {
		return nil, err
	}
	return newHMAC(params, secrets)
}

// newHMAC takes valid params: a user's after Validate, or our own.
func newHMAC(params Params, secrets []schemas.Secret) (*HMAC, error) {
	params = params.withDefaults()
	if params.Tolerance == 0 {
		params.Tolerance = DefaultTolerance
	}
	pieces, err := parseTemplate(params.Signed)
	if err != nil {
		return nil, err
	}
	h := &HMAC{
		params:          params,
		signatureHeader: http.CanonicalHeaderKey(params.SignatureHeader),
		timestampHeader: http.CanonicalHeaderKey(params.TimestampHeader),
		idHeader:        http.CanonicalHeaderKey(params.IDHeader),
		pieces:          pieces,
		stamped:         params.TimestampHeader != "" || params.TimestampField != "" || params.TimestampPointer != "",
	}
	for i, p := range pieces[:max(len(pieces)-1, 0)] {
		if p.kind == pieceID {
			h.idEnd = pieces[i+1].literal
		}
	}
	if params.TimestampPointer != "" {
		if h.bodyTimestamp, err = scan.Compile(params.TimestampPointer); err != nil {
			return nil, err
		}
	}
	keys, err := decodeKeys(secrets, params.KeyEncoding, params.KeyPrefix)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		h.keys = append(h.keys, newMACKey(params.Algorithm, k))
	}
	return h, nil
}

// parts are the texts of a request that are signed beside its body.
type parts struct {
	timestamp, id string
	signatures    []string
}

// Verify implements [Verifier].
func (h *HMAC) Verify(r *Request, now time.Time) error {
	if len(h.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	p, err := h.read(r)
	if err != nil {
		return err
	}
	if !h.stamped || h.bodyTimestamp != nil {
		if err := h.compare(r, &p); err != nil || h.bodyTimestamp == nil {
			return err
		}
		return h.freshBody(r, &p, now) // a time inside the body is only believed after the digest
	}
	stamp, bad := readStamp(h.params.TimestampUnit, p.timestamp)
	if bad != nil {
		return bad
	}
	return fresh(r, stamp, h.params.Tolerance, now, h.compare(r, &p))
}

// freshBody checks the age of a request whose timestamp is in its body.
func (h *HMAC) freshBody(r *Request, p *parts, now time.Time) error {
	if p.timestamp == "" {
		text, err := h.bodyStamp(r.Body)
		if err != nil {
			return err
		}
		p.timestamp = text
	}
	stamp, bad := readStamp(h.params.TimestampUnit, p.timestamp)
	if bad != nil {
		return bad
	}
	return fresh(r, stamp, h.params.Tolerance, now, nil)
}

// read returns what the request says beside its body: signatures, time and id, none of it verified. A timestamp in the body is read here
// only if it is signed a second time, as a piece of its own; otherwise once the body is verified.
func (h *HMAC) read(r *Request) (parts, error) {
	var p parts
	value, err := single(r.Header, h.signatureHeader)
	if err != nil {
		return p, err
	}
	if p.signatures, p.timestamp, err = h.split(value); err != nil {
		return p, err
	}
	if h.timestampHeader != "" {
		if p.timestamp, err = single(r.Header, h.timestampHeader); err != nil {
			return p, err
		}
	}
	if h.idHeader != "" {
		if p.id, err = single(r.Header, h.idHeader); err != nil {
			return p, err
		}
		if h.idEnd != "" && strings.Contains(p.id, h.idEnd) {
			return p, refuse(Malformed, "%s contains what ends an id in what is signed", h.idHeader)
		}
	}
	if uses(h.pieces, pieceURL) && r.URL == "" {
		return p, refuse(Malformed, "the URL is signed and not known: set the source's public_url")
	}
	if h.bodyTimestamp != nil && uses(h.pieces, pieceTimestamp) {
		if p.timestamp, err = h.bodyStamp(r.Body); err != nil {
			return p, err
		}
	}
	return p, nil
}

// split finds the signatures in the value of the signature header. timestamp is empty unless the header has named fields, of which one is
// the timestamp. A value without the configured form, or with no or too many signatures, is malformed.
func (h *HMAC) split(value string) (signatures []string, timestamp string, err *Error) {
	if h.params.Field != "" {
		return h.splitFields(value)
	}
	if h.params.Separator == "" {
		s, ok := strings.CutPrefix(value, h.params.Prefix)
		if !ok {
			return nil, "", refuse(Malformed, "%s does not begin with the configured prefix", h.signatureHeader)
		}
		return []string{s}, "", nil
	}
	for item := range strings.SplitSeq(value, h.params.Separator) {
		if s, ok := strings.CutPrefix(strings.TrimSpace(item), h.params.Prefix); ok {
			signatures = append(signatures, s)
		}
	}
	return signatures, "", h.checkCount(signatures)
}

// splitFields reads the signatures and the timestamp from a header that has named fields.
func (h *HMAC) splitFields(value string) (signatures []string, timestamp string, err *Error) {
	stamps := 0
	for item := range strings.SplitSeq(value, h.params.ItemSeparator) {
		name, text, ok := strings.Cut(strings.TrimSpace(item), h.params.FieldSeparator)
		switch {
		case !ok:
			return nil, "", refuse(Malformed, "%s has a field without a value", h.signatureHeader)
		case name == h.params.Field:
			signatures = append(signatures, text)
		case name == h.params.TimestampField:
			timestamp = text
			stamps++
		}
	}
	if h.params.TimestampField != "" && (stamps != 1 || timestamp == "") {
		return nil, "", refuse(Malformed, "%s has %d timestamps", h.signatureHeader, stamps)
	}
	return signatures, timestamp, h.checkCount(signatures)
}

// checkCount refuses a request without a signature, and one with more than any provider sends.
func (h *HMAC) checkCount(signatures []string) *Error {
	if len(signatures) == 0 {
		return refuse(Malformed, "%s has no signature of the expected form", h.signatureHeader)
	}
	if len(signatures) > maxSignatures {
		return refuse(Malformed, "%s has more than %d signatures", h.signatureHeader, maxSignatures)
	}
	return nil
}

// bodyStamp returns the timestamp in a body.
func (h *HMAC) bodyStamp(body []byte) (string, *Error) {
	values, err := h.bodyTimestamp.Scan(body, nil)
	if err != nil {
		return "", refuse(Malformed, "the body has no readable timestamp: %v", err)
	}
	if v := values[0]; v.Kind == scan.String || v.Kind == scan.Number {
		if text := v.Text(); text != "" {
			return text, nil
		}
	}
	return "", refuse(Malformed, "the body has no timestamp at %s", h.params.TimestampPointer)
}

// compare compares the digest of every key with every signature.
func (h *HMAC) compare(r *Request, p *parts) error {
	var buf [96]byte // of the largest digest in base64
	readable := false
	for n, k := range h.keys {
		m := k.get()
		want := h.digest(m, r, p)
		for _, s := range p.signatures {
			got, ok := decodeDigest(h.params.Encoding, s, buf[:])
			readable = readable || ok
			if ok && hmac.Equal(got, want) {
				k.put(m)
				r.Secret = n + 1
				return nil
			}
		}
		k.put(m)
	}
	if !readable {
		return refuse(Malformed, "%s is not %s", h.signatureHeader, h.params.Encoding)
	}
	return refuse(Mismatch, "%s", h.signatureHeader)
}

// digest writes the signed pieces one after another; the body is never copied.
func (h *HMAC) digest(m *mac, r *Request, p *parts) []byte {
	for _, piece := range h.pieces {
		switch piece.kind {
		case pieceLiteral:
			m.write(piece.literal)
		case pieceBody:
			m.Write(r.Body)
		case pieceTimestamp:
			m.write(p.timestamp)
		case pieceID:
			m.write(p.id)
		case pieceURL:
			m.write(r.URL)
		case pieceMethod:
			m.write(r.Method)
		}
	}
	return m.digest()
}

// Proof implements [Scheme].
func (h *HMAC) Proof() Proof {
	p := Proof{URL: uses(h.pieces, pieceURL)}
	for _, name := range []string{h.signatureHeader, h.timestampHeader, h.idHeader} {
		if name != "" {
			p.Headers = append(p.Headers, name)
		}
	}
	return p
}

// stampBody writes now over the timestamp in a body, in a copy, as the provider makes one for each delivery. A body without one stays.
func (h *HMAC) stampBody(body []byte, now time.Time) []byte {
	values, err := h.bodyTimestamp.Scan(body, nil)
	if err != nil || values[0].Kind != scan.String && values[0].Kind != scan.Number {
		return body
	}
	v, text := values[0], formatStamp(h.params.TimestampUnit, now)
	if v.Kind == scan.String {
		text = strconv.Quote(text)
	}
	return slices.Concat(body[:v.Start], []byte(text), body[v.End:])
}

// Sign implements [Signer] with the first secret. A timestamp in the body becomes now, and r has another body then.
func (h *HMAC) Sign(r *Request, now time.Time) error {
	if len(h.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	p := parts{}
	if h.bodyTimestamp != nil {
		r.Body = h.stampBody(r.Body, now)
	}
	switch {
	case h.bodyTimestamp != nil && uses(h.pieces, pieceTimestamp):
		text, err := h.bodyStamp(r.Body)
		if err != nil {
			return err
		}
		p.timestamp = text
	case h.bodyTimestamp == nil && h.stamped:
		p.timestamp = formatStamp(h.params.TimestampUnit, now)
	}
	if h.timestampHeader != "" {
		r.Header.Set(h.timestampHeader, p.timestamp)
	}
	if h.idHeader != "" {
		if r.Header.Get(h.idHeader) == "" {
			r.Header.Set(h.idHeader, "msg_"+rand.Text())
		}
		p.id = r.Header.Get(h.idHeader)
	}
	m := h.keys[0].get()
	defer h.keys[0].put(m)
	signature := encodeDigest(h.params.Encoding, h.digest(m, r, &p))
	r.Header.Set(h.signatureHeader, h.headerValue(signature, p.timestamp))
	return nil
}

// headerValue writes the signature header as splitFields or split reads it.
func (h *HMAC) headerValue(signature, timestamp string) string {
	if h.params.Field == "" {
		return h.params.Prefix + signature
	}
	value := h.params.Field + h.params.FieldSeparator + signature
	if h.params.TimestampField != "" {
		value = h.params.TimestampField + h.params.FieldSeparator + timestamp + h.params.ItemSeparator + value
	}
	return value
}
