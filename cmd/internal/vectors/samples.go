package vectors

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// sampleFile is vectors/payloads/index.json.
type sampleFile struct {
	FormatVersion int `json:"format_version"`
	Payloads      []sample
}

// sample is one payload with what its event must have.
type sample struct {
	File, Provider string
	Headers        map[string]string
	Type           string
	Dedupe         located // the event's id
	Entity         []located
	Version        *located // nil: it must have none
	Payload        string   // snapshot or delta; empty: the index does not say
	SHA256         string   // of the file
	Bytes          int      // of the file
}

// located is a value and where the provider sends it: header:NAME, or a pointer into the body. The value is null if the header was not
// kept with the sample.
type located struct {
	From  string
	Value json.RawMessage
}

// RunSamples runs the payloads that the index at path lists: each is signed, verified and turned into an event, whose
// type, dedupe id, entity and version must be those of the index.
func RunSamples(path string, w io.Writer) (Result, error) {
	var file sampleFile
	if err := readJSON(path, &file); err != nil {
		return Result{}, err
	}
	if file.FormatVersion != 1 {
		return Result{}, fmt.Errorf("read %s: format_version %d, this program knows 1", path, file.FormatVersion)
	}
	r := report{w: w}
	for _, s := range file.Payloads {
		r.count(s.File, s.run(filepath.Dir(path)))
	}
	return r.finish()
}

// run makes an authentic delivery of the sample and compares the event that the provider's preset makes of it.
func (s sample) run(dir string) error {
	info, ok := provider.Lookup(s.Provider)
	if !ok {
		return skip{"no preset " + s.Provider}
	}
	body, err := readFile(dir, s.File, s.SHA256)
	if err != nil {
		return err
	}
	if len(body) != s.Bytes {
		return fmt.Errorf("has %d bytes, the index says %d", len(body), s.Bytes)
	}
	src, err := provider.Compile(provider.Config{Team: "vectors", Name: "sample", Preset: s.Provider,
		Secrets: []schemas.Secret{verify.ExampleSecret(info.Scheme)}})
	if err != nil {
		return err
	}
	now := time.Now()
	req, id, err := s.request(body)
	if err != nil {
		return err
	}
	if err := src.Sign(req, now); err != nil {
		return err
	}
	if err := src.Verifier.Verify(req, now); err != nil {
		return err
	}
	s.Version = s.Version.in(req.Body, body)
	if src.Several() { // the index tells the first
		elements, err := src.Split(req)
		if err != nil {
			return err
		}
		if len(elements) == 0 {
			return errors.New("the list is empty")
		}
		req = &elements[0]
	}
	event, err := src.Event(req, now)
	if err != nil {
		return err
	}
	return errors.Join(s.compare(event, id, req.Body), s.compareVersion(event.Version))
}

// request returns the delivery without a signature, and the id that its event must have. If the header with the id was not kept with the
// sample, the delivery gets one that is made up.
func (s sample) request(body []byte) (*verify.Request, string, error) {
	req := &verify.Request{Method: http.MethodPost, URL: "https://example.com/hook", Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
	if id, ok := s.Dedupe.text(); ok {
		return req, id, nil
	}
	name, ok := strings.CutPrefix(s.Dedupe.From, "header:")
	if !ok {
		return nil, "", fmt.Errorf("the index has no dedupe id at %s", s.Dedupe.From)
	}
	const id = "00000000-1111-4222-8333-444444444444"
	req.Header.Set(name, id)
	return req, id, nil
}

// compare returns how type, id and entity of the event differ from the index. body is what was sent: where the time of signing is in it, not
// quite the sample.
func (s sample) compare(e *schemas.Event, id string, body []byte) error {
	var values []string
	for _, v := range s.Entity {
		text, ok := v.text()
		if !ok {
			return fmt.Errorf("the index has no entity value at %s", v.From)
		}
		values = append(values, text)
	}
	var errs []error
	differ := func(what string, got, want string) {
		if got != want {
			errs = append(errs, fmt.Errorf("want %s %q, got %q", what, want, got))
		}
	}
	differ("type", e.Type, s.Type)
	if e.DeliveryID != "" {
		// The index gives the id that the provider has for a delivery. Where that is not signed, it is no more than that, and the event's
		// id is made of the body.
		differ("delivery id", e.DeliveryID, id)
		id = fmt.Sprintf("sha256:%x", sha256.Sum256(body))
		if strings.HasSuffix(e.ID, "/"+id) {
			id = e.ID // behind the delivery's topic
		}
	}
	differ("dedupe id", e.ID, id)
	differ("entity", string(e.Entity), string(schemas.NewEntityKey(values...)))
	if s.Payload != "" {
		differ("payload", string(e.Payload), s.Payload)
	}
	return errors.Join(errs...)
}

// compareVersion returns how the event's version differs from the index.
func (s sample) compareVersion(v schemas.Version) error {
	if s.Version == nil {
		if v.Kind != schemas.None {
			return fmt.Errorf("want no version, got %s %s", v.Kind, v.Sortable())
		}
		return nil
	}
	text, ok := s.Version.text()
	if !ok {
		return fmt.Errorf("the index has no version at %s", s.Version.From)
	}
	want, err := versionValue(v.Kind, text)
	if err != nil {
		return err
	}
	if v.Value != want {
		return fmt.Errorf("want version %s, got %s %s", text, v.Kind, v.Sortable())
	}
	return nil
}

// versionValue reads a version of the index as a number, a timestamp as nanoseconds. It does not use the catalogue's code, which it
// tests. A timestamp that is a bare number is in seconds, milliseconds or microseconds, by its length.
func versionValue(kind schemas.VersionKind, text string) (int64, error) {
	if kind != schemas.Timestamp {
		return strconv.ParseInt(text, 10, 64)
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UnixNano(), nil
	}
	if t, err := time.Parse("2006-01-02T15:04:05", text); err == nil { // with a fraction, too; of a preset that takes UTC
		return t.UnixNano(), nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	all := whole + fraction
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the index's version %q is no time that this runner reads", text)
	}
	switch len(all) {
	case 10:
		return n * int64(time.Second), nil
	case 13:
		return n * int64(time.Millisecond), nil
	case 16:
		return n * int64(time.Microsecond), nil
	}
	return 0, fmt.Errorf("the index's version %q is no time that this runner reads", text)
}

// in returns a value as it is in the body that was sent, where signing has changed it from the sample: the time of signing may be the version.
func (l *located) in(sent, sample []byte) *located {
	if l == nil || !strings.HasPrefix(l.From, "/") || bytes.Equal(sent, sample) {
		return l
	}
	set, err := scan.Compile(l.From)
	if err != nil {
		return l
	}
	values, err := set.Scan(sent, nil)
	if err != nil || values[0].Kind == scan.Absent {
		return l
	}
	return &located{l.From, values[0].Raw()}
}

// text returns a string's content or a number's exact text; ok is false for null.
func (l located) text() (text string, ok bool) {
	if len(l.Value) == 0 || bytes.Equal(l.Value, []byte("null")) {
		return "", false
	}
	if json.Unmarshal(l.Value, &text) == nil {
		return text, true
	}
	return string(l.Value), true
}
