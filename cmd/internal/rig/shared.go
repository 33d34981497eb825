package rig

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// shared is the one-broker Kafka of this test process: a start costs ten seconds of two cores, which tests that do not
// kill it need not pay each.
var shared struct {
	mu      sync.Mutex
	brokers *KafkaBrokers // nil: not started, or not startable
}

// SharedKafka returns a one-broker Apache Kafka that lives as long as this test process. Tests keep apart by names of
// their own for topics and groups, and may not kill it. The package's TestMain calls [StopShared].
func SharedKafka(t T) *KafkaCluster {
	t.Helper()
	script, err := kafkaHere()
	requireKafka(t, err)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.brokers == nil {
		if shared.brokers, err = StartKafka(context.Background(), script, ""); err != nil {
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

// StopShared ends what [SharedKafka] started, if anything did. Without it the brokers still end with the process, but
// their files stay.
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
