package doctor

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// unpack returns the files of a bundle by their names.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(text)
	}
}

// TestBundle writes bundles of an installation that nothing of is started. What goes into one of a running process, and that no secret of
// any key nor anything of a body does, is TestNoSecretIsShown's of package integration.
func TestBundle(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.replace("{type: log}", `{type: http, url: "https://127.0.0.1:1/hook/of-a-token-1234567890", secret: whsec_bGl0ZXJhbC1zZWNyZXQ=, allow_networks: [127.0.0.0/8]}`)
	log := filepath.Join(t.TempDir(), "forebay.log")
	line := "level=INFO msg=\"something with first-secret-of-github in it\"\n"
	if err := os.WriteFile(log, []byte("the first line\n"+strings.Repeat(line, logEnd/len(line)+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	i.write()
	var hidden []config.Hidden
	cfg := i.config()
	cfg.Load = func(roles ...config.Role) (*config.Config, error) {
		return config.Load(config.Options{Path: i.path, Roles: roles, Look: true, Hide: func(h config.Hidden) { hidden = append(hidden, h) }})
	}
	r := Run(t.Context(), cfg)
	b := Bundle{Report: r, Hidden: hidden, Log: log, Build: "test"}
	path := filepath.Join(t.TempDir(), "support.tar.gz")
	names, missing, err := b.Write(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"README.txt", "checks.json", "config.yaml", "log.txt", "manifest.json"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if len(missing) != 6 || missing["metrics.txt"] == "" {
		t.Errorf("missing: %v", missing)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle's file: %v, %v", info, err)
	}
	files := unpack(t, path)
	for name, text := range files {
		for _, secret := range []string{"first-secret-of-github", "bGl0ZXJhbC1zZWNyZXQ", "of-a-token-1234567890", i.dbURL} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", name, secret)
			}
		}
	}
	if !strings.Contains(files["config.yaml"], "${file:") || !strings.Contains(files["config.yaml"], "<redacted>") {
		t.Errorf("config.yaml:\n%s", files["config.yaml"])
	}
	if text := files["log.txt"]; strings.Contains(text, "the first line") || !strings.HasPrefix(text, "level=INFO") || len(text) < logEnd/2 {
		t.Errorf("log.txt has %d bytes and begins %.80q", len(text), text)
	}
	var found []Finding
	if err := json.Unmarshal([]byte(files["checks.json"]), &found); err != nil || len(found) != len(r.Findings) {
		t.Errorf("checks.json has %d findings of %d: %v", len(found), len(r.Findings), err)
	}
	if _, _, err := b.Write(t.Context(), path); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("over a file that exists: %v", err)
	}
}
