package cli

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestDocumentedCommands: the command lines in the pages are ones that the program understands.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"../../../README.md": 5, "../../../deploy/docs/PRODUCTION.md": 10, "../app/ATTENTION.md": 20} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(`(?m)^(?:bin/)?forebay ([^#>\n]+)`).FindAllStringSubmatch(string(text), -1)
		if len(lines) < least {
			t.Errorf("%s has %d commands: are there not more?", page, len(lines))
		}
		for _, line := range lines {
			parses(t, page, line[1])
		}
	}
}

// parsed has the commands that parses has seen: many pages show the same ones, and to make a parser takes a while.
var parsed sync.Map

// parses wants a command that a page shows to be one that the program understands.
func parses(t *testing.T, page, command string) {
	t.Helper()
	command = strings.TrimSpace(command)
	if _, before := parsed.LoadOrStore(command, true); before {
		return
	}
	var g grammar
	parser, err := kong.New(&g, kong.Name("forebay"), vars)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(parser, shellWords(command)); err != nil {
		t.Errorf("%s: forebay %s: %v", page, command, err)
	}
}

// TestPagesLinkToWhatIsThere: what the pages link to in this repository is there, and the README links the pages that a user looks for.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	wanted := map[string]bool{"sinks/http/AGENTS.md": true, "ingest/provider/PRESETS.md": true, "cmd/internal/config/CONFIGURATION.md": true,
		"cmd/internal/app/ATTENTION.md": true, "deploy/examples/first-hour.md": true}
	pages := []string{"README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/docs/PRODUCTION.md", "deploy/docs/REFERENCE.md", "deploy/examples/README.md", "deploy/examples/long-work.md"}
	for _, page := range append(pages, slices.Collect(maps.Keys(wanted))...) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
			if page == "README.md" {
				delete(wanted, m[1])
			}
		}
	}
	for page := range wanted {
		t.Errorf("README.md does not link %s", page)
	}
}

// TestAttentionHelpNamesEveryKind: who filters by kind finds in the help what there is.
func TestAttentionHelpNamesEveryKind(t *testing.T) {
	t.Parallel()
	help, _ := reflect.TypeFor[attentionCmd]().FieldByName("Kind")
	for _, kind := range api.AttentionKinds() {
		if !regexp.MustCompile(`\b` + kind + `\b`).MatchString(help.Tag.Get("help")) {
			t.Errorf("the help of --kind lacks %s", kind)
		}
	}
}

// shellWords splits a command line as a shell does, as far as the pages need it: quotes keep spaces together.
func shellWords(line string) (words []string) {
	for _, w := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(w, `"'`))
	}
	return words
}
