package deptest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	walkRow = regexp.MustCompile("(?m)^\\| `([^`]+\\.go)` \\| (.+) \\|$")
	walkHop = regexp.MustCompile("^`(\\w+)` ")
)

// TestWalkOfOneEventIsThere holds the list of hops in DESIGN.md to the code: each names a function of its file, and as many are
// counted as are listed.
func TestWalkOfOneEventIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "DESIGN.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(text), "\n## Appendix: the walk of one event\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	files, hops := map[string]map[string]bool{}, 0
	for _, row := range walkRow.FindAllStringSubmatch(walk, -1) {
		file := row[1]
		if files[file] == nil {
			files[file] = functionsOf(t, file)
		}
		for hop := range strings.SplitSeq(row[2], "; ") {
			name := walkHop.FindStringSubmatch(hop)
			if hops++; name == nil || !files[file][name[1]] {
				t.Errorf("%s: no function begins %q", file, hop)
			}
		}
	}
	if want := fmt.Sprintf("%d hops in %d files", hops, len(files)); hops == 0 || !strings.Contains(strings.Join(strings.Fields(walk), " "), want) {
		t.Errorf("DESIGN.md lists %s, and says something else", want)
	}
}

// functionsOf are the names of a file's functions and methods.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleRoot(t), file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			names[fn.Name.Name] = true
		}
	}
	return names
}
