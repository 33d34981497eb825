package deptest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the figures of DESIGN.md")

// What gets a row of its own: the compass of issue 15.
const (
	widePackage = 3500 // lines
	wideType    = 45   // methods
	newcomer    = 6000 // words of DESIGN.md before its appendices
)

// TestFiguresAreOfThisTree holds the last column of the table of figures in DESIGN.md to the tree; -update writes it. It fails where a figure
// is off by more than a tenth, so that not every commit has to touch the document.
func TestFiguresAreOfThisTree(t *testing.T) {
	t.Parallel()
	const head = "| figure | at 206ae56 | now |\n|---|---|---|\n"
	path := filepath.Join(moduleRoot(t), "DESIGN.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("DESIGN.md has no table that begins with\n%s", head)
	}
	table, after, _ := strings.Cut(rest, "\n\n")
	f := figuresOf(t, string(text))
	if *update {
		if err := os.WriteFile(path, []byte(before+head+f.table(table)+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, problem := range f.problems(table) {
		t.Errorf("%s (go test ./cmd/internal/deptest -run Figures -update)", problem)
	}
	if n := f.of["words of DESIGN.md before its appendices"]; n > newcomer {
		t.Errorf("DESIGN.md has %d words before its appendices: a newcomer reads %d", n, newcomer)
	}
}

// TestFiguresBite: a figure that is off, one that lacks, and one of what is gone are found, and -update keeps the column of before.
func TestFiguresBite(t *testing.T) {
	t.Parallel()
	f := figures{names: []string{"lines", "methods", "near"}, of: map[string]int{"lines": 12_345, "methods": 50, "near": 46, "small": 20},
		near: map[string]bool{"near": true}}
	for table, problems := range map[string]int{
		"| lines | 900 | 12,000 |\n| methods | 7 | 50 |":                   0,
		"| lines | 900 | 11,000 |\n| methods | 7 | 50 |":                   1,
		"| lines | 900 | 13,900 |\n| methods | 7 | 44 |":                   2,
		"| lines | 900 | 12,000 |":                                         1,
		"| lines | 900 | 12,000 |\n| methods | 7 | 50 |\n| x | | 1 |":      1,
		"| lines | 900 | 12,000 |\n| methods | 7 | 50 |\n| small | | 20 |": 0,
		"| lines | 900 | many |\n| methods | 7 | 50 |":                     1,
	} {
		if got := f.problems(table); len(got) != problems {
			t.Errorf("of\n%s\n%q is found", table, got)
		}
	}
	if got, want := f.table("| lines | 900 | 1 |\n| x | | 1 |"), "| lines | 900 | 12,345 |\n| methods | | 50 |\n| near | | 46 |"; got != want {
		t.Errorf("the table is\n%s\nand not\n%s", got, want)
	}
}

// figures are what can be counted of a tree.
type figures struct {
	names []string        // of those that get a row, in the order of the table
	near  map[string]bool // of those that get one, but are so near to what is too small for it that nothing is wrong without
	of    map[string]int  // by name, also of those that get none
}

func (f *figures) add(name string, n int) {
	f.names = append(f.names, name)
	f.of[name] = n
}

// addLargest adds the counts, and a row for each above least, the largest first.
func (f *figures) addLargest(what string, counts map[string]int, least int) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		row := fmt.Sprintf("%s `%s`", what, name)
		f.of[row] = counts[name]
		if counts[name] > least {
			f.names = append(f.names, row)
			f.near[row] = 10*counts[name] <= 11*least
		}
	}
}

var figureRow = regexp.MustCompile(`(?m)^\| (.+?) \|(.*)\| (\S+) \|$`)

// table is the rows as they have to be, with the middle column of those that are there.
func (f *figures) table(old string) string {
	middle := map[string]string{}
	for _, row := range figureRow.FindAllStringSubmatch(old, -1) {
		middle[row[1]] = row[2]
	}
	rows := make([]string, len(f.names))
	for i, name := range f.names {
		m := middle[name]
		if m == "" {
			m = " "
		}
		rows[i] = fmt.Sprintf("| %s |%s| %s |", name, m, grouped(f.of[name]))
	}
	return strings.Join(rows, "\n")
}

// problems compares a table with the tree.
func (f *figures) problems(table string) (problems []string) {
	said := map[string]bool{}
	for _, row := range figureRow.FindAllStringSubmatch(table, -1) {
		name := row[1]
		said[name] = true
		now, known := f.of[name]
		n, err := strconv.Atoi(strings.ReplaceAll(row[3], ",", ""))
		switch {
		case !known:
			problems = append(problems, name+": DESIGN.md has a figure that the tree does not")
		case err != nil || 10*max(n-now, now-n) > now:
			problems = append(problems, fmt.Sprintf("%s: DESIGN.md says %s, the tree has %s", name, row[3], grouped(now)))
		}
	}
	for _, name := range f.names {
		if !said[name] && !f.near[name] {
			problems = append(problems, fmt.Sprintf("%s: the tree has %s, DESIGN.md says nothing", name, grouped(f.of[name])))
		}
	}
	return problems
}

// grouped writes 12345 as 12,345.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// figuresOf counts. Lines are those of Go files that are no tests; types are those outside the kits for tests, which end in "test".
func figuresOf(t *testing.T, design string) *figures {
	t.Helper()
	f := &figures{of: map[string]int{}, near: map[string]bool{}}
	lines, folders, methods, all := map[string]int{}, map[string]int{}, map[string]int{}, 0
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		folder, _, _ := strings.Cut(path, "/")
		for _, name := range p.GoFiles {
			n := linesOf(t, filepath.Join(p.Dir, name))
			lines[path], folders[folder], all = lines[path]+n, folders[folder]+n, all+n
			if !strings.HasSuffix(path, "test") {
				countMethods(t, filepath.Join(p.Dir, name), path, methods)
			}
		}
	}
	forebay := 0
	for _, p := range goList(t, "-deps", module+"/cmd/forebay") {
		forebay += lines[strings.TrimPrefix(p.ImportPath, module+"/")]
	}
	f.add("lines in all, with the kits for tests and `forebay-bench`", all)
	f.add("lines that `forebay` is built of", forebay)
	f.addLargest("lines below", folders, 0)
	f.addLargest("lines of package", lines, widePackage)
	f.addLargest("methods of", methods, wideType)
	f.add("direct dependencies", directDependencies(t))
	body, _, _ := strings.Cut(design, "\n## Appendix")
	f.add("words of DESIGN.md before its appendices", len(strings.Fields(body)))
	f.add("words of DECISIONS.md", len(strings.Fields(readRoot(t, "DECISIONS.md"))))
	return f
}

func linesOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

var receiver = regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)(?:\[[^\]]*\])?\) \w`)

// countMethods adds a file's methods to their types' counts, as "path.Type".
func countMethods(t *testing.T, file, path string, counts map[string]int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range receiver.FindAllStringSubmatch(string(text), -1) {
		counts[path+"."+m[1]]++
	}
}

// directDependencies counts the lines of go.mod that require a module and do not say indirect.
func directDependencies(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(readRoot(t, "go.mod")) {
		if strings.HasPrefix(line, "\t") && strings.Contains(line, " v") && !strings.Contains(line, "// indirect") {
			n++
		}
	}
	return n
}

func readRoot(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
