package producer

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// intake is the handler on the producer on a broker.
type intake struct {
	t       *testing.T
	source  *provider.Source
	server  *httptest.Server
	cluster *kfake.Cluster
}

func newIntake(t *testing.T, deadline time.Duration, change func(*Config)) *intake {
	t.Helper()
	p, cluster := setup(t, change)
	source, err := provider.Compile(provider.Config{Team: "acme", Name: "orders", Preset: "generic", Deadline: deadline,
		Secrets: []schemas.Secret{schemas.NewSecret("secret")}, Verify: &verify.Params{SignatureHeader: "X-Signature"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/id"}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := ingest.New(ingest.Config{Log: p, Sources: func(string, string) (*ingest.Source, bool) {
		return &ingest.Source{Source: source, Topic: topic, QuarantineTopic: aside}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	in := &intake{t: t, source: source, server: httptest.NewServer(h), cluster: cluster}
	in.server.Client().Timeout = 20 * time.Second
	t.Cleanup(in.server.Close)
	return in
}

func (in *intake) post(body string) (status int, header http.Header, answer string) {
	in.t.Helper()
	r := verify.Request{Method: "POST", Header: http.Header{}, Body: []byte(body)}
	if err := in.source.Sign(&r, time.Now()); err != nil {
		in.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(in.t.Context(), "POST", in.server.URL+"/v1/in/acme/orders", bytes.NewReader(r.Body))
	if err != nil {
		in.t.Fatal(err)
	}
	req.Header = r.Header
	resp, err := in.server.Client().Do(req)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		in.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// A broker that is slower than the provider's patience: 503 before the provider gives up, and the record lands all the
// same. The retry is a second record of the same id, which is the stream's to tell.
func TestAnswersBeforeTheProviderGivesUp(t *testing.T) {
	t.Parallel()
	const deadline = 3 * time.Second // far enough from the timer for a busy machine
	in := newIntake(t, deadline, nil)
	arrived, release := hold(in.cluster)
	defer release()
	var wg sync.WaitGroup
	for _, body := range []string{`{"id":"1","type":"t"}`, "unusable"} {
		wg.Go(func() {
			begin := time.Now()
			status, header, _ := in.post(body)
			if took := time.Since(begin); status != 503 || header.Get("Retry-After") == "" || took < deadline/2 || took > deadline {
				t.Errorf("%s: %d after %v, want 503 within %v", body, status, took, deadline)
			}
		})
	}
	wg.Wait()
	<-arrived
	release()
	if status, _, answer := in.post(`{"id":"1","type":"t"}`); status != 202 || answer != `{"id":"1"}` {
		t.Errorf("the retry: %d %s", status, answer)
	}
	for i, r := range read(t, in.cluster, topic, 2) {
		if string(r.Value) != `{"id":"1","type":"t"}` || string(r.Key) != "1" {
			t.Errorf("record %d: %s", i, r.Value)
		}
	}
	read(t, in.cluster, aside, 1)
}

// A producer without room answers at once, and takes again when there is room.
func TestFullProducerAnswersAtOnce(t *testing.T) {
	t.Parallel()
	in := newIntake(t, 20*time.Second, func(c *Config) { c.MaxBody, c.MaxBuffered = 1<<10, 1<<10+Room })
	arrived, release := hold(in.cluster)
	defer release()
	large := func(id int) string {
		return fmt.Sprintf(`{"id":"%d","type":"t","x":"%s"}`, id, strings.Repeat("x", 60<<10))
	}
	first := make(chan int, 1)
	go func() { status, _, _ := in.post(large(1)); first <- status }()
	<-arrived
	begin := time.Now()
	status, header, _ := in.post(large(2))
	if took := time.Since(begin); status != 503 || header.Get("Retry-After") == "" || took > 5*time.Second {
		t.Errorf("full: %d after %v", status, took)
	}
	release()
	if status := <-first; status != 202 {
		t.Errorf("the first: %d", status)
	}
	if status, _, _ := in.post(large(2)); status != 202 {
		t.Errorf("with room again: %d", status)
	}
	read(t, in.cluster, topic, 2)
}

// What the handler puts aside is what the listing shows.
func TestQuarantineOverHTTP(t *testing.T) {
	t.Parallel()
	in := newIntake(t, 20*time.Second, nil)
	body := "\x00not JSON\xff"
	if status, _, answer := in.post(body); status != 202 || answer != `{"id":null}` {
		t.Fatalf("%d %s", status, answer)
	}
	brokers := kgo.SeedBrokers(in.cluster.ListenAddrs()...)
	items, err := List(t.Context(), Query{Topic: aside, Limit: 10}, brokers)
	if err != nil || len(items) != 1 {
		t.Fatalf("%+v, %v", items, err)
	}
	d, err := ReadOne(t.Context(), aside, items[0].Partition, items[0].Offset, brokers)
	if err != nil {
		t.Fatal(err)
	}
	if d.Team != "acme" || d.Source != "orders" || d.Kind != "unusable" || d.Reason != "not_json" || d.Method != "POST" ||
		string(d.Body) != body || d.Bytes != len(body) || time.Since(d.Received) > time.Minute {
		t.Errorf("%+v", d)
	}
}
