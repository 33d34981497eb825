// Package rig gives tests under cmd the real parts that they break: an Apache Kafka of one or three brokers, the
// embedded broker in a process of its own, a PostgreSQL of their own, or a fresh database on the shared one.
//
// Everything is stopped and removed when the test ends, also when the test process is killed: the parts watch it.
// A part that cannot be had fails the test and says what to install; see [Kafka] for the one exception.
package rig

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Broker is what the suite needs of either broker. Brokers are numbered from 1. The methods fail the test themselves.
type Broker interface {
	// Bootstrap is the comma-separated list of addresses; it survives Kill and Restart.
	Bootstrap() string
	// KillBroker ends one broker with SIGKILL.
	KillBroker(n int)
	// RestartBroker starts a killed broker on its port and data and returns when it serves.
	RestartBroker(n int)
	// ResetToEarliest resets a group without members to the beginning of a topic, as an operator with a tool does: without
	// commit metadata.
	ResetToEarliest(group, topic string)
}

var (
	_ Broker = (*KafkaCluster)(nil)
	_ Broker = (*FakeBroker)(nil)
)

func moduleRoot(t testing.TB) string {
	t.Helper()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// checkout is the nearest parent of the test's directory that has a go.mod.
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
