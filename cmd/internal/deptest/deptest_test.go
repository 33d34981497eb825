package deptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is what "go list -json" says of a package.
type listed struct {
	ImportPath, Dir, Doc               string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
	Standard                           bool
	Files                              map[string]*ast.File `json:"-"` // those of GoFiles, in our own packages
}

// list returns every package of the module, which the go tool is asked for once.
func list(t *testing.T) []listed {
	t.Helper()
	packages, err := ofModule()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 8 {
		t.Fatalf("go list found only %d packages: this test would check nothing", len(packages))
	}
	return packages
}

var ofModule = sync.OnceValues(func() ([]listed, error) {
	packages, err := goList(module + "/...")
	for i, p := range packages {
		packages[i].Files = map[string]*ast.File{}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				return nil, err
			}
			packages[i].Files[name] = f
		}
	}
	return packages, err
})

func goList(args ...string) ([]listed, error) {
	const fields = "-json=ImportPath,Dir,Doc,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps"
	cmd := exec.Command("go", append([]string{"list", fields}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, r := range rules {
			for _, path := range r.broken(p) {
				t.Errorf("%s imports %s\n\tbut %s", p.ImportPath, path, r.reason)
			}
		}
	}
}

// TestBinariesCarryNoTestRunner names who brings it in.
func TestBinariesCarryNoTestRunner(t *testing.T) {
	t.Parallel()
	linked, err := goList("-deps", module+"/cmd/forebay", module+"/cmd/forebay-bench")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range linked {
		if !p.Standard && slices.Contains(p.Imports, "testing") {
			t.Errorf("%s brings testing into a binary", p.ImportPath)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		doc := p.Doc
		if len(p.GoFiles) == 0 { // go list does not read the comments of test files
			doc = docOf(t, p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		}
		if doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func docOf(t *testing.T, dir string, files []string) string {
	t.Helper()
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			return f.Doc.Text()
		}
	}
	return ""
}

func TestTopLevelFolders(t *testing.T) {
	t.Parallel()
	root := moduleRoot(t)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) {
			t.Errorf("folder %s at the top: the layout has only %s", e.Name(), strings.Join(topLevel, ", "))
		}
		if strings.HasSuffix(e.Name(), ".go") {
			t.Errorf("%s at the top: Go code lives in a package", e.Name())
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			t.Errorf("%s: deploy holds no Go", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// TestRulesBite shows each kind of rule broken once: a table of rules that match nothing would be green, too.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	of := func(path string, imports ...string) listed {
		for i := range imports {
			imports[i] = absolute(imports[i])
		}
		return listed{ImportPath: absolute(path), Imports: imports, Deps: imports}
	}
	const kgo, pgx = "github.com/twmb/franz-go/pkg/kgo", "github.com/jackc/pgx/v5/pgxpool"
	for _, tt := range []struct {
		p      listed
		broken int // rules
	}{
		{of("schemas/record", "schemas", kgo), 0},
		{of("schemas", "ingest/verify"), 1},
		{of("schemas", kgo), 1},
		{of("ingest", "stream"), 1},
		{of("ingest/verify", pgx), 2},
		{of("ingest/producer", kgo), 0},
		{of("stream/lane", kgo), 1},
		{of("stream/reader", "stream/batch"), 1},
		{of("cmd/forebay", "stream/internal/streamtest"), 1},
		{of("stream/ledger", pgx), 0},
		{of("stream/destination", "stream/inbox"), 2}, // its own rule, and that of inbox
		{of("stream", pgx), 1},
		{of("stream/gate", "net/http"), 1},
		{of("sinks/http", "schemas", "stream/sink", "stream/sink/sinktest"), 0},
		{of("sinks/http", kgo), 2},
		{listed{ImportPath: absolute("sinks/slack"), Deps: []string{pgx}}, 1},
		{of("stream/sink/sinktest", "stream/sink", "testing"), 0},
		{of("cmd/internal/app", "ingest", "stream", "sinks/http", kgo, "os/exec"), 0},
		{of("cmd/internal/console", "stream/ledger"), 1},
		{of("cmd/forebay", "testing"), 1},
		{of("stream", "log"), 1},
		{of("stream", "log/slog"), 0},
		{of("sinks/http", "os/exec"), 1},
		{of("sinks/exec", "os/exec"), 0},
		{listed{ImportPath: absolute("stream"), TestImports: []string{"github.com/cloudevents/sdk-go/v2"}}, 1},
		{listed{ImportPath: absolute("schemas/record"), XTestImports: []string{"github.com/cloudevents/sdk-go/v2"}}, 0},
		{listed{ImportPath: absolute("schemas/record"), Imports: []string{"github.com/cloudevents/sdk-go/v2"}}, 1},
		{of("schemas/record/cesdk", "github.com/cloudevents/sdk-go/v2"), 0},
		{listed{ImportPath: absolute("cmd/forebay"), Deps: []string{absolute("schemas/record/cesdk")}}, 1},
	} {
		var reasons []string
		for _, r := range rules {
			if len(r.broken(tt.p)) > 0 {
				reasons = append(reasons, r.reason)
			}
		}
		if diff := cmp.Diff(tt.broken, len(reasons)); diff != "" {
			t.Errorf("%+v breaks %q (-want +got)\n%s", tt.p, reasons, diff)
		}
	}
}
