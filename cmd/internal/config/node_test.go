package config

import (
	"strings"
	"testing"
)

// A tab is blamed for what it has caused, and for no other error of syntax in the file.
func TestTabs(t *testing.T) {
	t.Parallel()
	const tab, other = "the line is indented with a tab; YAML takes spaces only", "not YAML: did not find expected"
	for text, want := range map[string]string{
		"a: 1\nb:\n\tc: 2\n":              "f:3: not YAML: " + tab,
		"a: 1\nb:\n  c: 1\n\td: 2\n":      "f:4: not YAML: " + tab,
		"a: 1\n# c\n\n\tb: 1\n":           "f:4: not YAML: " + tab,
		"a:\n  - b: 1\n  \tc: 1\n":        "f:3: not YAML: " + tab,
		"a: 1\n\t# a comment\n":           "f:2: not YAML: " + tab, // which YAML does not take there
		"\t# a comment\na: 1\n":           "f:1: not YAML: " + tab,
		"a: [\n\t# a comment\n1]\nb: [\n": other,
		"a:\n\t# a comment\n  b: c: d\n":  "f:2: not YAML: " + tab,
		"a: |\n  x\n  \ty\nb: [\n":        other,
		"a: {\n\tb: 1}\nc: [\n":           other,
		"a: @b\nc:\n\td: 1\n":             "f: not YAML: found character that cannot start any token",
	} {
		if _, problems := parse("f", []byte(text)); len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%q: %v, want %s", text, problems, want)
		}
	}
}
