// Package short is the rule of `go test -short` (`make test-short`), in one place: no test starts a server or asks one. A server is a
// program beside the test: PostgreSQL, Apache Kafka, the embedded broker, Node.js. What listens inside of the test's own process, such as
// kfake in memory or net/http/httptest, is none.
//
// .ci/short holds the tests to it: it runs them where a server that is started leaves a trace and does not come up.
package short

import "flag"

// T has the methods of testing.TB that are called here. The package does not import testing: the rig is linked by a program.
type T interface {
	Helper()
	Skip(args ...any)
}

// NeedsServer skips the test under -short. server says what the test needs: "PostgreSQL". Whatever starts or finds a server for tests
// calls it first, so that the tests themselves need not think of it.
func NeedsServer(t T, server string) {
	t.Helper()
	if Run() {
		t.Skip("needs " + server + ": not with -short")
	}
}

// Run says whether this is a run of tests with -short, as testing.Short does; false before the flags are parsed, and in a program.
func Run() bool {
	f := flag.Lookup("test.short")
	return f != nil && f.Value.String() == "true"
}
