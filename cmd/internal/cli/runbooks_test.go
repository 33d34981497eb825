package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
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
			parses(t, page, line[1])
		}
	}
}
