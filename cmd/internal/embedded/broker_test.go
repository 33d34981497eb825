package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
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

// TestHealedCommitsSurvive: a crash leaves half an entry, the next run commits and crashes as well. Without healing that
// commit lies behind the damage and the run after it reads the old one.
func TestHealedCommitsSurvive(t *testing.T) {
	t.Parallel()
	first := t.TempDir()
	b := startBroker(t, BrokerConfig{Dir: first})
	c := brokerClient(t, b)
	createTopic(t, c, "t", nil)
	commit(t, c, 1)
	second := crashed(t, first)
	log := filepath.Join(second, "groups.log")
	raw, err := os.ReadFile(log)
	if err != nil || len(raw) < 20 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	if err := os.WriteFile(log, append(raw, raw[:len(raw)-3]...), 0o644); err != nil {
		t.Fatal(err)
	}

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: second}))
	commit(t, c, 2)

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: crashed(t, second)}))
	got, err := kadm.NewClient(c).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := got.Lookup("t", 0); at.At != 2 {
		t.Errorf("the commit after the damage is lost: %d", at.At)
	}
}

func commit(t *testing.T, c *kgo.Client, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, at, -1)
	if err := kadm.NewClient(c).CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
}

// crashed is what a kill -9 at this moment would leave of a running broker's directory: a copy of its files.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(to, "port")); err != nil { // the original still listens
		t.Fatal(err)
	}
	return to
}

func TestWholeEntries(t *testing.T) {
	t.Parallel()
	entry := func(data string) []byte {
		body := append([]byte{1, 0}, data...)
		head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		return append(binary.LittleEndian.AppendUint32(head, crc32.Checksum(body, castagnoli)), body...)
	}
	whole := append(entry(`{"a":1}`), entry("")...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, tt := range map[string]struct {
		raw  []byte
		want int
	}{
		"empty":            {nil, 0},
		"whole":            {whole, len(whole)},
		"half a header":    {append(bytes.Clone(whole), whole[:5]...), len(whole)},
		"half an entry":    {append(bytes.Clone(whole), whole[:12]...), len(whole)},
		"zeros":            {append(bytes.Clone(whole), make([]byte, 64)...), len(whole)},
		"wrong checksum":   {flipped, len(entry(`{"a":1}`))},
		"length too large": {[]byte{255, 255, 255, 255, 0, 0, 0, 0, 1, 0, 0}, 0},
	} {
		if got := wholeEntries(tt.raw); got != tt.want {
			t.Errorf("%s: %d of %d bytes are whole, want %d", name, got, len(tt.raw), tt.want)
		}
	}
}

// TestTrimKeepsTheEnd: retention on a partition whose records are all old leaves the newest, so that a restart does not
// begin the partition at offset 0 again.
func TestTrimKeepsTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, BrokerConfig{Dir: dir, Retention: time.Hour})
	c := brokerClient(t, b)
	day := strconv.FormatInt((24 * time.Hour).Milliseconds(), 10)
	forever := "-1"
	createTopic(t, c, "hour", nil)
	createTopic(t, c, "day", map[string]*string{"retention.ms": &day})
	createTopic(t, c, "ever", map[string]*string{"retention.ms": &forever})
	createTopic(t, c, "empty", nil)
	now := time.Now()
	for _, topic := range []string{"hour", "day", "ever"} {
		for _, age := range []time.Duration{72 * time.Hour, 30 * time.Hour, 2 * time.Hour, 2 * time.Hour} {
			r := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: now.Add(-age)}
			if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := trim(t.Context(), b.Addr(), time.Hour, now); err != nil {
		t.Fatal(err)
	}
	c.Close()
	b.Close()

	c = brokerClient(t, startBroker(t, BrokerConfig{Dir: dir}))
	for topic, want := range map[string][2]int64{"hour": {3, 4}, "day": {2, 4}, "ever": {0, 4}, "empty": {0, 0}} {
		starts, err := kadm.NewClient(c).ListStartOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		start, _ := starts.Lookup(topic, 0)
		end, _ := ends.Lookup(topic, 0)
		if got := [2]int64{start.Offset, end.Offset}; got != want {
			t.Errorf("%s: [%d, %d) after retention and restart, want %v", topic, got[0], got[1], want)
		}
	}
}

func TestKeepPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := keepPort(dir, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keepPort(dir, testLog(t)); err != nil || again != first {
		t.Errorf("second time: port %d instead of %d, %v", again, first, err)
	}
	stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	other, err := keepPort(dir, testLog(t))
	if err != nil || other == first {
		t.Errorf("with the port taken: port %d, %v", other, err)
	}
	for _, bad := range []string{"", "http", "0", "65536", "-1"} {
		if err := os.WriteFile(filepath.Join(dir, "port"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if port, err := keepPort(dir, testLog(t)); err == nil {
			t.Errorf("%q was taken for port %d", bad, port)
		}
	}
}
