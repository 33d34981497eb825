package vectors

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/forebay-io/forebay/ingest/verify"
)

// maxBody is the largest body that a case may describe by repetition, in bytes.
const maxBody = 64 << 20

// request is a case's request.
type request struct {
	Method, URL  string
	Headers      map[string]string
	BodyEncoding string          `json:"body_encoding"` // utf8 (the default), base64, repeat or file
	Body         json.RawMessage // a text; for repeat {"unit", "count"}; for file the file's name
	BodySHA256   string          `json:"body_sha256"` // of the file
}

// build makes the request. Files are below dir.
func (r request) build(dir string) (*verify.Request, error) {
	out := &verify.Request{Method: r.Method, URL: r.URL, Header: http.Header{}}
	for name, value := range r.Headers {
		out.Header.Add(name, value)
	}
	_, out.Query, _ = strings.Cut(r.URL, "?")
	var err error
	if out.Body, err = r.body(dir); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return out, nil
}

// body returns the body's bytes.
func (r request) body(dir string) ([]byte, error) {
	if r.BodyEncoding == "repeat" {
		var repeat struct {
			Unit  string
			Count int
		}
		if err := strict(r.Body, &repeat); err != nil {
			return nil, err
		}
		if repeat.Unit == "" || repeat.Count < 0 || repeat.Count > maxBody/len(repeat.Unit) {
			return nil, fmt.Errorf("repeat is empty or longer than %d bytes", maxBody)
		}
		return []byte(strings.Repeat(repeat.Unit, repeat.Count)), nil
	}
	var text string
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &text); err != nil {
			return nil, err
		}
	}
	switch r.BodyEncoding {
	case "", "utf8":
		return []byte(text), nil
	case "base64":
		return base64.StdEncoding.DecodeString(text)
	case "file":
		return readFile(dir, text, r.BodySHA256)
	}
	return nil, fmt.Errorf("body_encoding %q is not one of utf8, base64, repeat, file", r.BodyEncoding)
}

// readFile reads a file below dir. It is an error if the file's SHA-256 is not digest.
func readFile(dir, name, digest string) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is not below %s", name, dir)
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s has another SHA-256 than the file says", name)
	}
	return raw, nil
}

// strict decodes raw into v. Names that v does not have are an error. If raw is empty or null, v stays as it is.
func strict(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
