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

// maxBody bounds a body that a case only describes.
const maxBody = 64 << 20

type request struct {
	Method, URL  string
	Headers      map[string]string
	BodyEncoding string `json:"body_encoding"`
	Body         json.RawMessage
	BodySHA256   string `json:"body_sha256"`
}

// build makes the request; files are looked up below dir.
func (r request) build(dir string) (*verify.Request, error) {
	out := &verify.Request{Method: r.Method, URL: r.URL, Header: http.Header{}}
	for name, value := range r.Headers {
		out.Header.Add(name, value)
	}
	var err error
	if out.Body, err = r.body(dir); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return out, nil
}

func (r request) body(dir string) ([]byte, error) {
	if r.BodyEncoding == "repeat" {
		var of struct {
			Unit  string
			Count int
		}
		if err := strict(r.Body, &of); err != nil {
			return nil, err
		}
		if of.Unit == "" || of.Count < 0 || of.Count > maxBody/len(of.Unit) {
			return nil, fmt.Errorf("repeat is empty or longer than %d bytes", maxBody)
		}
		return []byte(strings.Repeat(of.Unit, of.Count)), nil
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

// readFile reads a file below dir and compares it with its digest.
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

// strict decodes raw into v and refuses names that v does not have; nothing or null leaves v alone.
func strict(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
