package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
)

// TestDevExample: what `config init --dev` writes has nothing wrong with it, for every preset and kind of URL.
func TestDevExample(t *testing.T) {
	t.Parallel()
	made := 0
	for _, p := range provider.Presets() {
		for _, to := range []string{"http://127.0.0.1:8000/run", "http://localhost:8000/run", "https://10.1.2.3/", "http://[::1]:8000/", "https://agents.example.com/run?a=${x}&b=\"c"} {
			text, err := DevExample(p.Name, to)
			if p.Name == "generic" {
				if err == nil {
					t.Errorf("%s: a file without a mapping", p.Name)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "forebay.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(Options{Path: file, Embedded: true, Run: true, Lookup: func(string) (string, bool) { return "", false }})
			if err != nil {
				t.Errorf("%s to %s: %v\n%s", p.Name, to, err, text)
				continue
			}
			if _, err := provider.Compile(c.Source("acme", p.Name)); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
			made++
			if len(c.Teams["acme"].Subscriptions) != 1 || !strings.Contains(string(text), "embedded: true") {
				t.Errorf("%s to %s:\n%s", p.Name, to, text)
			}
		}
	}
	if made == 0 {
		t.Error("no preset was tried")
	}
	for _, to := range []string{"", "127.0.0.1:8000", "ftp://x/", "http://agent:8000/run"} {
		if text, err := DevExample("github", to); err == nil {
			t.Errorf("%q is taken:\n%s", to, text)
		}
	}
	if _, err := DevExample("gitub", "http://127.0.0.1:1/"); err == nil {
		t.Error("an unknown preset is taken")
	}
}
