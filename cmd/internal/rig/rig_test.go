package rig

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas/short"
)

// TestBrokersDoNotOutliveTheTest: a test process that is killed leaves no broker. A stand-in process owns the cluster.
func TestBrokersDoNotOutliveTheTest(t *testing.T) {
	short.NeedsServer(t, "Apache Kafka")
	script, err := kafkaHere()
	requireKafka(t, err)
	bin := t.TempDir() // without ps, which a small machine does not have
	if err := os.WriteFile(filepath.Join(bin, "ps"), []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	owner := exec.Command("sleep", "600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		owner.Process.Kill()
		owner.Wait()
	})
	k := &KafkaCluster{t: t, KafkaBrokers: &KafkaBrokers{script: script, dir: t.TempDir()}}
	t.Cleanup(k.stop)
	k.run("start", "--owner", strconv.Itoa(owner.Process.Pid))
	if out := k.run("status"); !strings.Contains(out, "running") {
		t.Fatalf("status: %s", out)
	}
	owner.Process.Kill()
	owner.Wait() // a second time below, for the failures before this line
	if !Until(2*time.Minute, func() bool {
		out, err := k.command(t.Context(), "status")
		return err != nil && strings.Contains(out, "stopped")
	}) {
		t.Fatal("the broker outlives its owner")
	}
}

// TestWithoutKafka: the test fails without Kafka, and is skipped only where the Makefile allowed it and this is not CI.
func TestWithoutKafka(t *testing.T) {
	for _, tt := range []struct {
		name, allow, ci string
		here            error
		skipped, failed bool
	}{
		{"plain go test", "", "", errors.New("no Java"), false, true},
		{"make test", "1", "", errors.New("no Java"), true, false},
		{"CI", "1", "true", errors.New("no Java"), false, true},
		{"it is here", "1", "", nil, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("FOREBAY_ALLOW_SKIP_KAFKA", tt.allow)
			t.Setenv("CI", tt.ci)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				requireKafka(r, tt.here)
			}()
			<-done
			if r.skipped != tt.skipped || r.failed != tt.failed {
				t.Errorf("skipped %t, failed %t", r.skipped, r.failed)
			}
		})
	}
}

// TestKafkaThatCannotBeHad: no Java, one that is too old, and no Maven where the jars are not here yet.
func TestKafkaThatCannotBeHad(t *testing.T) {
	for _, tt := range []struct{ name, java, says string }{
		{"no Java", "", "Java 17 or newer is needed"},
		{"Java 11", "11.0.2", "Java 17 or newer is needed"},
		{"no Maven", "17.0.15", "Maven is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			for _, tool := range []string{"bash", "sed", "dirname", "cmp", "cat", "mkdir"} {
				at, err := exec.LookPath(tool)
				if err == nil {
					err = os.Symlink(at, filepath.Join(bin, tool))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tt.java != "" {
				script := "#!/bin/sh\necho 'openjdk version \"" + tt.java + "\"' >&2\n"
				if err := os.WriteFile(filepath.Join(bin, "java"), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin)
			t.Setenv("JAVA_HOME", "")
			t.Setenv("FOREBAY_CACHE", t.TempDir())
			if _, err := installKafka(); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// recorder is a test that may fail without failing this one.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Skip(...any)  { r.skipped = true; runtime.Goexit() }
func (r *recorder) Fatal(...any) { r.failed = true; runtime.Goexit() }
