package deptest

import (
	"fmt"
	"strings"
	"testing"
)

// An entry of DECISIONS.md has at most so many lines with text, and words below its title; that of the dependencies is a list.
const (
	longestDecision = 10
	wordiest        = 200
)

// TestDecisionsHaveOneForm: each entry of DECISIONS.md has its context, one decision and one consequence, in ten lines and 200 words.
func TestDecisionsHaveOneForm(t *testing.T) {
	t.Parallel()
	entries := decisions(readRoot(t, "DECISIONS.md"))
	if len(entries) < 100 {
		t.Fatalf("%d entries were found", len(entries))
	}
	for _, entry := range entries {
		if problem := formOf(entry); problem != "" {
			t.Error(problem)
		}
	}
}

// TestDecisionsBite: what is missing, there twice or too long is found.
func TestDecisionsBite(t *testing.T) {
	t.Parallel()
	good := "Title\n\nContext. **Decided:** this.\n**So:** that.\n"
	for entry, well := range map[string]bool{
		good: true,
		"Title\n\n**Decided:** this, without context. **So:** that.\n":       false,
		"Title\n\nContext. **So:** that.\n":                                  false,
		"Title\n\nContext. **Decided:** this.\n":                             false,
		"Title\n\nContext. **So:** that. **Decided:** this.\n":               false,
		"Title\n\nContext. **Decided:** this. **So:** a. **So:** b.\n":       false,
		good + strings.Repeat("More.\n", longestDecision-2):                  true,
		good + strings.Repeat("More.\n", longestDecision-1):                  false,
		good + strings.Repeat("more ", wordiest-5):                           true,
		good + strings.Repeat("more ", wordiest-4):                           false,
		"Dependencies\n" + good + strings.Repeat("More.\n", longestDecision): true,
	} {
		if problem := formOf(entry); (problem == "") != well {
			t.Errorf("%q: %q", entry, problem)
		}
	}
	if got := decisions("# All\n\n## Part\n\n### A\n\nText.\n\n## Next\n\n### B\n\nText.\n"); len(got) != 2 || strings.Contains(got[0], "Next") {
		t.Errorf("%q", got)
	}
}

// decisions are the entries of a text, each with its title in the first line.
func decisions(text string) (entries []string) {
	for _, entry := range strings.Split(text, "\n### ")[1:] {
		entry, _, _ = strings.Cut(entry, "\n## ")
		entries = append(entries, entry)
	}
	return entries
}

// formOf says what is wrong with an entry's form; empty if nothing is.
func formOf(entry string) string {
	title, body, _ := strings.Cut(entry, "\n")
	if title == "Dependencies" {
		return ""
	}
	context, rest, decided := strings.Cut(body, "**Decided:**")
	before, _, so := strings.Cut(rest, "**So:**")
	lines := len(strings.FieldsFunc(body, func(r rune) bool { return r == '\n' }))
	switch {
	case !decided || !so || strings.Count(body, "**Decided:**") != 1 || strings.Count(body, "**So:**") != 1:
		return fmt.Sprintf("%s: it needs one **Decided:** and after it one **So:**", title)
	case strings.TrimSpace(context) == "" || strings.TrimSpace(before) == "":
		return fmt.Sprintf("%s: its context or its decision is missing", title)
	case len(strings.Fields(body)) > wordiest:
		return fmt.Sprintf("%s: %d words, want %d at most", title, len(strings.Fields(body)), wordiest)
	case lines > longestDecision:
		return fmt.Sprintf("%s: %d lines, want %d at most", title, lines, longestDecision)
	}
	return ""
}
