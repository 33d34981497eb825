package rig

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/schemas/short"
)

// shared is the one-broker Kafka of this test process, for tests that do not damage it: to start one takes ten seconds of two cores. And it is
// the databases that [Database] and [CopyDatabase] have created: for each that is dropped the server writes a checkpoint, and all who write
// meanwhile wait for the disk.
var shared struct {
	mu        sync.Mutex
	brokers   *KafkaBrokers // nil until one is started
	databases []string
}

// SharedKafka returns a one-broker Apache Kafka that lives as long as this test process. Tests must use topics and groups of their own, and
// must not kill it. The package's TestMain calls [StopShared].
func SharedKafka(t T) *KafkaCluster {
	t.Helper()
	short.NeedsServer(t, "Apache Kafka")
	script, err := kafkaHere()
	requireKafka(t, err)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.brokers == nil {
		if shared.brokers, err = StartKafka(context.Background(), script, "", "--session", "60000"); err != nil {
			t.Fatal(err)
		}
	}
	k := &KafkaCluster{t: t, KafkaBrokers: shared.brokers, shared: true}
	t.Cleanup(func() {
		if t.Failed() {
			k.showLogs()
		}
	})
	return k
}

// StopShared ends the Kafka that [SharedKafka] has started, if it has, and drops the databases. Without it the broker still ends with the
// process, but its files stay.
func StopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var dropping sync.WaitGroup
	for some := range slices.Chunk(shared.databases, 16) { // those that wait for a checkpoint at a time share it
		for _, name := range some {
			dropping.Go(func() {
				// FORCE: a test that failed may have left a process connected.
				if err := execute(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			})
		}
		dropping.Wait()
	}
	shared.databases = nil
	if shared.brokers == nil {
		return
	}
	if err := shared.brokers.Discard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	shared.brokers = nil
}
