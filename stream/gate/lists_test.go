package gate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

type pair struct {
	Decision
	Reason
}

// documented reads the decision table in doc.go.
func documented(t *testing.T) (rows []pair) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(strings.TrimPrefix(l, "//\t"))
		if strings.HasPrefix(l, "//\t") && len(f) > 2 && f[0] != "decision" {
			rows = append(rows, pair{Decision(f[0]), Reason(f[1])})
		}
	}
	if len(rows) < len(Decisions()) {
		t.Fatalf("the table in doc.go has %d rows", len(rows))
	}
	return rows
}

// constants gives the values of the constants of a type in types.go.
func constants(t *testing.T, typ string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok {
			if id, ok := s.Type.(*ast.Ident); ok && id.Name == typ {
				v, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, v)
			}
		}
		return true
	})
	return values
}

func TestListsAndTableAreComplete(t *testing.T) {
	t.Parallel()
	var decisions []string
	for _, d := range Decisions() {
		decisions = append(decisions, string(d))
	}
	if want := constants(t, "Decision"); !slices.Equal(decisions, want) {
		t.Errorf("Decisions() is %v, declared are %v", decisions, want)
	}
	var quarantines []Reason
	used := map[string]bool{}
	seen := map[pair]bool{}
	for _, row := range documented(t) {
		if seen[row] {
			t.Errorf("%v stands twice in the table", row)
		}
		seen[row], used[string(row.Decision)], used[string(row.Reason)] = true, true, true
		if row.Decision == Quarantined {
			quarantines = append(quarantines, row.Reason)
		}
	}
	if !slices.Equal(QuarantineReasons(), quarantines) {
		t.Errorf("QuarantineReasons() is %v, the table has %v", QuarantineReasons(), quarantines)
	}
	names := append(decisions, constants(t, "Reason")...)
	for _, name := range names {
		if !used[name] {
			t.Errorf("%q is not in the table", name)
		}
	}
	if len(used) != len(names) {
		t.Errorf("the table has words that are not declared: %v", used)
	}
}

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Policy{"zero": {}, "usual": wait, "park": parkNow, "dead": giveUp, "backfill": fetch, "truth": truth, "first": fromOne, "arrival": arrival, "keep": keepFirst, "last": keepLast, "hold": holdEqual} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for word, p := range map[string]Policy{
		"order": {Order: "offset"}, "start": {Start: "now"}, "equal": {Equal: "newest"}, "then": {Then: "wait"},
		"otherwise": {Otherwise: ThenBackfill}, "backfill wait 0s": {Start: StartBackfill}, "no time": {Then: ThenBackfill, BackfillWait: -1},
		"stale": {Stale: OnStale{Delta: "skip"}}, "deliver_marked": {Stale: OnStale{Snapshot: "late"}},
		"wait": {GapWait: -time.Second}, "skew": {FutureSkew: -1}, "cap": {MaxPerEntity: -1}, "in all": {MaxBuffered: -1},
		"bytes": {MaxBytes: -1}, "bytes per entity": {MaxBytesPerEntity: -1},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%+v: got %v, want an error that names %s", p, err, word)
		}
	}
}
