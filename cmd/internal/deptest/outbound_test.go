package deptest

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOutboundCallsAreGuarded reads every file that is no test's: no package but those named opens connections of its
// own, and those that call addresses of teams have the guarded client below them.
func TestOutboundCallsAreGuarded(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for name, f := range p.Files {
			for _, what := range opens(f) {
				used[path] = true
				if unguarded[path] == "" && !slices.Contains(testPackages, path) {
					t.Errorf("%s/%s uses %s\n\tbut what leaves the process goes through sinks/guard; who may do without is listed in outbound_rules_test.go, with the reason", path, name, what)
				}
			}
		}
		if under(p.ImportPath, guarded) && addressless[path] == "" && !slices.Contains(p.Deps, module+"/sinks/guard") {
			t.Errorf("%s calls addresses of teams without sinks/guard; what calls none is listed in outbound_rules_test.go, with the reason", path)
		}
	}
	for path := range unguarded {
		if !used[path] {
			t.Errorf("%s is listed as unguarded and opens nothing: take it out of the list", path)
		}
	}
	for path := range addressless {
		if !slices.ContainsFunc(list(t), func(p listed) bool { return p.ImportPath == module+"/"+path }) {
			t.Errorf("%s is listed as addressless and does not exist", path)
		}
	}
}

// testPackages are for tests, though their files are no tests'.
var testPackages = []string{"stream/sink/sinktest", "stream/ledger/ledgertest", "stream/ledger/pgtest", "stream/internal/streamtest", "cmd/internal/openid/openidtest"}

// TestOutboundBites shows that each way to open a connection is seen.
func TestOutboundBites(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`package p; import "net/http"; var c = http.Client{}`:                                {"net/http.Client"},
		`package p; import h "net/http"; var c *h.Client = h.DefaultClient`:                  {"net/http.Client", "net/http.DefaultClient"},
		`package p; import "net/http"; func f() { http.Get("x") }`:                           {"net/http.Get"},
		`package p; import "net/http"; type t struct{ *http.Transport }`:                     {"net/http.Transport"},
		`package p; import "net"; func f() { (&net.Dialer{}).Dial("tcp", "x") }`:             {"net.Dialer"},
		`package p; import "net"; func f() { net.DialTimeout("tcp", "x", 1); net.Listen() }`: {"net.DialTimeout"},
		`package p; import "net"; func f() { net.LookupHost("x") }`:                          {"net.LookupHost"},
		`package p; import "crypto/tls"; func f() { tls.DialWithDialer() }`:                  {"crypto/tls.DialWithDialer"},
		`package p; import . "net/http"; var c = Client{}`:                                   {"net/http by a dot"},
		`package p; import "net/smtp"; var c = smtp.SendMail`:                                {"net/smtp.SendMail"},
		`package p; import "net/http"; var s http.Server; var r http.RoundTripper`:           nil,
		`package p; import "example.org/http"; var c = http.Client{}`:                        nil,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, opens(f)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", source, diff)
		}
	}
}
