package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
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
				t.Errorf("%s: %q says nothing to a fresh reader; say what it is (%s)", files.Position(id.Pos()), id.Name, bannedNames[id.Name])
			}
		}
	}
}

// namedByBannedWord returns the identifiers of a file that are a banned word, each word once, where it first occurs.
func namedByBannedWord(f *ast.File) (found []*ast.Ident) {
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && bannedNames[id.Name] != "" && !slices.ContainsFunc(found, func(have *ast.Ident) bool { return have.Name == id.Name }) {
			found = append(found, id)
		}
		return true
	})
	return found
}

// TestBannedNameIsFound shows that the test above would fail.
func TestBannedNameIsFound(t *testing.T) {
	t.Parallel()
	const source = `package p

// told in a comment, "asked" in a text and askedAt as a name are fine.
type record struct{ askedAt int }

func (r *record) asked() string { told := "asked"; return told }
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, id := range namedByBannedWord(f) {
		names = append(names, id.Name)
	}
	if !slices.Equal(names, []string{"asked", "told"}) {
		t.Errorf("found %q", names)
	}
}
