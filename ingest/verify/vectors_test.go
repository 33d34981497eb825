package verify_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
)

// published are the deliveries of the published cases, which cmd/internal/vectors runs, without those whose bodies are made or lie in files.
func published(t testing.TB) (all []*verify.Request) {
	t.Helper()
	raw, err := os.ReadFile("../vectors/public.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Signatures []struct {
			Request struct {
				Method, URL  string
				Headers      map[string]string
				BodyEncoding string `json:"body_encoding"`
				Body         any
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, s := range file.Signatures {
		text, _ := s.Request.Body.(string)
		r := &verify.Request{Method: s.Request.Method, URL: s.Request.URL, Header: http.Header{}, Body: []byte(text)}
		for name, value := range s.Request.Headers {
			r.Header.Add(name, value)
		}
		switch s.Request.BodyEncoding {
		case "repeat", "file":
			continue
		case "base64":
			if r.Body, err = base64.StdEncoding.DecodeString(text); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("no case is published")
	}
	return all
}
