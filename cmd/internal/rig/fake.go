package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/embedded"
)

// brokerEnv makes a copy of the test binary serve the embedded broker of a directory instead of running tests.
const brokerEnv = "FOREBAY_TESTRIG_BROKER"

// init is the other end of [Fake]: the broker needs a process of its own to be killed with SIGKILL, and the test
// binary is the only program at hand that has it.
func init() {
	if dir := os.Getenv(brokerEnv); dir != "" {
		serveBroker(dir)
	}
}

// serveBroker prints the address and serves until stdin ends, which it does when the test process is gone.
func serveBroker(dir string) {
	broker, err := embedded.StartBroker(context.Background(), embedded.BrokerConfig{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(broker.Addr())
	io.Copy(io.Discard, os.Stdin)
	broker.Close()
	os.Exit(0)
}

// FakeBroker is the embedded broker of forebay dev, on disk, in a process of its own.
type FakeBroker struct {
	t    testing.TB
	dir  string
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser // its end is the process's end
}

// Fake starts the embedded broker for this test.
func Fake(t testing.TB) *FakeBroker {
	t.Helper()
	f := &FakeBroker{t: t, dir: t.TempDir()}
	f.start()
	t.Cleanup(f.kill)
	return f
}

func (f *FakeBroker) start() {
	f.t.Helper()
	program, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	f.cmd = exec.Command(program)
	f.cmd.Env = append(os.Environ(), brokerEnv+"="+f.dir)
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		f.t.Fatalf("the embedded broker did not start: %v", err)
	}
	f.addr = strings.TrimSpace(line)
}

func (f *FakeBroker) kill() {
	f.cmd.Process.Kill()
	f.cmd.Wait()
}

// Bootstrap implements [Broker].
func (f *FakeBroker) Bootstrap() string { return f.addr }

// KillBroker implements [Broker]; there is one broker, number 1.
func (f *FakeBroker) KillBroker(n int) {
	f.t.Helper()
	f.only(n)
	f.kill()
}

// RestartBroker implements [Broker].
func (f *FakeBroker) RestartBroker(n int) {
	f.t.Helper()
	f.only(n)
	before := f.addr
	f.kill()
	f.start()
	if f.addr != before {
		f.t.Fatalf("the embedded broker came back on %s instead of %s", f.addr, before)
	}
}

func (f *FakeBroker) only(n int) {
	f.t.Helper()
	if n != 1 {
		f.t.Fatalf("the embedded broker has no broker %d", n)
	}
}

// ResetToEarliest implements [Broker] through the protocol, with an empty commit metadata as Kafka's own tool leaves it.
func (f *FakeBroker) ResetToEarliest(group, topic string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.addr))
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
