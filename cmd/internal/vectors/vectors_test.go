package vectors

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../../ingest/testdata/vectors"

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	got, err := RunSignatures(filepath.Join(root, "public.json"), &out)
	if err != nil {
		t.Fatal(err)
	}
	// 95 signatures of 7 schemes and Slack's challenge; skipped are 26 signatures and 6 challenges.
	if got.Failed != 0 || got.Passed < 96 || got.Passed+got.Skipped != 128 {
		t.Errorf("%s", out.String())
	}
	if !strings.HasSuffix(out.String(), got.String()+"\n") {
		t.Errorf("the last line is not the counts: %s", out.String())
	}
}

func TestPublishedSamples(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	got, err := RunSamples(filepath.Join(root, "payloads", "index.json"), &out)
	if err != nil {
		t.Fatal(err)
	}
	if got.Failed != 0 || got.Passed < 9 || got.Passed+got.Skipped != 24 {
		t.Errorf("%s", out.String())
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
