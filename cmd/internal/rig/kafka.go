package rig

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas/short"
)

// commandTime is how long one call of kafka.sh may take: the first may have to download the jars.
const commandTime = 10 * time.Minute

// KafkaBrokers are one or three brokers of a real Apache Kafka, run by deploy/kafka/kafka.sh.
type KafkaBrokers struct {
	script    string
	dir       string
	bootstrap string
}

// StartKafka starts one broker through the script, in a new directory below parent. An empty parent is the directory for temporary files.
// more are further arguments of kafka.sh.
func StartKafka(ctx context.Context, script, parent string, more ...string) (*KafkaBrokers, error) {
	dir, err := os.MkdirTemp(parent, "forebay-kafka-")
	if err != nil {
		return nil, err
	}
	k := &KafkaBrokers{script: script, dir: dir}
	if err := k.start(ctx, 1, more...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return k, nil
}

// start starts this number of brokers, with more arguments of kafka.sh. They end with this process, however it ends.
func (k *KafkaBrokers) start(ctx context.Context, brokers int, more ...string) error {
	out, err := k.command(ctx, append([]string{"start", "--brokers", strconv.Itoa(brokers), "--owner", strconv.Itoa(os.Getpid())}, more...)...)
	k.bootstrap = strings.TrimSpace(out)
	return err
}

// Bootstrap implements [Broker].
func (k *KafkaBrokers) Bootstrap() string { return k.bootstrap }

// PID returns the process id of a broker; 0 if it cannot be read.
func (k *KafkaBrokers) PID(n int) int {
	text, _ := os.ReadFile(filepath.Join(k.dir, "broker-"+strconv.Itoa(n), "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// Discard kills the brokers and removes their files.
func (k *KafkaBrokers) Discard() error {
	_, err := k.command(context.Background(), "stop", "--now")
	return errors.Join(err, os.RemoveAll(k.dir))
}

// command calls the script and returns its stdout. The error has what it wrote to stderr.
func (k *KafkaBrokers) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.script, args...)
	cmd.Env = append(os.Environ(), "FOREBAY_KAFKA_DIR="+k.dir)
	// Stderr is a file and not a pipe: the brokers inherit it, and reading a pipe to its end would wait until they have ended.
	stderr, err := os.Create(filepath.Join(k.dir, "kafka.sh.err"))
	if err != nil {
		return "", err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		text, _ := os.ReadFile(stderr.Name())
		err = fmt.Errorf("kafka.sh %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(text))
	}
	return string(out), err
}

// KafkaCluster is an Apache Kafka for tests.
type KafkaCluster struct {
	*KafkaBrokers
	t      T
	shared bool // with other tests, by SharedKafka: it must not be damaged
}

// Kafka starts an Apache Kafka of one or three brokers for this test. If it cannot be installed, the test fails. It is skipped instead if
// the Makefile allows that by FOREBAY_ALLOW_SKIP_KAFKA=1, which .ci/run never sets, and if this is not CI.
func Kafka(t T, brokers int) *KafkaCluster {
	t.Helper()
	short.NeedsServer(t, "Apache Kafka")
	script, err := kafkaHere()
	requireKafka(t, err)
	k := &KafkaCluster{t: t, KafkaBrokers: &KafkaBrokers{script: script, dir: t.TempDir()}}
	t.Cleanup(k.stop)
	if err := k.start(context.Background(), brokers); err != nil {
		t.Fatal(err)
	}
	return k
}

// kafkaHere is installKafka, run once a process, since that starts a Java that reads all jars.
var kafkaHere = sync.OnceValues(installKafka)

// installKafka downloads the jars of Kafka, if they are not here yet, and returns the script that starts it. The error says why it cannot
// be started here.
func installKafka() (script string, err error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	script = filepath.Join(root, "deploy", "kafka", "kafka.sh")
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, script, "install").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return script, nil
}

// checkout returns the nearest directory with a go.mod, from the working directory upwards.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("rig: no go.mod above the test's directory")
		}
		dir = filepath.Dir(dir)
	}
}

// requireKafka fails or skips the test if Kafka could not be installed, which installErr says.
func requireKafka(t T, installErr error) {
	t.Helper()
	if installErr == nil {
		return
	}
	if os.Getenv("FOREBAY_ALLOW_SKIP_KAFKA") == "1" && os.Getenv("CI") == "" {
		t.Skip("NOT TESTED ON APACHE KAFKA. Install Java 17 and Maven (Debian: default-jre-headless, maven) and run make test again:", installErr)
	}
	t.Fatal("this test needs Apache Kafka, which needs Java 17 and Maven (Debian: default-jre-headless, maven); run it through make test:", installErr)
}

// run calls kafka.sh and returns its stdout.
func (k *KafkaCluster) run(args ...string) string {
	k.t.Helper()
	out, err := k.command(context.Background(), args...) // not the test's: a cleanup calls it, too
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// stop ends the cluster at the end of its test. After a failed test it shows the brokers' logs.
func (k *KafkaCluster) stop() {
	if k.t.Failed() {
		k.showLogs()
	}
	if err := k.Discard(); err != nil {
		k.t.Errorf("%v", err)
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

// TryGroups is Groups with the error that the tool may end with, which does not fail the test. The error has what the tool printed.
func (k *KafkaCluster) TryGroups(args ...string) (string, error) {
	return k.command(context.Background(), append([]string{"groups"}, args...)...)
}

// Consume runs Kafka's own console consumer on this cluster and returns what it printed.
func (k *KafkaCluster) Consume(args ...string) string {
	k.t.Helper()
	return k.run(append([]string{"consume"}, args...)...)
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

// StopCleanly stops all brokers with SIGTERM. After a clean stop, Kafka does not check its log segments when it starts again.
func (k *KafkaCluster) StopCleanly() {
	k.t.Helper()
	if k.shared {
		k.t.Fatal("rig: this Kafka is shared with other tests; one to stop comes from Kafka")
	}
	k.run("stop")
}

// StartAll starts the brokers that StopCleanly ended, on their ports and data.
func (k *KafkaCluster) StartAll() {
	k.t.Helper()
	if err := k.start(context.Background(), len(strings.Split(k.bootstrap, ","))); err != nil {
		k.t.Fatal(err)
	}
}

// BreakBatch flips a bit in the middle of the batch with an offset, in the log of a stopped broker, as a failing disk does. It returns the
// batch's first offset and the one after its last. It looks in the first segment alone.
func (k *KafkaCluster) BreakBatch(n int, topic string, partition int32, offset int64) (first, next int64) {
	k.t.Helper()
	name := filepath.Join(k.dir, "broker-"+strconv.Itoa(n), "data", fmt.Sprintf("%s-%d", topic, partition), fmt.Sprintf("%020d.log", 0))
	log, err := os.ReadFile(name)
	if err != nil {
		k.t.Fatal(err)
	}
	// A batch begins with its base offset (8 bytes) and the length of what follows (4). At 23 is the last record's offset less the base
	// offset, at 61 the records begin.
	const head, lastDelta, records = 12, 23, 61
	for start := 0; start+records < len(log); {
		first = int64(binary.BigEndian.Uint64(log[start:]))
		end := start + head + int(binary.BigEndian.Uint32(log[start+8:]))
		next = first + int64(binary.BigEndian.Uint32(log[start+lastDelta:])) + 1
		if first <= offset && offset < next && end <= len(log) {
			log[start+records+(end-start-records)/2] ^= 1
			if err := os.WriteFile(name, log, 0o600); err != nil {
				k.t.Fatal(err)
			}
			return first, next
		}
		start = end
	}
	k.t.Fatalf("%s has no batch with the offset %d", name, offset)
	return 0, 0
}
