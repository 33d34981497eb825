package deptest

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHeadingsStandAlone: a heading of a package comment follows a blank line of it. Else Go shows it as text.
func TestHeadingsStandAlone(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc == nil {
				continue
			}
			var lines []string
			for _, c := range f.Doc.List {
				lines = append(lines, c.Text)
			}
			for _, heading := range crowdedHeadings(lines) {
				t.Errorf("%s/%s: a blank // is missing before %q", p.ImportPath, name, heading)
			}
		}
	}
}

// crowdedHeadings returns the headings of a comment that follow no blank line.
func crowdedHeadings(lines []string) (found []string) {
	for i, line := range lines {
		if strings.HasPrefix(line, "// # ") && (i == 0 || lines[i-1] != "//") {
			found = append(found, line)
		}
	}
	return found
}

// TestCrowdedHeadingIsFound shows that the test above would fail.
func TestCrowdedHeadingIsFound(t *testing.T) {
	t.Parallel()
	if got := crowdedHeadings([]string{"// Package p.", "//", "// # A", "//", "// Text.", "// # B"}); !slices.Equal(got, []string{"// # B"}) {
		t.Errorf("found %q", got)
	}
}

// TestFoldersHaveEveryPackage: the table of folders in DESIGN.md names each package. What is for tests alone ends in "test", and may be left out.
func TestFoldersHaveEveryPackage(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readRoot(t, "DESIGN.md"), "\n### Folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	folders := namedFolders(table)
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		if !strings.HasSuffix(folder, "test") && !isNamed(folders, folder) {
			t.Errorf("DESIGN.md, Folders: %s is missing", folder)
		}
	}
}

var backticked = regexp.MustCompile("`[^`]+`")

// namedFolders returns the folders that a table names. In the first column a name without a top-level folder is one beside the first name's; in
// the second column it is below those.
func namedFolders(table string) (folders []string) {
	for row := range strings.Lines(table) {
		columns := strings.Split(row, "|")
		if len(columns) != 4 {
			continue
		}
		var first []string
		for _, name := range backticked.FindAllString(columns[1], -1) {
			name = strings.Trim(name, "`")
			if top, _, _ := strings.Cut(name, "/"); !slices.Contains(topLevel, top) && len(first) > 0 {
				name = path.Join(path.Dir(first[len(first)-1]), name)
			}
			first = append(first, name)
		}
		folders = append(folders, first...)
		for _, name := range backticked.FindAllString(columns[2], -1) {
			for _, above := range first {
				folders = append(folders, path.Join(strings.TrimSuffix(above, "/<type>"), strings.Trim(name, "`")))
			}
		}
	}
	return folders
}

// isNamed reports whether a folder is one of those named, of which sinks/<type> is any folder of sinks.
func isNamed(folders []string, folder string) bool {
	return slices.Contains(folders, folder) || slices.Contains(folders, path.Dir(folder)+"/<type>")
}

// TestFolderNotNamedIsFound shows that the test above would fail.
func TestFolderNotNamedIsFound(t *testing.T) {
	t.Parallel()
	folders := namedFolders("| folder | job |\n|---|---|\n| `cmd/forebay`, `cmd/internal/cli`, `api` | commands |\n| `sinks/<type>` | `exec/keeper`: more |\n| `schemas` | `scan`: JSON |\n")
	for folder, want := range map[string]bool{
		"cmd/forebay": true, "cmd/internal/cli": true, "cmd/internal/api": true, "sinks/http": true, "sinks/exec/keeper": true, "schemas/scan": true,
		"cmd/api": false, "cmd/internal/app": false, "schemas/record": false, "sinks/http/more": false,
	} {
		if got := isNamed(folders, folder); got != want {
			t.Errorf("%s: %t, want %t, of %q", folder, got, want, folders)
		}
	}
}
