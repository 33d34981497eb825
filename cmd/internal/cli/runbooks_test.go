package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestRunbooks: the commands of the pages about alerts, in blocks and in sentences, are ones that the program understands.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../deploy/runbooks/Forebay*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile("(?m)(?:^|`)forebay ([^`\n]+)").FindAllStringSubmatch(string(text), -1)
		if len(lines) < 3 {
			t.Errorf("%s has %d commands", page, len(lines))
		}
		for _, line := range lines {
			var g grammar
			parser, err := kong.New(&g, kong.Name("forebay"), vars)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parse(parser, shellWords(strings.TrimSpace(line[1]))); err != nil {
				t.Errorf("%s: forebay %s: %v", page, line[1], err)
			}
		}
	}
}
