package verify_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
)

// vector is the delivery of a published case.
type vector struct {
	Request struct {
		Method, URL  string
		Headers      map[string]string
		BodyEncoding string `json:"body_encoding"`
		Body         json.RawMessage
	}
}

// loadVectors reads the published cases, which cmd/internal/vectors runs.
func loadVectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("../vectors/public.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Signatures []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Signatures
}

func (v vector) request(t testing.TB) *verify.Request {
	t.Helper()
	r := &verify.Request{Method: v.Request.Method, URL: v.Request.URL, Header: http.Header{}}
	_, r.Query, _ = strings.Cut(v.Request.URL, "?")
	for name, value := range v.Request.Headers {
		r.Header.Add(name, value)
	}
	var text string
	var repeat struct {
		Unit  string
		Count int
	}
	var err error
	switch v.Request.BodyEncoding {
	case "repeat":
		err = json.Unmarshal(v.Request.Body, &repeat)
		text = strings.Repeat(repeat.Unit, repeat.Count)
	default:
		err = json.Unmarshal(v.Request.Body, &text)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Body = []byte(text)
	if v.Request.BodyEncoding == "file" {
		if r.Body, err = os.ReadFile("../vectors/" + text); err != nil {
			t.Fatal(err)
		}
	}
	if v.Request.BodyEncoding == "base64" {
		if r.Body, err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
