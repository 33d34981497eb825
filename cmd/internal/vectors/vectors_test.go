package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
)

const root = "../../../ingest/vectors"

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "public.json")
	var file signatureFile
	if err := readJSON(path, &file); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	got, err := RunSignatures(path, &out)
	if err != nil {
		t.Fatal(err)
	}

	if got.Failed != 0 || got.Skipped != 0 || got.Passed+got.Skipped != len(file.Signatures)+len(file.Challenges) {
		t.Errorf("%s", out.String())
	}
	if !strings.HasSuffix(out.String(), got.String()+"\n") {
		t.Errorf("the last line is not the counts: %s", out.String())
	}
}

func TestPublishedSamples(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "payloads", "index.json")
	var file sampleFile
	if err := readJSON(path, &file); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	got, err := RunSamples(path, &out)
	if err != nil {
		t.Fatal(err)
	}
	if got.Failed != 0 || got.Passed < 9 || got.Passed+got.Skipped != len(file.Payloads) {
		t.Errorf("%s", out.String())
	}
}

// TestEveryPresetIsShown: a preset comes with a signature that its provider made, one that it must refuse, and a body.
// Two presets are no provider's: generic has no facts, and Standard Webhooks no bodies.
func TestEveryPresetIsShown(t *testing.T) {
	t.Parallel()
	var signatures signatureFile
	var samples sampleFile
	if err := errors.Join(readJSON(filepath.Join(root, "public.json"), &signatures),
		readJSON(filepath.Join(root, "payloads", "index.json"), &samples)); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, c := range signatures.Signatures {
		if _, ok := c.preset(); ok {
			shown[fmt.Sprintf("%s %t", presetOf(c.Provider), c.Expect.Valid)] = true
		}
	}
	for _, s := range samples.Payloads {
		shown[s.Provider+" body"] = true
	}
	for _, info := range provider.Presets() {
		need := []string{" true", " false", " body"}
		switch info.Name {
		case "generic":
			need = nil
		case "standard-webhooks":
			need = need[:2]
		}
		for _, kind := range need {
			if !shown[info.Name+kind] {
				t.Errorf("preset %s: public.json needs a signature that is valid and one that is not, index.json a body; missing:%s", info.Name, kind)
			}
		}
	}
}

// TestPresetIsRun: a case that holds by its own parameters fails where its provider's preset says another thing.
func TestPresetIsRun(t *testing.T) {
	t.Parallel()
	var file signatureFile
	if err := readJSON(filepath.Join(root, "public.json"), &file); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(file.Signatures, func(c signatureCase) bool { return c.Provider == "gitea" && c.Expect.Valid })
	c := file.Signatures[i]
	if err := c.run(root); err != nil {
		t.Fatal(err)
	}
	c.Provider = "slack"
	if err := c.run(root); err == nil || !strings.Contains(err.Error(), "preset slack: want it accepted") {
		t.Errorf("Gitea's signature as Slack's: %v", err)
	}
}

// TestEveryPayloadSaysItsOrigin: a body of somebody else's is kept under their licence.
func TestEveryPayloadSaysItsOrigin(t *testing.T) {
	t.Parallel()
	var file sampleFile
	sources, err := os.ReadFile(filepath.Join(root, "payloads", "SOURCES.md"))
	if err := errors.Join(err, readJSON(filepath.Join(root, "payloads", "index.json"), &file)); err != nil {
		t.Fatal(err)
	}
	bodies, err := filepath.Glob(filepath.Join(root, "payloads", "*", "*"))
	if err != nil || len(bodies) != len(file.Payloads) {
		t.Errorf("%d bodies, index.json lists %d (%v)", len(bodies), len(file.Payloads), err)
	}
	for _, s := range file.Payloads {
		if !bytes.Contains(sources, []byte("| `"+s.File+"` |")) {
			t.Errorf("SOURCES.md has no row for %s", s.File)
		}
	}
}

// TestEveryCaseCanFail breaks each published case in turn: a runner that cannot fail proves nothing.
func TestEveryCaseCanFail(t *testing.T) {
	t.Parallel()
	var file map[string]any
	if err := readJSON(filepath.Join(root, "public.json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file["signatures"].([]any) {
		expect := c.(map[string]any)["expect"].(map[string]any)
		if expect["valid"] = !expect["valid"].(bool); expect["valid"] == false {
			expect["reason"] = "mismatch"
		}
	}
	for _, c := range file["challenges"].([]any) {
		c.(map[string]any)["expect_response"].(map[string]any)["status"] = 299
	}
	got, out := runJSON(t, file, RunSignatures)
	if got.Passed != 0 || got.Failed < 96 || strings.Count(out, "FAIL ") != got.Failed {
		t.Errorf("%s", out)
	}
}

func runJSON(t *testing.T, v any, run func(string, io.Writer) (Result, error)) (Result, string) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	got, err := run(path, &out)
	if err != nil {
		t.Fatal(err)
	}
	return got, out.String()
}

// TestEverySampleCanFail changes what the index expects of each payload, one kind of value at a time.
func TestEverySampleCanFail(t *testing.T) {
	t.Parallel()
	changes := map[string]func(s map[string]any){
		"type":    func(s map[string]any) { s["type"] = "com.example" },
		"entity":  func(s map[string]any) { s["entity"].([]any)[0].(map[string]any)["value"] = "other" },
		"dedupe":  func(s map[string]any) { s["dedupe"] = map[string]any{"from": "/id", "value": "other"} },
		"no id":   func(s map[string]any) { s["dedupe"] = map[string]any{"from": "/id", "value": nil} },
		"version": func(s map[string]any) { s["version"] = map[string]any{"from": "/x", "value": "2001-01-01T00:00:00Z"} },
		"digest":  func(s map[string]any) { s["sha256"] = strings.Repeat("0", 64) },
		"bytes":   func(s map[string]any) { s["bytes"] = 1 },
		"outside": func(s map[string]any) { s["file"] = "../payloads/index.json" },
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "payloads"))); err != nil {
		t.Fatal(err)
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var file map[string]any
			if err := readJSON(filepath.Join(root, "payloads", "index.json"), &file); err != nil {
				t.Fatal(err)
			}
			for _, s := range file["payloads"].([]any) {
				change(s.(map[string]any))
			}
			raw, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name+".json")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			got, err := RunSamples(path, &out)
			if err != nil || got.Passed != 0 || got.Failed < 9 {
				t.Errorf("%v %s", err, out.String())
			}
		})
	}
}

// signatureOf is a case that holds, with the given body members instead of its own.
func signatureOf(body map[string]any) map[string]any {
	request := map[string]any{"method": "POST", "headers": map[string]any{"X-Token": "s"}}
	maps.Copy(request, body)
	return map[string]any{"format_version": 1, "signatures": []any{map[string]any{"id": "case", "scheme": "token",
		"params": map[string]any{"header": "X-Token"}, "keys": []any{map[string]any{"format": "utf8", "value": "s"}},
		"request": request, "expect": map[string]any{"valid": true}}}}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		body map[string]any
		ok   bool
	}{
		{"none", nil, true},
		{"utf8", map[string]any{"body_encoding": "utf8", "body": "x"}, true},
		{"base64", map[string]any{"body_encoding": "base64", "body": "AP8="}, true},
		{"repeat", map[string]any{"body_encoding": "repeat", "body": map[string]any{"unit": "ab", "count": 3}}, true},
		{"not base64", map[string]any{"body_encoding": "base64", "body": "?"}, false},
		{"endless", map[string]any{"body_encoding": "repeat", "body": map[string]any{"unit": "ab", "count": 1 << 40}}, false},
		{"unknown member", map[string]any{"body_encoding": "repeat", "body": map[string]any{"unit": "a", "count": 1, "x": 1}}, false},
		{"unknown encoding", map[string]any{"body_encoding": "rot13", "body": "x"}, false},
		{"no text", map[string]any{"body_encoding": "utf8", "body": 1}, false},
		{"file outside", map[string]any{"body_encoding": "file", "body": "/etc/hostname"}, false},
		{"no file", map[string]any{"body_encoding": "file", "body": "missing"}, false},
	}
	for _, tt := range tests {
		got, out := runJSON(t, signatureOf(tt.body), RunSignatures)
		if (got.Passed == 1) != tt.ok || got.Passed+got.Failed != 1 {
			t.Errorf("%s: %s", tt.name, out)
		}
	}
}

func TestBodyFile(t *testing.T) {
	t.Parallel()
	req := request{BodyEncoding: "file", Body: json.RawMessage(`"stripe/invoice.paid.json"`),
		BodySHA256: "90f57221b6becceea3bb9574b7d4d0e1eaa9bcfe8b978e247bbd27c474d13628"}
	body, err := req.body(filepath.Join(root, "payloads"))
	if err != nil || len(body) != 6245 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	req.BodySHA256 = ""
	if _, err := req.body(filepath.Join(root, "payloads")); err == nil {
		t.Error("a file without a digest")
	}
}

func TestCaseParameters(t *testing.T) {
	t.Parallel()
	c := signatureOf(nil)
	one := c["signatures"].([]any)[0].(map[string]any)
	one["params"] = map[string]any{"header": "X-Token", "colour": "red"}
	if got, out := runJSON(t, c, RunSignatures); got.Failed != 1 {
		t.Errorf("an unknown parameter: %s", out)
	}
	one["params"], one["keys"] = map[string]any{"header": "X-Token"}, []any{map[string]any{"format": "jwk", "value": "s"}}
	if got, out := runJSON(t, c, RunSignatures); got.Skipped != 1 {
		t.Errorf("an unknown key format: %s", out)
	}
	one["keys"] = []any{map[string]any{"format": "hex", "value": "zz"}}
	if got, out := runJSON(t, c, RunSignatures); got.Failed != 1 || strings.Contains(out, "zz") {
		t.Errorf("a broken key: %s", out)
	}
	one["keys"] = []any{map[string]any{"format": "base64", "value": "cw=="}}
	if got, out := runJSON(t, c, RunSignatures); got.Passed != 1 {
		t.Errorf("a base64 key: %s", out)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"broken.json": "{", "other.json": `{"format_version":2}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"missing.json", "broken.json", "other.json"} {
		if _, err := RunSignatures(filepath.Join(dir, name), io.Discard); err == nil {
			t.Errorf("signatures of %s", name)
		}
		if _, err := RunSamples(filepath.Join(dir, name), io.Discard); err == nil {
			t.Errorf("samples of %s", name)
		}
	}
	if _, err := RunSignatures(filepath.Join(root, "public.json"), failingWriter{}); err == nil {
		t.Error("a report that nobody could read")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }
