package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealthcheck: whether the process lives is asked where the file has it listen, from the machine itself, and without the file's secrets.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("role") == "stream" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"ready":false,"roles":{"stream":false},"checks":[{"name":"ledger","role":"stream","ok":false,"error":"no answer"}]}`)
		}
	})
	plain, encrypted := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	gone := httptest.NewServer(mux)
	gone.Close()
	waits, release := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(waits); <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	port := func(s *httptest.Server) string { return s.URL[strings.LastIndex(s.URL, ":"):] }
	file := func(listen string) string {
		path := filepath.Join(t.TempDir(), "forebay.yaml")
		text := "version: 1\nkafka: {brokers: [localhost:9092]}\npostgres: {url: \"${env:NOT_SET_ANYWHERE}\"}\nlisten: {intake: 127.0.0.1:1, " + listen + "\nteams:\n  acme:\n" +
			"    sources: {github: {preset: github, secrets: [\"${env:NOT_SET_ANYWHERE}\"]}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reference := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(reference, []byte("127.0.0.1"+port(plain)), 0o600); err != nil {
		t.Fatal(err)
	}
	tls := "operator: \"127.0.0.1" + port(encrypted) + "\"}\noperator: {auth: tokens, public_url: \"https://forebay.example.com\", tls: {cert_file: a.pem, key_file: a.key}}"
	for _, tt := range []struct {
		name, listen, flags string
		code                int
		says                string
	}{
		{"it lives", "operator: \"127.0.0.1" + port(plain) + "\"}", "", 0, ""},
		{"on every address", "operator: \"127.0.0.1:1\", health: \"0.0.0.0" + port(plain) + "\"}", "--ready", 0, ""},
		{"on the operator listener's TLS", tls, "", 0, ""},
		{"a role that waits", "operator: \"127.0.0.1" + port(plain) + "\"}", "--ready --role stream", 1, "ledger: no answer"},
		{"a role that does not", "operator: \"127.0.0.1" + port(plain) + "\"}", "--ready --role intake", 0, ""},
		{"an edit that is not in force", "operator: \"127.0.0.1" + port(plain) + "\"}\nnonsense: true", "", 0, ""},
		{"an address by reference", "operator: \"${file:" + reference + "}\"}", "", 0, ""},
		{"a reference to nothing", "operator: \"${file:/nowhere}\"}", "", 1, "/nowhere"},
		{"nobody listens", "operator: \"127.0.0.1" + port(gone) + "\"}", "", 1, "refused"},
		{"no answer", "operator: \"127.0.0.1" + port(slow) + "\"}", "--timeout 300ms", 1, "deadline"},
		{"a role of its life", "operator: \"127.0.0.1:1\"}", "--role intake", 2, "--ready"},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append([]string{"healthcheck", "-c", file(tt.listen)}, strings.Fields(tt.flags)...), Options{Stdout: &out, Stderr: &errs})
		if code != tt.code || out.Len() > 0 || !strings.Contains(errs.String(), tt.says) || (code == 0) != (errs.Len() == 0) {
			t.Errorf("%s: exit code %d, want %d; %s%s", tt.name, code, tt.code, out.String(), errs.String())
		}
	}
	select {
	case <-waits:
	default:
		t.Error("the one that does not answer was not asked")
	}
}
