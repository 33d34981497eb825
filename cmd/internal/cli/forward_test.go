package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// TestListenForwards: what is forwarded is signed as the provider signs it, in order; what was not taken comes again the next time, and what
// comes while nobody forwards is not passed over.
func TestListenForwards(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "events.acme.github"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	produced := 0
	produce := func(bodies ...string) {
		for _, body := range bodies {
			produced++
			now := time.Now()
			e := &schemas.Event{ID: fmt.Sprint("e", produced), Source: "/acme/github", Type: "com.github.issues.opened", Entity: "7", Time: now, RecordedTime: now,
				Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Delta, DataContentType: "application/json", Data: []byte(body),
				Headers: []schemas.Header{{Name: "x-github-event", Value: "issues"}}}
			if err := producer.ProduceSync(t.Context(), record.Encode("events.acme.github", e)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	github, err := verify.New(verify.Params{Scheme: verify.SchemeGitHub}, []schemas.Secret{schemas.NewSecret("a secret of 32 characters, or so")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	refuse, during := "", func(*http.Request) {}
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := github.Verify(&verify.Request{Method: r.Method, Header: r.Header, Body: body}, time.Now()); err != nil || r.Header.Get("X-GitHub-Event") != "issues" {
			t.Errorf("%v %v", err, r.Header)
		}
		if during(r); string(body) == refuse {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		got = append(got, string(body))
	}))
	defer local.Close()
	dir := t.TempDir()
	file, at := filepath.Join(dir, "forebay.yaml"), filepath.Join(dir, "cursor")
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nteams:\n  acme:\n    sources: {github: {preset: github, secrets: [\"a secret of 32 characters, or so\"]}}\n", cluster.ListenAddrs()[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer // of the last one
	forward := func(ctx context.Context, count string, more ...string) (int, string) {
		var errs bytes.Buffer
		out.Reset()
		args := append([]string{"listen", "acme/github", "--forward-to", local.URL, "-c", file, "--cursor", at, "--count", count}, more...)
		return Main(ctx, args, Options{Stdout: &out, Stderr: &errs}), errs.String()
	}

	produce("{}", "[1]", "[2]")
	for _, step := range []struct {
		name, count, refuse string
		produce             []string
		code                int
		want                []string
	}{
		{"first two", "2", "", nil, 0, []string{"{}", "[1]"}},
		{"refused", "9", "[2]", nil, exitFailed, []string{"{}", "[1]"}},
		{"again, and what came meanwhile", "2", "", []string{"[3]"}, 0, []string{"{}", "[1]", "[2]", "[3]"}},
	} {
		refuse = step.refuse
		produce(step.produce...)
		code, errs := forward(t.Context(), step.count, "--since", "1h")
		if code != step.code || !slices.Equal(got, step.want) {
			t.Fatalf("%s: exit %d, %q, want %q\n%s", step.name, code, got, step.want, errs)
		}
	}
	// All four are in one of the partitions. Where the cursor has only the other, it is a new one, which has been written to from its start.
	for partition := range 2 {
		if err := os.WriteFile(at, fmt.Appendf(nil, `{"topic":"events.acme.github","next":{"%d":0}}`, partition), 0o600); err != nil {
			t.Fatal(err)
		}
		got = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if code, errs := forward(ctx, "4", "-o", "id"); code != exitOK || out.String() != "e1\ne2\ne3\ne4\n" || !slices.Equal(got, []string{"{}", "[1]", "[2]", "[3]"}) {
			t.Errorf("with a cursor of partition %d alone: exit %d, %q\n%s%s", partition, code, got, out.String(), errs)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	during = func(r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if code, errs := forward(ctx, "1", "--since", "1h"); code != exitInterrupt || strings.Contains(errs, "?") {
		t.Errorf("interrupted: exit %d, %s", code, errs)
	}
	during = func(*http.Request) {}
	for _, request := range []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch} {
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{request}, Topic: "events.acme.github", Err: kerr.TopicAuthorizationFailed, Count: -1})
		code, errs := forward(t.Context(), "1")
		fault.Remove()
		if code != exitFailed || !strings.Contains(errs, "user ANONYMOUS has no right Read on topic events.acme.github") {
			t.Errorf("%s is refused: exit %d, %s", kmsg.NameForKey(int16(request)), code, errs)
		}
	}
	// What is not kept any more is told, and so is a cursor of a log that ends before it. It is not gone on with a topic that was created again.
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if code, errs := forward(t.Context(), "1", "--since", "1h"); code != exitOK {
		t.Fatal(code, errs)
	}
	had, err := readCursor(at, "events.acme.github")
	if err != nil || had.TopicID == "" {
		t.Fatalf("%+v %v", had, err)
	}
	adm, cut, written := kadm.NewClient(producer), kadm.Offsets{}, int32(0) // the partition that has all four
	if had.Next[1] == 1 {
		written = 1
	}
	cut.AddOffset("events.acme.github", written, 3, -1)
	if _, err := adm.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	got = nil
	if code, errs := forward(t.Context(), "1"); code != exitOK || !slices.Equal(got, []string{"[3]"}) ||
		!strings.Contains(errs, fmt.Sprintf("offsets 1 to 2 of partition %d are not kept any more: they are not forwarded\n", written)) {
		t.Errorf("a cursor of what is not kept: exit %d, %q, %s", code, got, errs)
	}
	past := cursor{Topic: had.Topic, TopicID: had.TopicID, Next: map[int32]int64{written: 9}}
	if err := past.write(at); err != nil {
		t.Fatal(err)
	}
	if code, errs := forward(t.Context(), "1"); code != exitUsage || !strings.Contains(errs, "which ends at 4") {
		t.Errorf("a cursor past the end: exit %d, %s", code, errs)
	}
	if err := had.write(at); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(t.Context(), had.Topic); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, had.Topic); err != nil {
		t.Fatal(err)
	}
	if code, errs := forward(t.Context(), "1"); code != exitUsage || !strings.Contains(errs, "an earlier topic events.acme.github") {
		t.Errorf("a cursor of the topic before it was created again: exit %d, %s", code, errs)
	}
	if err := os.WriteFile(at, []byte(`{"topic":"events.acme.other","next":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, errs := forward(t.Context(), "1"); code != exitUsage {
		t.Errorf("another topic's cursor: exit %d, %s", code, errs)
	}
}

// TestListenFollowsNewPartitions: what comes to partitions that the topic has got while listen runs is forwarded, too.
func TestListenFollowsNewPartitions(t *testing.T) {
	t.Parallel()
	const topic = "events.acme.github"
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	produce := func(partition int32, id string) {
		t.Helper()
		producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())) // each knows the partitions of now
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Close()
		now := time.Now()
		r := record.Encode(topic, &schemas.Event{ID: id, Source: "/acme/github", Type: "com.github.issues.opened", Entity: "7", Time: now, RecordedTime: now,
			Version: schemas.Version{Kind: schemas.None}, Payload: schemas.Delta, DataContentType: "application/json", Data: []byte(id)})
		r.Partition = partition
		if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan string, 2)
	local := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer local.Close()
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	text := fmt.Sprintf("version: 1\nkafka: {brokers: [%q]}\npostgres: {url: \"postgres://127.0.0.1:1/x\"}\nteams:\n  acme:\n    sources: {github: {preset: github, secrets: [\"a secret of 32 characters, or so\"]}}\n", cluster.ListenAddrs()[0])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	produce(0, "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan int, 1)
	var out, errs bytes.Buffer
	go func() {
		ended <- Main(ctx, []string{"listen", "acme/github", "--forward-to", local.URL, "-c", file, "--since", "1h", "--count", "2"}, Options{Stdout: &out, Stderr: &errs})
	}()
	select {
	case <-got: // it runs
	case <-ctx.Done():
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).UpdatePartitions(t.Context(), 2, topic); err != nil {
		t.Fatal(err)
	}
	produce(1, "2")
	if code := <-ended; code != exitOK || len(got) != 1 || <-got != "2" {
		t.Errorf("exit %d, %d left\n%s%s", code, len(got), out.String(), errs.String())
	}
}
