package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// deployment is a broker, a database, a config file, an agent and a provider. Processes are started by the tests.
type deployment struct {
	t         *testing.T
	team      string
	broker    rig.Broker
	dbURL     string
	dir       string
	config    string
	agent     *agent
	sender    *sender
	intake    atomic.Pointer[process] // the newest
	ledger    string                  // where processes find it; empty: at dbURL
	binary    string                  // what processes run; empty: the suite's
	variables []string                // more of the environment of processes and commands: NAME=value
	// watched is set under a load.
	watched *watch
}

// options change the deployment's config.
type options struct {
	latency     time.Duration // of the agent
	dbURL       string        // instead of a fresh database of the shared server
	gap         string        // of the orders subscription
	onDead      string        // of the GitHub subscription
	replication int           // of the topics; min_insync is 2 from 3 on
	sources     string        // more sources, as YAML
	all         string        // more sources of the GitHub subscription: ", a, b"
	team        string        // instead of one that no other test has; for a broker and a database of its own
}

// teams counts the deployments of this process: each has a team, and so topics and groups, of its own on a shared broker.
var teams atomic.Int32

// migrated is a database that forebay migrate has made ready, once for all tests: those that go without one of their own have copies.
var migrated struct {
	sync.Mutex
	url string
}

// deploy writes the config, migrates and creates the topics with the product's own commands.
func deploy(t *testing.T, b rig.Broker, o options) *deployment {
	t.Helper()
	r := &deployment{t: t, broker: b, team: cmp.Or(o.team, fmt.Sprintf("acme-%d", teams.Add(1))), dir: t.TempDir(), agent: newAgent(t, o.latency), dbURL: o.dbURL}
	brokers := strings.Join(strings.Split(b.Bootstrap(), ","), `", "`)
	r.write("kafka: {brokers: [\""+brokers+"\"], session_timeout: 6s}\npostgres: {url: \"${env:FOREBAY_POSTGRES_URL}\"}", o)
	r.migrate()
	r.command("topics", "apply", "-c", r.config)
	return r
}

// migrate has the deployment's database migrated.
func (r *deployment) migrate() {
	r.t.Helper()
	if r.dbURL != "" {
		r.command("migrate", "-c", r.config)
		return
	}
	r.dbURL = rig.CopyDatabase(r.t, func() string {
		migrated.Lock()
		defer migrated.Unlock()
		if migrated.url == "" {
			r.dbURL = rig.Database(r.t)
			r.command("migrate", "-c", r.config)
			migrated.url = r.dbURL
		}
		return migrated.url
	}())
}

// write writes the config file.
func (r *deployment) write(parts string, o options) {
	r.t.Helper()
	r.config = filepath.Join(r.dir, "forebay.yaml")
	text := strings.NewReplacer("PARTS", parts, "TEAM", r.team, "AGENT", r.agent.URL, "GAP", cmp.Or(o.gap, "{wait: 60s, then: park}"),
		"ON_DEAD", cmp.Or(o.onDead, "park"), "REPLICATION", strconv.Itoa(max(o.replication, 1)), "SOURCES", o.sources, "ALL", o.all,
	).Replace(configText)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.sender = newSender(r.t, r.team, func() string { return r.intake.Load().intake })
}

// configText is what all tests deploy: two sources, one agent, one subscription each. The words in
// capitals are filled in.
const configText = `version: 1
PARTS
listen: {intake: "${env:INTAKE}", operator: "${env:OPERATOR}"}
topics: {partitions: 6, replication: REPLICATION, retention: 1d}
teams:
  TEAM:
    sources:
      github: {preset: github, secrets: ["${env:GITHUB_SECRET}"]}
      orders:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event:
          id: header:X-Event-Id
          type: /type
          entity: [/order/id]
          version: {from: /order/rev, kind: sequence}
          payload: snapshot
SOURCES
    destinations:
      agent: {type: http, url: "AGENT/run", timeout: 5s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}, allow_networks: [127.0.0.0/8]}
      shop: {type: http, url: "AGENT/run", timeout: 5s, retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}, allow_networks: [127.0.0.0/8]}
    subscriptions:
      triage:
        sources: [githubALL]
        begin: all
        actions: [{name: run, to: agent, on_dead: ON_DEAD}]
      fulfil:
        sources: [orders]
        begin: all
        start: first
        gap: GAP
        actions: [{name: run, to: shop}]
`

func (r *deployment) env(intake, operator string) []string {
	return append(append(os.Environ(), r.variables...), "FOREBAY_POSTGRES_URL="+cmp.Or(r.ledger, r.dbURL), "GITHUB_SECRET="+githubSecret, "ORDERS_SECRET="+ordersSecret,
		"INTAKE="+intake, "OPERATOR="+operator, "FOREBAY_URL=http://"+operator)
}

// command runs the product's CLI to its end and returns stdout.
func (r *deployment) command(args ...string) []byte {
	r.t.Helper()
	out, err := r.try("127.0.0.1:0", args...)
	if err != nil {
		r.t.Fatalf("forebay %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (r *deployment) try(operator string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, forebay, args...)
	cmd.Env = r.env("127.0.0.1:0", operator)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, nil
}

// process is one `forebay serve` or `forebay dev`.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	intake   string // http://...
	operator string // host:port
	agents   string // host:port, where the config has ${env:AGENTS}
	log      string
	gone     chan struct{} // closed when it has ended
}

// stacks ends a process that hangs, and returns what all of its goroutines did.
func (p *process) stacks() string {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.gone
	_, stacks, _ := strings.Cut(p.output(), "SIGQUIT: quit")
	return stacks
}

// serve starts a process with roles and waits until it is ready.
func (r *deployment) serve(roles string) *process {
	r.t.Helper()
	p := r.start(roles)
	p.waitReady(2 * time.Minute)
	return p
}

// start starts a process with roles.
func (r *deployment) start(roles string) *process {
	r.t.Helper()
	p := r.launch("serve", "-c", r.config, "--roles", roles)
	if strings.Contains(roles, "intake") {
		r.intake.Store(p)
	}
	return p
}

// launch starts a program of forebay's that serves.
func (r *deployment) launch(args ...string) *process {
	r.t.Helper()
	intake, operator, agents := rig.FreeAddress(r.t), rig.FreeAddress(r.t), rig.FreeAddress(r.t)
	log, err := os.Create(filepath.Join(r.dir, fmt.Sprintf("%s-%d.log", args[0], time.Now().UnixNano())))
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(cmp.Or(r.binary, forebay), args...)
	cmd.Env = append(r.env(intake, operator), "AGENTS="+agents)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	p := &process{t: r.t, cmd: cmd, intake: "http://" + intake, operator: operator, agents: agents, log: log.Name(), gone: make(chan struct{})}
	go func() {
		cmd.Wait()
		log.Close()
		close(p.gone)
	}()
	r.t.Cleanup(p.end)
	return p
}

// output is what the process has written so far.
func (p *process) output() string {
	p.t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// end kills what still runs and shows its log when the test has failed.
func (p *process) end() {
	p.kill()
	if p.t.Failed() {
		b, _ := os.ReadFile(p.log)
		p.t.Logf("%s, what it warned of and its end\n%s\n...\n%s", p.log, tail(warnings(b), 12<<10), tail(b, 4<<10))
	}
}

// warnings are the lines of a log that are no routine.
func warnings(log []byte) (out []byte) {
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte("level=INFO")) {
			out = append(out, line...)
		}
	}
	return out
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.gone
}

// stop is SIGTERM and the wait for a clean end.
func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s ended with %d after SIGTERM", p.cmd.Args[1:], code)
		}
	case <-time.After(time.Minute):
		p.t.Error("forebay serve did not end within a minute of SIGTERM")
		p.kill()
	}
}

func (p *process) waitReady(within time.Duration) {
	p.t.Helper()
	last := "no answer"
	if !rig.Until(within, func() bool {
		select {
		case <-p.gone:
			p.t.Fatalf("forebay serve ended before it was ready")
		default:
		}
		resp, err := http.Get("http://" + p.operator + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		last = string(b)
		return resp.StatusCode == http.StatusOK
	}) {
		p.t.Fatalf("not ready after %s: %s", within, last)
	}
}

// deliver has the provider deliver one after the other, each until it is accepted.
func (r *deployment) deliver(list ...delivery) {
	r.t.Helper()
	for _, d := range list {
		if err := r.sender.deliver(r.t.Context(), d); err != nil {
			r.t.Fatal(err)
		}
	}
}

// inbox asks the process through the CLI.
func (r *deployment) inbox(p *process, args ...string) []inboxItem {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"inbox", "list", "-o", "json"}, args...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	var page struct{ Items []inboxItem }
	if err := json.Unmarshal(out, &page); err != nil {
		r.t.Fatalf("inbox list: %v in %s", err, out)
	}
	return page.Items
}

// get asks the process as a command does, for what is asked again and again until it is so: a command takes a tenth of a second of processor
// to start.
func (p *process) get(path string, query url.Values, answer any) error {
	client := http.Client{Timeout: 20 * time.Second}
	resp, err := client.Get("http://" + p.operator + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s %s", path, resp.Status, body)
	}
	return json.Unmarshal(body, answer)
}

// items are those that inbox list would show with these flags.
func (r *deployment) items(p *process, flags ...string) ([]inboxItem, error) {
	query := url.Values{}
	for i := 0; i < len(flags); i += 2 {
		query.Set(strings.TrimPrefix(flags[i], "--"), flags[i+1])
	}
	var page struct{ Items []inboxItem }
	err := p.get("/v1/inbox", query, &page)
	return page.Items, err
}

type inboxItem struct {
	Subscription, Source, Entity, Type, Version, Status, Decision, Reason string
	EventID                                                               string `json:"event_id"`
	DeliveryID                                                            string `json:"delivery_id"`
	Attempts, Duplicates                                                  int
	Partition                                                             int32
	Offset                                                                int64
}
