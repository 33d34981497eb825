package producer

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

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
	return newIntakeOf(t, p, cluster, deadline, "")
}

// newIntakeOf is newIntake of a source with `each`.
func newIntakeOf(t *testing.T, p *Producer, cluster *kfake.Cluster, deadline time.Duration, each string) *intake {
	t.Helper()
	source, err := provider.Compile(provider.Config{Team: "acme", Name: "orders", Preset: "generic", Deadline: deadline, Each: each,
		Secrets: []schemas.Secret{schemas.NewSecret("secret")}, Verify: &verify.Params{SignatureHeader: "X-Signature"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/id"}, Chain: true}}) // agents', whose traces go on
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
	in.server.Client().Timeout = time.Minute
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
	in := newIntake(t, time.Second, nil)
	arrived, release := hold(in.cluster)
	defer release()
	var wg sync.WaitGroup
	for _, body := range []string{`{"id":"1","type":"t"}`, "unusable"} {
		wg.Go(func() {
			if status, header, _ := in.post(body); status != 503 || header.Get("Retry-After") == "" {
				t.Errorf("%s: %d, want 503", body, status)
			}
		})
	}
	wg.Wait()
	<-arrived
	release()
	in.source.Deadline = time.Minute
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
