package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// shared is the one-broker Kafka of this test process: a start costs ten seconds of two cores, which tests that do not
// kill it need not pay each.
var shared struct {
	mu      sync.Mutex
	cluster *KafkaCluster // nil: not started, or not startable
}

// SharedKafka is a one-broker Apache Kafka that lives as long as this test process. Tests keep apart by names of
// their own for topics and groups, and may not kill it. The package's TestMain calls [StopShared].
func SharedKafka(t testing.TB) *KafkaCluster {
	t.Helper()
	requireKafka(t, kafkaHere())
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		dir, err := os.MkdirTemp("", "forebay-kafka-")
		if err != nil {
			t.Fatal(err)
		}
		k := newCluster(t, dir)
		if k.bootstrap, err = k.start(1); err != nil {
			os.RemoveAll(dir)
			t.Fatalf("kafka.sh start: %v", err)
		}
		k.shared = true
		shared.cluster = k
	}
	mine := *shared.cluster
	mine.t = t
	t.Cleanup(func() {
		if t.Failed() {
			mine.showLogs()
		}
	})
	return &mine
}

// StopShared ends what [SharedKafka] started, if anything did. Without it the brokers still end with the process, but
// their files stay.
func StopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		return
	}
	if _, err := shared.cluster.try("stop", "--now"); err != nil {
		fmt.Fprintln(os.Stderr, "kafka.sh stop:", err)
	}
	os.RemoveAll(shared.cluster.dir)
	shared.cluster = nil
}

// start returns the bootstrap addresses. --owner: the brokers do not outlive the test process, however that ends.
func (k *KafkaCluster) start(brokers int) (string, error) {
	out, err := k.try("start", "--brokers", strconv.Itoa(brokers), "--owner", strconv.Itoa(os.Getpid()))
	return strings.TrimSpace(out), err
}
