package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// read is a record as a client has read it.
type read struct {
	Key, Value string
	Headers    map[string]string
}

// TestOtherClientsReadTheTopics has the clients that teams have, Kafka's console consumer, kcat and one in Python, read two topics of
// events: key, headers and value are what the provider sent, byte for byte.
func TestOtherClientsReadTheTopics(t *testing.T) {
	t.Parallel()
	k := rig.SharedKafka(t)
	r := deploy(t, k, options{})
	r.serve("intake")

	// What a client may spoil: other alphabets in a key, line ends and blanks around a body, and bytes that are no UTF-8 in it.
	spoilt := order("o-2", 1)
	spoilt.body = []byte("\r\n {\"type\":\"com.shop.order.changed\",\t\"order\":{\"id\":\"o-2\",\"rev\":1},\r\n\"note\":\"\xff\xfe \\u0000 \xc3\xbc\"} \n\n")
	foreign := order("ü/1 %", 1)
	foreign.id = "foreign-1"
	sent := []delivery{issue(7, 1, 1), order("o-1", 1), spoilt, foreign}
	want := map[string]read{}
	for _, d := range sent {
		r.deliver(d)
		e := read{Key: d.entity, Value: string(d.body), Headers: map[string]string{
			"ce_specversion": "1.0", "ce_id": d.id, "ce_source": "/" + r.team + "/" + d.source, "ce_type": "com.shop.order.changed",
			"ce_subject": d.entity, "ce_partitionkey": d.entity, "content-type": "application/json",
			"ce_payloadkind": "snapshot", "ce_versionkind": "sequence", "ce_entityversion": "00000000000000000001",
		}}
		if d.source == "github" {
			e.Headers["ce_type"], e.Headers["ce_deliveryid"] = "com.github.issues.edited", d.guid()
			e.Headers["ce_versionkind"] = "timestamp"
			delete(e.Headers, "ce_entityversion")
		}
		want[d.id] = e
	}
	e := want["foreign-1"]
	e.Key = "%C3%BC%2F1%20%25"
	e.Headers["ce_subject"], e.Headers["ce_partitionkey"] = e.Key, e.Key
	want["foreign-1"] = e

	topics := []string{"events." + r.team + ".github", "events." + r.team + ".orders"}
	clients := map[string]func(*testing.T) []read{
		"console": func(t *testing.T) []read { return consoleConsumer(t, k, topics, len(sent)) },
		"kcat":    func(t *testing.T) []read { return kcat(t, k, topics) },
		"python":  func(t *testing.T) []read { return pythonConsumer(t, k, r.team+".own", topics, len(sent)) },
	}
	all := map[string]map[string]read{} // by client and id
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		t.Run(name, func(t *testing.T) {
			got := map[string]read{}
			for _, g := range clients[name](t) {
				got[g.Headers["ce_id"]] = g
			}
			all[name] = got
			asSent := map[string]read{}
			for id, g := range got {
				headers := map[string]string{}
				for header := range want[id].Headers {
					headers[header] = g.Headers[header]
				}
				asSent[id] = read{g.Key, g.Value, headers}
				if _, err := time.Parse(time.RFC3339Nano, g.Headers["ce_time"]); err != nil {
					t.Errorf("%s: ce_time: %v", id, err)
				}
			}
			if diff := cmp.Diff(want, asSent); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, got := range all { // and of the headers that only the intake knows, all see the same
		if diff := cmp.Diff(all["python"], got); diff != "" {
			t.Errorf("python and %s do not read the same:\n%s", name, diff)
		}
	}
	if out := k.Groups("--group", r.team+".own", "--describe"); !strings.Contains(out, topics[1]) {
		t.Errorf("Kafka knows nothing of the Python consumer's group:\n%s", out)
	}
}

// runClient runs a program to its end and returns its stdout.
func runClient(t *testing.T, environ []string, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), environ...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, errs.String())
	}
	return out
}

// consoleConsumer reads with Kafka's own consumer. What separates parts is in no body.
func consoleConsumer(t *testing.T, k *rig.KafkaCluster, topics []string, count int) (all []read) {
	t.Helper()
	out := k.Consume("--include", strings.Join(topics, "|"), "--from-beginning", "--max-messages", strconv.Itoa(count),
		"--timeout-ms", "180000", "--isolation-level", "read_committed",
		"--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
		"--formatter-property", "key.separator=<of>", "--formatter-property", "headers.separator=<and>", "--formatter-property", "line.separator=<end>")
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "<end>"), "<end>") {
		parts := strings.SplitN(record, "<of>", 3)
		if len(parts) != 3 {
			t.Fatalf("%q are not headers, key and value", record)
		}
		headers := map[string]string{}
		for h := range strings.SplitSeq(parts[0], "<and>") {
			name, value, _ := strings.Cut(h, ":")
			headers[name] = value
		}
		all = append(all, read{parts[1], parts[2], headers})
	}
	return all
}

// kcat reads with librdkafka's consumer, to the topics' ends.
func kcat(t *testing.T, k *rig.KafkaCluster, topics []string) (all []read) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		clientMissing(t, "kcat", err)
	}
	for _, topic := range topics {
		out := runClient(t, nil, "kcat", "-C", "-q", "-e", "-b", k.Bootstrap(), "-t", topic, "-o", "beginning", "-f", "%K %S %k%s%h<end>")
		for len(out) > 0 {
			var keyLen, valueLen, n int
			if _, err := fmt.Sscanf(string(out), "%d %d ", &keyLen, &valueLen); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			n = len(fmt.Sprintf("%d %d ", keyLen, valueLen))
			key, rest := string(out[n:n+keyLen]), out[n+keyLen:]
			value, rest := string(rest[:valueLen]), rest[valueLen:]
			list, rest, ok := bytes.Cut(rest, []byte("<end>"))
			if !ok {
				t.Fatalf("%q has no end", rest)
			}
			headers := map[string]string{}
			for h := range strings.SplitSeq(string(list), ",") {
				name, value, _ := strings.Cut(h, "=")
				headers[name] = value
			}
			all, out = append(all, read{key, value, headers}), rest
		}
	}
	return all
}

// pythonConsumer reads with kafka-python, as a member of a group that commits.
func pythonConsumer(t *testing.T, k *rig.KafkaCluster, group string, topics []string, count int) (all []read) {
	t.Helper()
	dir := filepath.Join("testdata", "clients")
	_, library := os.Stat(filepath.Join(dir, "site", "kafka"))
	_, python := exec.LookPath("python3")
	if err := errors.Join(library, python); err != nil {
		clientMissing(t, "kafka-python", err)
	}
	environ := []string{"PYTHONPATH=" + filepath.Join(dir, "site"), "PYTHONDONTWRITEBYTECODE=1"}
	out := runClient(t, environ, "python3", append([]string{filepath.Join(dir, "consumer.py"), k.Bootstrap(), group, strconv.Itoa(count)}, topics...)...)
	for line := range bytes.Lines(out) {
		var r struct {
			Key, Value []byte // base64
			Headers    map[string][]byte
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		headers := map[string]string{}
		for name, value := range r.Headers {
			headers[name] = string(value)
		}
		all = append(all, read{string(r.Key), string(r.Value), headers})
	}
	return all
}

// clientMissing fails or skips a test whose client is not installed.
func clientMissing(t *testing.T, name string, err error) {
	t.Helper()
	if os.Getenv("FOREBAY_ALLOW_SKIP_CLIENTS") == "1" && os.Getenv("CI") == "" { // by make test, never by .ci/run
		t.Skipf("NOT TRIED WITH %s: it is not installed", name)
	}
	t.Fatalf("%s is not installed: run make deps (Debian: kcat, python3-pip): %v", name, err)
}
