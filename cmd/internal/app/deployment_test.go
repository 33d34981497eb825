package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/notify"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// agent is a destination that remembers its calls.
type agent struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
	at    []time.Time // when they came
	grew  chan struct{}
}

type call struct{ Key, ID, Entity, Version, Trace string }

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{grew: make(chan struct{}, 1)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		a.mu.Lock()
		a.at = append(a.at, time.Now())
		a.calls = append(a.calls, call{r.Header.Get("Idempotency-Key"), r.Header.Get("Ce-Id"), r.Header.Get("Ce-Partitionkey"), r.Header.Get("Ce-Entityversion"), r.Header.Get("Traceparent")})
		a.mu.Unlock()
		select {
		case a.grew <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// wait returns the calls once there are n of them.
func (a *agent) wait(t *testing.T, n int) []call {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		a.mu.Lock()
		calls := slices.Clone(a.calls)
		a.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-a.grew:
		case <-timeout:
			t.Fatalf("the agent was called %d times, want %d: %+v", len(calls), n, calls)
		}
	}
}

// deployment is a broker, topics and a configuration.
type deployment struct {
	t       *testing.T
	text    string
	edit    func(*config.Config) // what no file has; nil: nothing
	cluster *kfake.Cluster
	log     *slog.Logger  // default: warnings, to the test's output
	drain   time.Duration // how long a process may take to end; default: 50 s
	service *notify.Service
}

const deploymentText = `version: 1
kafka: {brokers: ["%s"], session_timeout: 6s}
%s
listen: {intake: "127.0.0.1:0", operator: "127.0.0.1:0"}
topics: {partitions: 3, replication: 1, retention: 1d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [first-secret]}
      orders:
        preset: generic
        secrets: [orders-secret]
        verify: {signature_header: X-Signature}
        event: {id: header:X-Event-Id, type: /type, entity: [/order], version: {from: /rev, kind: sequence}}
    destinations:
      agent: {type: http, url: "%s/run", allow_networks: [127.0.0.0/8], retry: {min: 10ms, max: 100ms}}
    subscriptions:
      triage: {sources: [github], begin: all, actions: [{name: run, to: agent}]}
      fulfil: {sources: [orders], begin: all, gap: {wait: 20s, then: park}, actions: [{name: run, to: agent}]}
`

// deploy starts a broker. createTopics is what `topics apply` does.
func deploy(t *testing.T, agentURL string, ledger *ledgerPlace, createTopics bool, opts ...kfake.Opt) *deployment {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	postgres := ""
	if ledger != nil {
		postgres = "postgres: {" + ledger.String() + "}"
	}
	r := &deployment{t: t, cluster: cluster, text: fmt.Sprintf(deploymentText, cluster.ListenAddrs()[0], postgres, agentURL)}
	if createTopics {
		r.createTopics()
	}
	return r
}

// freePort is a port for what is started there twice: no outgoing connection takes it meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	_, port, _ := net.SplitHostPort(rig.FreeAddress(t))
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *deployment) createTopics() {
	r.t.Helper()
	c := r.load(config.RoleTopics)
	cl, err := kgo.NewClient(KafkaOptions(c, config.RoleStream)...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	if _, err := topics.Apply(r.t.Context(), cl, topics.Wanted(c, c.MaxBody), false); err != nil {
		r.t.Fatal(err)
	}
}

// client is a client of the broker.
func (r *deployment) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(r.cluster.ListenAddrs()...))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

func (r *deployment) load(roles ...config.Role) *config.Config {
	r.t.Helper()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(r.text), Roles: roles})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.edit != nil {
		r.edit(c)
	}
	return c
}

// process is a running App.
type process struct {
	t    *testing.T
	app  *App
	stop context.CancelFunc
	done chan error
	api  *api.Client
}

// app is an App that is not started.
func (r *deployment) app(roles ...config.Role) *App {
	r.t.Helper()
	log := r.log
	if log == nil {
		log = slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	a, err := New(Config{File: r.load(roles...), Path: "forebay.yaml", Roles: roles, Logger: log, Drain: cmp.Or(r.drain, 50*time.Second), Service: r.service})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *deployment) start(roles ...config.Role) *process {
	r.t.Helper()
	return r.begin(r.app(roles...))
}

func (r *deployment) begin(a *App) *process {
	r.t.Helper()
	err := a.Start()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	p := &process{t: r.t, app: a, stop: cancel, done: make(chan error, 1)}
	go func() { p.done <- a.Run(ctx) }()
	if p.api, err = api.NewClient("http://" + a.Addr("operator").String()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { p.end(nil) })
	return p
}

// run starts a process and waits until it is ready.
func (r *deployment) run(roles ...config.Role) *process {
	r.t.Helper()
	p := r.start(roles...)
	p.ready()
	return p
}

// reload has a process take what the deployment's file says now.
func (r *deployment) reload(p *process, roles ...config.Role) {
	r.t.Helper()
	if err := p.app.Reload(r.load(roles...)); err != nil {
		r.t.Fatal(err)
	}
}

// end stops the process and checks how it ended; nil where that does not matter any more.
func (p *process) end(check func(error)) {
	p.t.Helper()
	if p.done == nil {
		return
	}
	p.stop()
	select {
	case err := <-p.done:
		if check != nil {
			check(err)
		}
	case <-time.After(time.Minute):
		p.t.Error("the process did not stop")
	}
	p.done = nil
	http.DefaultClient.CloseIdleConnections()
}

func (p *process) clean() {
	p.t.Helper()
	p.end(func(err error) {
		if err != nil {
			p.t.Errorf("the process ended with %v", err)
		}
	})
}

// ready waits for /readyz.
func (p *process) ready() {
	p.t.Helper()
	var last string
	if !rig.Until(3*time.Minute, func() bool { // it may have twenty subscriptions, and little of the machine
		select {
		case err := <-p.done:
			p.done = nil
			p.t.Fatalf("the process ended: %v", err)
		default:
		}
		status, body := p.readyz()
		last = body
		return status == http.StatusOK
	}) {
		p.t.Fatalf("not ready: %s", last)
	}
}

// readyz asks once; 0 is no answer.
func (p *process) readyz() (status int, body string) {
	resp, err := http.Get("http://" + p.app.Addr("operator").String() + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// counted sums the gauges and counters of a metric whose labels have these values, and says how many they are.
func counted(t *testing.T, r prometheus.Gatherer, name string, where map[string]string) (sum float64, series int) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			asked := f.GetName() == name
			for label, value := range where {
				asked = asked && labels[label] == value
			}
			if asked {
				sum, series = sum+m.GetGauge().GetValue()+m.GetCounter().GetValue(), series+1
			}
		}
	}
	return sum, series
}

// metric waits until a gauge of the process has a value.
func (p *process) metric(name string, want float64) {
	p.t.Helper()
	var got float64
	var series int
	if !rig.Until(time.Minute, func() bool {
		got, series = counted(p.t, p.app.registry, name, nil)
		return series > 0 && got == want
	}) {
		p.t.Fatalf("%s is %v, want %v", name, got, want)
	}
}

// issue is a delivery of GitHub: a version of an issue.
func issue(number, version int) (id string, r *verify.Request) {
	at := time.Date(2026, 1, 1, 0, 0, version, 0, time.UTC).Format(time.RFC3339)
	body := fmt.Sprintf(`{"action":"edited","repository":{"id":1},"issue":{"number":%d,"updated_at":%q}}`, number, at)
	guid := fmt.Sprintf("issue-%d-%d", number, version)
	return bodyID([]byte(body)), &verify.Request{Method: "POST", Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"issues"}, "X-Github-Delivery": {guid}}}
}

// bodyID is the id of GitHub's events.
func bodyID(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// order is a delivery of the generic source.
func order(name string, rev int) *verify.Request {
	return &verify.Request{Method: "POST", Body: []byte(fmt.Sprintf(`{"type":"order","order":%q,"rev":%d}`, name, rev)),
		Header: http.Header{"Content-Type": {"application/json"}, "X-Event-Id": {fmt.Sprintf("%s-%d", name, rev)}}}
}

// send signs with secret and posts; it returns the status.
func (p *process) send(source, secret string, r *verify.Request) int {
	p.t.Helper()
	status, _ := p.post(source, secret, r)
	return status
}

// post is send that returns the answer, too.
func (p *process) post(source, secret string, r *verify.Request) (status int, body []byte) {
	p.t.Helper()
	return p.postAt(source, secret, r, time.Now())
}

// postAt is post of what was signed at a time.
func (p *process) postAt(source, secret string, r *verify.Request, at time.Time) (status int, body []byte) {
	p.t.Helper()
	cfg := p.app.file().Source("acme", source)
	cfg.Secrets = []schemas.Secret{schemas.NewSecret(secret)}
	compiled, err := provider.Compile(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := compiled.Sign(r, at); err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), r.Method, "http://"+p.app.Addr("intake").String()+"/v1/in/acme/"+source, bytes.NewReader(r.Body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header = r.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, body
}

func (p *process) accepted(source, secret string, r *verify.Request) {
	p.t.Helper()
	if got := p.send(source, secret, r); got != http.StatusAccepted {
		p.t.Fatalf("a delivery to %s was answered %d, want 202", source, got)
	}
}

// ledgerPlace is where a ledger is: in a schema of the test's own, which all tests share a database for. To make and drop a database of one's
// own takes ten times as long.
type ledgerPlace struct{ url, schema string }

// String is what the key postgres of a file has.
func (p *ledgerPlace) String() string { return fmt.Sprintf("url: %q, schema: %q", p.url, p.schema) }

func (p *ledgerPlace) config() ledger.Config {
	return ledger.Config{URL: schemas.NewSecret(p.url), Schema: p.schema}
}

// through is the same ledger behind a proxy.
func (p *ledgerPlace) through(t *testing.T) (*rig.Proxy, *ledgerPlace) {
	t.Helper()
	db, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := rig.HangingProxy(t, db.Host)
	db.Host = proxy.Addr()
	return proxy, &ledgerPlace{db.String(), p.schema}
}

// newLedger is an empty ledger.
func newLedger(t *testing.T) *ledgerPlace {
	t.Helper()
	url, schema := pgtest.Migrated(t)
	return &ledgerPlace{url, schema}
}
