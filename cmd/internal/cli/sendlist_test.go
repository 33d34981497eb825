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

// TestSendTellsOfLists: a delivery with a list of events is no quarantined one because its answer has no id; what of it is quarantined is said, and why.
func TestSendTellsOfLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ answer, body, row, why string }{
		{`{"id":null,"events":2,"quarantined":0}`, `{"events":[{"id":"1","kind":"a"},{"id":"2","kind":"b"}]}`, "events: 2\x20", ""},
		{`{"id":null,"events":1,"quarantined":1}`, `{"events":[{"id":"1","kind":"a"},{"id":"2"}]}`, "events: 1, quarantined: 1", "all of it: element 2: missing_field: "},
		{`{"id":null,"events":0,"quarantined":1}`, `{"events":[{"id":"1"}]}`, "events: 0, quarantined: 1", "all of it: element 1: missing_field: "},
		{`{"id":null}`, `{"events":7}`, "quarantined\x20", "all of it: wrong_type: "},
		{`{"id":"1"}`, `{"events":[{"id":"1","kind":"a"}]}`, "event\x20", ""},
	} {
		intake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, tt.answer)
		}))
		defer intake.Close()
		dir := t.TempDir()
		file, body := filepath.Join(dir, "forebay.yaml"), filepath.Join(dir, "body.json")
		text := "version: 1\nkafka: {brokers: [\"127.0.0.1:1\"]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nlisten: {intake: \"" + intake.Listener.Addr().String() +
			"\"}\nteams:\n  acme:\n    sources:\n      batches: {preset: generic, secrets: [a-secret-of-sixteen], verify: {signature_header: X-Signature}, each: /events, event: {id: /id, type: /kind, entity: [/id]}}\n"
		for name, text := range map[string]string{file: text, body: tt.body} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		code := Main(t.Context(), []string{"send", "acme/batches", "--file", body, "-c", file}, Options{Stdout: &out, Stderr: &errs})
		said := strings.Contains(errs.String(), "quarantine")
		if code != 0 || !strings.Contains(out.String(), tt.row) || !strings.Contains(errs.String(), tt.why) || said != (tt.why != "") {
			t.Errorf("%s: %d\n%s%s", tt.answer, code, out.String(), errs.String())
		}
	}
}
