package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func startBroker(t *testing.T, cfg BrokerConfig) *Broker {
	t.Helper()
	cfg.Logger = testLog(t)
	b, err := StartBroker(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func brokerClient(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addr()), kgo.ProducerBatchMaxBytes(MaxMessageBytes))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func createTopic(t *testing.T, c *kgo.Client, topic string, configs map[string]*string) {
	t.Helper()
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
}

// readAll returns the values of a topic's partition 0 up to its end.
func readAll(t *testing.T, b *Broker, topic string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := brokerClient(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	var values []string
	for next := int64(0); next < end.Offset; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			values, next = append(values, string(r.Value)), r.Offset+1
		})
	}
	return values
}

func TestBrokerKeepsPortTopicsAndRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startBroker(t, BrokerConfig{Dir: dir})
	c := brokerClient(t, first)
	createTopic(t, c, "events.acme.github", nil)
	big := bytes.Repeat([]byte("x"), 25_000_000) // GitHub's largest
	for _, value := range [][]byte{[]byte("one"), big} {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "events.acme.github", Value: value}).FirstErr(); err != nil {
			t.Fatalf("produce %d bytes: %v", len(value), err)
		}
	}
	c.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := startBroker(t, BrokerConfig{Dir: dir})
	if second.Addr() != first.Addr() {
		t.Errorf("second start listens on %s, the first on %s", second.Addr(), first.Addr())
	}
	got := readAll(t, second, "events.acme.github")
	if len(got) != 2 || got[0] != "one" || got[1] != string(big) {
		t.Errorf("%d records after the restart", len(got))
	}
}

func TestBrokerRefusesADirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startBroker(t, BrokerConfig{Dir: dir})
	_, err := StartBroker(t.Context(), BrokerConfig{Dir: dir})
	held := new(HeldError)
	if !errors.As(err, &held) {
		t.Fatalf("second start: %v", err)
	}
	if !strings.Contains(held.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("the error names nobody: %v", held)
	}
}

func TestBrokerConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []BrokerConfig{{}, {Dir: "x", Port: -1}, {Dir: "x", Port: 70000}, {Dir: "x", Retention: -1}} {
		if _, err := StartBroker(t.Context(), cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// helpBroker serves a directory, produces with acks=all and prints the value of each record after its ack, until killed.
func helpBroker(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	b, err := StartBroker(context.Background(), BrokerConfig{Dir: dir})
	if err != nil {
		fail(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	if err != nil {
		fail(err)
	}
	if _, err := kadm.NewClient(c).CreateTopic(context.Background(), 1, 1, nil, "t"); err != nil && !strings.Contains(err.Error(), "ALREADY_EXISTS") {
		fail(err)
	}
	for i := 0; ; i++ {
		value := fmt.Sprintf("%d-%d", os.Getpid(), i)
		r := &kgo.Record{Topic: "t", Value: []byte(value + strings.Repeat(".", 500))}
		c.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(err)
			}
			fmt.Println(value)
		})
	}
}

// TestBrokerKill9 kills the process that holds broker and producer, three times over the same directory. Whatever was
// acknowledged before is read back afterwards, in order.
func TestBrokerKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var acked []string
	for range 3 {
		cmd := helper(t, "broker "+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acked = append(acked, lines.Text())
			if n == 300 { // then read on to the end: what was acknowledged up to the kill counts too
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
	}
	if len(acked) < 900 {
		t.Fatalf("only %d acknowledgements: the helper failed", len(acked))
	}
	at := 0
	for _, value := range readAll(t, startBroker(t, BrokerConfig{Dir: dir}), "t") {
		if at < len(acked) && strings.TrimRight(value, ".") == acked[at] {
			at++
		}
	}
	if at != len(acked) {
		t.Errorf("acknowledged record %s (%d of %d) is lost or out of order", acked[at], at, len(acked))
	}
}
