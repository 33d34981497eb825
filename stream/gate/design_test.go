package gate

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	designRow = regexp.MustCompile("^\\| (\\w+) \\| `(\\w+)` \\| (.+) \\|$")
	testName  = regexp.MustCompile("`(Test\\w+)`")
)

// TestDesignNamesEveryRow: the table in DESIGN.md has the rows of the one in doc.go, and the tests of this package that it
// names, before the first semicolon, have them too.
func TestDesignNamesEveryRow(t *testing.T) {
	t.Parallel()
	design, err := os.ReadFile("../../DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	var rows []pair
	for l := range strings.Lines(string(design)) {
		m := designRow.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil || !slices.Contains(Decisions(), Decision(m[1])) {
			continue
		}
		rows = append(rows, pair{Decision(m[1]), Reason(m[2])})
		here, _, _ := strings.Cut(m[3], ";")
		names := testName.FindAllStringSubmatch(here, -1)
		if len(names) == 0 {
			t.Errorf("%s/%s names no test: %s", m[1], m[2], m[3])
		}
		for _, name := range names {
			_, body, ok := strings.Cut(tests.String(), "\nfunc "+name[1]+"(t *testing.T) {\n")
			body, _, _ = strings.Cut(body, "\n}\n")
			if !ok || !strings.Contains(body, m[1]+"/"+m[2]) {
				t.Errorf("%s/%s is not in %s", m[1], m[2], name[1])
			}
		}
	}
	if want := documented(t); !slices.Equal(rows, want) {
		t.Errorf("DESIGN.md has the rows\n%v\ndoc.go has\n%v", rows, want)
	}
}
