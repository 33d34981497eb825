package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bannedNames are words that were names here and told a reader nothing, each with what to say instead. The glossary is in DESIGN.md.
var bannedNames = map[string]string{
	"Obey":        "ApplyCommand",
	"Questions":   "BackfillRequests",
	"Told":        "what it is: Firing, Notified",
	"Uncopied":    "missing",
	"again":       "what happens again: retry, repeated, left",
	"anew":        "again, reread, created",
	"aside":       "the thing itself: rejected, quarantined",
	"asides":      "rejectedRecords",
	"asked":       "the thing itself: request, seek, sentAt",
	"away":        "openSince, blocked, failing",
	"displace":    "evict",
	"errSoon":     "what failed",
	"errUnproven": "errPossibleDuplicate",
	"getUp":       "reload",
	"joint":       "sinkTx",
	"laggards":    "dirtyLines",
	"lend":        "trackAsync",
	"lieDown":     "spill",
	"loose":       "what it is free of",
	"met":         "known, seen",
	"quench":      "refill",
	"rowed":       "hasRow",
	"said":        "the thing itself: submission, request, stderr",
	"settled":     "the period or state it means",
	"shut":        "closed",
	"stand":       "position",
	"stands":      "positions, parked",
	"stragglers":  "what they lag behind",
	"takeUp":      "adopt",
	"thirsty":     "needsRefill",
	"told":        "the thing itself: items, report, notified",
	"toldTo":      "receivers",
	"turned":      "what changed",
	"uncopied":    "missing",
	"uneasy":      "underPressure",
	"unrest":      "underPressure",
}

// bannedParts are words that tell nothing as a part of a name either, such as setAside.
var bannedParts = []string{"aside", "told", "turned"}

// TestNamesAreWordsOfTheField keeps names that were replaced from coming back. What tests call their own things is left to them.
func TestNamesAreWordsOfTheField(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	for _, p := range list(t) {
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range namedByBannedWord(f) {
				t.Errorf("%s: %q says nothing to a fresh reader; say what it is (%s)", files.Position(id.Pos()), id.Name, bannedNames[bannedWord(id.Name)])
			}
		}
	}
}

// namedByBannedWord returns the identifiers of a file that are or have a banned word, each name once, where it first occurs.
func namedByBannedWord(f *ast.File) (found []*ast.Ident) {
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && bannedWord(id.Name) != "" && !slices.ContainsFunc(found, func(have *ast.Ident) bool { return have.Name == id.Name }) {
			found = append(found, id)
		}
		return true
	})
	return found
}

// bannedWord returns the banned word that a name is, or that it has as a part; empty if there is none.
func bannedWord(name string) string {
	if bannedNames[name] != "" {
		return name
	}
	for _, part := range wordPart.FindAllString(name, -1) {
		if part = strings.ToLower(part); slices.Contains(bannedParts, part) {
			return part
		}
	}
	return ""
}

// wordPart is a part of a name in camel case.
var wordPart = regexp.MustCompile(`[A-Z]?[a-z]+`)

// TestBannedNameIsFound shows that the test above would fail.
func TestBannedNameIsFound(t *testing.T) {
	t.Parallel()
	const source = `package p

// told in a comment, "asked" in a text, and askedAt and returned as names are fine.
type record struct{ askedAt, returned, toldAt int }

func (r *record) asked() string { told := "asked"; return told }

func (r *record) setAside() {}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, id := range namedByBannedWord(f) {
		names = append(names, id.Name)
	}
	if !slices.Equal(names, []string{"toldAt", "asked", "told", "setAside"}) {
		t.Errorf("found %q", names)
	}
}
