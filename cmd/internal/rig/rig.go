// Package rig starts the real servers that tests under cmd and the bench run on, and breaks them if a test asks for it: PostgreSQL,
// Apache Kafka of one or three brokers, the embedded broker in a process of its own, and proxies in front of either.
//
// Servers are stopped and their files removed at the end, also when this process is killed: each server watches this process. The
// functions with a [T] are for tests: if a server cannot be started they fail the test and say what to install (see [Kafka] for the one
// exception), and the server ends with the test. The others are for programs and return errors.
package rig

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// T has the methods of testing.TB that this package calls. The bench is a program, and no program of ours imports testing.
type T interface {
	Cleanup(f func())
	Errorf(format string, args ...any)
	Failed() bool
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Helper()
	Logf(format string, args ...any)
	Output() io.Writer
	Skip(args ...any)
	TempDir() string
}

// Broker is an Apache Kafka or an embedded broker. Its brokers are numbered from 1. The methods fail the test if they fail.
type Broker interface {
	// Bootstrap returns the comma-separated list of addresses, which does not change.
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

// given has the ports that FindAddress has returned: what was given one has not listened there yet, or is about to start again.
var given sync.Map

// FreeAddress is FindAddress for tests.
func FreeAddress(t T) string {
	t.Helper()
	address, err := FindAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// FindAddress returns a loopback address at which nothing listens. Its port is below those that Linux gives to outgoing connections, one of
// which would take it before a process listens there, or while it is started again.
func FindAddress() (address string, err error) {
	for range 200 {
		port := 10_000 + rand.IntN(6_900)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
