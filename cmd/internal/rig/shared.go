package rig

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/forebay-io/forebay/schemas/short"
)

// shared is the one-broker Kafka of this test process, for tests that do not damage it: to start one takes ten seconds of two cores.
var shared struct {
	mu      sync.Mutex
	brokers *KafkaBrokers // nil until one is started
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

// StopShared ends the Kafka that [SharedKafka] has started, if it has. Without it the broker still ends with the process, but its files
// stay.
func StopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.brokers == nil {
		return
	}
	if err := shared.brokers.Discard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	shared.brokers = nil
}
