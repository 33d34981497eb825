package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestDocumentedCommands: the command lines in the pages, in blocks and of the pages about alerts in sentences too, are ones that the program
// understands.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	runbooks, err := filepath.Glob("../../../deploy/runbooks/Forebay*.md")
	if err != nil || len(runbooks) == 0 {
		t.Fatalf("%d pages about alerts, %v", len(runbooks), err)
	}
	for _, page := range append(runbooks, "../../../README.md", "../../../deploy/docs/PRODUCTION.md", "../../../deploy/docs/DEPLOY.md",
		"../../../deploy/docs/RESTORE.md", "../app/ATTENTION.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands := regexp.MustCompile(`(?m)^ *(?:(?:docker compose|kubectl) [^#>\n]*/|bin/)?forebay ([^#><\n]+)`)
		if strings.Contains(page, "runbooks") {
			commands = regexp.MustCompile("(?m)(?:^|`)forebay ([^`\n]+)")
		}
		lines := commands.FindAllStringSubmatch(string(text), -1)
		if len(lines) == 0 {
			t.Errorf("%s has no commands", page)
		}
		for _, line := range lines {
			var g grammar
			parser, err := kong.New(&g, kong.Name("forebay"), vars) // one that was used knows which flags it has seen
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parse(parser, shellWords(strings.TrimSpace(line[1]))); err != nil {
				t.Errorf("%s: forebay %s: %v", page, line[1], err)
			}
		}
	}
}

// TestPagesLinkToWhatIsThere: what the pages link to in this repository is there.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	links := regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	all := 0
	for _, page := range []string{"README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/docs/PRODUCTION.md", "deploy/docs/DEPLOY.md",
		"deploy/docs/RESTORE.md", "deploy/docs/GROWING.md", "deploy/docs/METRICS.md", "deploy/docs/REFERENCE.md", "deploy/examples/README.md",
		"deploy/examples/long-work.md", "deploy/examples/first-hour.md", "sinks/http/AGENTS.md", "ingest/provider/PRESETS.md",
		"cmd/internal/config/CONFIGURATION.md", "cmd/internal/app/ATTENTION.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		found := links.FindAllStringSubmatch(string(text), -1)
		all += len(found)
		for _, m := range found {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
	if all < 10 {
		t.Errorf("only %d links were found", all)
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
