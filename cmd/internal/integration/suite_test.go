// Package integration runs the real binary against real parts: Postgres, and once the embedded broker, once Apache
// Kafka. The provider is a simulator that retries until it is told 2xx, the agent a recorder; the checker reads only
// what those two saw.
package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/short"
)

// forebay is the binary under test, built once for the suite; empty under -short.
var forebay string

func TestMain(m *testing.M) {
	flag.Parse()
	if short.Run() { // all that runs the binary needs servers: it is not built
		os.Exit(m.Run())
	}
	fourAtOnce()
	dir, err := os.MkdirTemp("", "forebay-suite-")
	if err != nil {
		panic(err)
	}
	forebay = filepath.Join(dir, "forebay")
	// The net package has the path of the machine's hosts in a variable. Without cgo, as the Makefile builds it: C's resolver would not look there.
	machines, _ := os.ReadFile("/etc/hosts")
	hostsFile := filepath.Join(dir, "hosts")
	// Without buildvcs: git may refuse a checkout of somebody else's, and then nothing is built.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X net.hostsFilePath="+hostsFile, "-o", forebay, "github.com/forebay-io/forebay/cmd/forebay")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	code := 1
	if err := errors.Join(os.WriteFile(hostsFile, append(machines, hosts...), 0o600), build.Run()); err != nil {
		fmt.Fprintln(os.Stderr, "build forebay:", err)
	} else {
		code = m.Run()
		rig.StopShared()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// fourAtOnce has four tests run at once, unless -parallel says how many or there are more processors: they wait for most of their time, for
// sessions, gaps and processes to end. What measures a rate does not call t.Parallel, and runs alone.
func fourAtOnce() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < 4 {
		_ = flag.Set("test.parallel", "4")
	}
}

// eachBroker runs a test once against the embedded broker and once against an Apache Kafka that the tests share.
func eachBroker(t *testing.T, test func(*testing.T, rig.Broker)) {
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, rig.Fake(t)) })
	t.Run("kafka", func(t *testing.T) { t.Parallel(); test(t, rig.SharedKafka(t)) })
}

// eachOwnBroker runs a test that kills its broker.
func eachOwnBroker(t *testing.T, test func(*testing.T, rig.Broker)) {
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, rig.Fake(t)) })
	t.Run("kafka", func(t *testing.T) { t.Parallel(); test(t, rig.Kafka(t, 1)) })
}

// soak returns many if there is time for them, and few otherwise.
func soak(few, many int) int {
	if os.Getenv("FOREBAY_SOAK") == "1" {
		return many
	}
	return few
}

func orderName(n int) string { return fmt.Sprintf("o-%d", n) }

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// waitItems waits until the inbox lists n items under the filter: statuses follow the agent's answer by a commit.
func waitItems(t *testing.T, r *deployment, p *process, n int, filter ...string) (got []inboxItem) {
	t.Helper()
	var err error
	if !rig.Until(time.Minute, func() bool {
		got, err = r.items(p, append(filter, "--limit", "500")...)
		return err == nil && len(got) == n
	}) {
		t.Errorf("inbox list %s shows %d items, want %d: %+v %v", strings.Join(filter, " "), len(got), n, got, err)
		return nil
	}
	return got
}
