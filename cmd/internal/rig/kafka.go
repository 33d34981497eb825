package rig

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandTime bounds one call of kafka.sh; a first one may have to fetch the jars.
const commandTime = 5 * time.Minute

// KafkaCluster is a real Apache Kafka, run by deploy/kafka/kafka.sh.
type KafkaCluster struct {
	t         testing.TB
	script    string
	dir       string
	bootstrap string
	shared    bool
}

// Kafka starts an Apache Kafka of one or three brokers for this test. Where it cannot be had the test fails, except where the
// Makefile allowed skipping (FOREBAY_ALLOW_SKIP_KAFKA=1, never set by .ci/run) and this is not CI.
func Kafka(t testing.TB, brokers int) *KafkaCluster {
	t.Helper()
	requireKafka(t, kafkaHere())
	k := newCluster(t, t.TempDir())
	t.Cleanup(k.stop)
	var err error
	if k.bootstrap, err = k.start(brokers); err != nil {
		t.Fatalf("kafka.sh start: %v", err)
	}
	return k
}

func newCluster(t testing.TB, dir string) *KafkaCluster {
	t.Helper()
	return &KafkaCluster{t: t, script: filepath.Join(moduleRoot(t), "deploy", "kafka", "kafka.sh"), dir: dir}
}

// kafkaHere is asked once a process: it starts a Java and reads all jars.
var kafkaHere = sync.OnceValue(installed)

// installed is nil where Kafka can be started; jars that are not here yet are fetched.
func installed() error {
	root, err := checkout()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, filepath.Join(root, "deploy", "kafka", "kafka.sh"), "install").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// requireKafka ends a test that cannot have a Kafka.
func requireKafka(t testing.TB, here error) {
	t.Helper()
	if here == nil {
		return
	}
	if os.Getenv("FOREBAY_ALLOW_SKIP_KAFKA") == "1" && os.Getenv("CI") == "" {
		t.Skip("NOT TESTED ON APACHE KAFKA. Install Java 17 and Maven (Debian: default-jre-headless, maven) and run make test again:", here)
	}
	t.Fatal("this test needs Apache Kafka, which needs Java 17 and Maven (Debian: default-jre-headless, maven); run it through make test:", here)
}

// run calls kafka.sh and returns its stdout.
func (k *KafkaCluster) run(args ...string) string {
	k.t.Helper()
	out, err := k.try(args...)
	if err != nil {
		k.t.Fatalf("kafka.sh %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (k *KafkaCluster) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime) // not the test's: stop runs after that is done
	defer cancel()
	cmd := exec.CommandContext(ctx, k.script, args...)
	cmd.Env = append(os.Environ(), "FOREBAY_KAFKA_DIR="+k.dir)
	// A file, not a pipe: the brokers inherit it, and reading a pipe to its end would wait for them.
	errors, err := os.Create(filepath.Join(k.dir, "kafka.sh.err"))
	if err != nil {
		return "", err
	}
	defer errors.Close()
	cmd.Stderr = errors
	out, err := cmd.Output()
	if err != nil {
		text, _ := os.ReadFile(errors.Name())
		return string(out), &commandError{err: err, stderr: strings.TrimSpace(string(text))}
	}
	return string(out), nil
}

type commandError struct {
	err    error
	stderr string
}

func (e *commandError) Error() string { return e.err.Error() + ": " + e.stderr }
func (e *commandError) Unwrap() error { return e.err }

func (k *KafkaCluster) stop() {
	if k.t.Failed() {
		k.showLogs()
	}
	if _, err := k.try("stop", "--now"); err != nil {
		k.t.Errorf("kafka.sh stop: %v", err)
	}
}

// showLogs puts the end of each broker's log into a failing test's output. They hold warnings and worse only.
func (k *KafkaCluster) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(k.dir, "broker-*", "log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		k.t.Logf("%s\n%s", log, text[max(0, len(text)-4096):])
	}
}

// Bootstrap implements [Broker].
func (k *KafkaCluster) Bootstrap() string { return k.bootstrap }

// KillBroker implements [Broker].
func (k *KafkaCluster) KillBroker(n int) {
	k.t.Helper()
	if k.shared {
		k.t.Fatal("rig: this Kafka is shared with other tests; one to kill comes from Kafka")
	}
	k.run("kill", strconv.Itoa(n))
}

// RestartBroker implements [Broker].
func (k *KafkaCluster) RestartBroker(n int) { k.t.Helper(); k.run("restart", strconv.Itoa(n)) }

// Groups runs Kafka's own consumer group tool on this cluster and returns its output.
func (k *KafkaCluster) Groups(args ...string) string {
	k.t.Helper()
	return k.run(append([]string{"groups"}, args...)...)
}

// TryGroups is Groups that may be refused; the error has what the tool printed.
func (k *KafkaCluster) TryGroups(args ...string) (string, error) {
	return k.try(append([]string{"groups"}, args...)...)
}

// LoseData deletes what a killed broker holds of a topic, as a lost disk does.
func (k *KafkaCluster) LoseData(n int, topic string) {
	k.t.Helper()
	if k.shared {
		k.t.Fatal("rig: this Kafka is shared with other tests; one to damage comes from Kafka")
	}
	dirs, err := filepath.Glob(filepath.Join(k.dir, "broker-"+strconv.Itoa(n), "data", topic+"-*"))
	if err != nil || len(dirs) == 0 {
		k.t.Fatalf("broker %d holds nothing of %s: %v", n, topic, err)
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			k.t.Fatal(err)
		}
	}
}

// ResetToEarliest implements [Broker] with Kafka's own tool.
func (k *KafkaCluster) ResetToEarliest(group, topic string) {
	k.t.Helper()
	k.Groups("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
}

// StopCleanly ends all brokers with SIGTERM: what they start with again is then not looked through.
func (k *KafkaCluster) StopCleanly() {
	k.t.Helper()
	if k.shared {
		k.t.Fatal("rig: this Kafka is shared with other tests; one to stop comes from Kafka")
	}
	k.run("stop")
}

// StartAgain starts the brokers that StopCleanly ended, on their ports and data.
func (k *KafkaCluster) StartAgain() {
	k.t.Helper()
	if _, err := k.start(len(strings.Split(k.bootstrap, ","))); err != nil {
		k.t.Fatalf("kafka.sh start: %v", err)
	}
}

// BreakBatch flips a byte in the middle of the batch that has an offset, in the log of a stopped broker, as a disk does that
// rots. It returns the first offset of that batch and the one behind its last.
func (k *KafkaCluster) BreakBatch(n int, topic string, partition int32, offset int64) (first, next int64) {
	k.t.Helper()
	name := filepath.Join(k.dir, "broker-"+strconv.Itoa(n), "data", fmt.Sprintf("%s-%d", topic, partition), fmt.Sprintf("%020d.log", 0))
	log, err := os.ReadFile(name)
	if err != nil {
		k.t.Fatal(err)
	}
	// A batch: base offset, length of what follows, and at 23 how far behind the first its last record is.
	const head, lastDelta, records = 12, 23, 61
	for at := 0; at+records < len(log); {
		first = int64(binary.BigEndian.Uint64(log[at:]))
		end := at + head + int(binary.BigEndian.Uint32(log[at+8:]))
		next = first + int64(binary.BigEndian.Uint32(log[at+lastDelta:])) + 1
		if first <= offset && offset < next && end <= len(log) {
			log[at+records+(end-at-records)/2] ^= 1
			if err := os.WriteFile(name, log, 0o600); err != nil {
				k.t.Fatal(err)
			}
			return first, next
		}
		at = end
	}
	k.t.Fatalf("%s has no batch with the offset %d", name, offset)
	return 0, 0
}
