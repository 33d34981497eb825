package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
	"github.com/forebay-io/forebay/schemas/short"
)

// brokerEnv is the environment variable with a directory: a child process that has it serves the embedded broker of that directory, and
// does nothing else.
const brokerEnv = "FOREBAY_RIG_BROKER"

// init is what the child process of [Fake] runs. To be killed with SIGKILL, the broker needs a process of its own, and the only program
// at hand that has the broker in it is this one, a test binary.
func init() { // nobody who serves a test should have to call it
	if dir := os.Getenv(brokerEnv); dir != "" {
		serveBroker(dir)
	}
}

// serveBroker prints the address and serves until stdin ends, which it does when its parent is gone.
func serveBroker(dir string) {
	broker, err := embedded.StartBroker(context.Background(), embedded.BrokerConfig{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(broker.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = broker.Close()
	os.Exit(0)
}

// FakeBroker is the embedded broker of forebay dev, on disk, in a process of its own.
type FakeBroker struct {
	t       T
	dir     string
	process *Child
}

// Fake starts the embedded broker for this test.
func Fake(t T) *FakeBroker {
	t.Helper()
	short.NeedsServer(t, "the embedded broker")
	f := &FakeBroker{t: t, dir: t.TempDir()}
	f.start()
	t.Cleanup(func() { f.process.Kill() })
	return f
}

// start starts the process on the broker's directory.
func (f *FakeBroker) start() {
	f.t.Helper()
	p, err := StartChild(context.Background(), []string{brokerEnv + "=" + f.dir})
	if err != nil {
		f.t.Fatalf("start the embedded broker: %v", err)
	}
	f.process = p
}

// Bootstrap implements [Broker].
func (f *FakeBroker) Bootstrap() string { return f.process.Addr }

// KillBroker implements [Broker]; there is one broker, number 1.
func (f *FakeBroker) KillBroker(n int) {
	f.t.Helper()
	f.only(n)
	f.process.Kill()
}

// RestartBroker implements [Broker]. It is an error if the broker gets another port.
func (f *FakeBroker) RestartBroker(n int) {
	f.t.Helper()
	f.only(n)
	before := f.process.Addr
	f.process.Kill()
	f.start()
	if f.process.Addr != before {
		f.t.Fatalf("the embedded broker came back on %s instead of %s", f.process.Addr, before)
	}
}

// only fails the test if n is not 1, the only broker.
func (f *FakeBroker) only(n int) {
	f.t.Helper()
	if n != 1 {
		f.t.Fatalf("the embedded broker has no broker %d", n)
	}
}

// ResetToEarliest implements [Broker] through the protocol, with an empty commit metadata as Kafka's own tool leaves it.
func (f *FakeBroker) ResetToEarliest(group, topic string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.process.Addr))
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		f.t.Fatalf("earliest offsets of %s: %v", topic, err)
	}
	if err := admin.CommitAllOffsets(ctx, group, starts.Offsets()); err != nil {
		f.t.Fatalf("reset %s: %v", group, err)
	}
}
