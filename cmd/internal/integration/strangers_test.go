package integration

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

const (
	genuineBody    = 12 << 10
	genuineCount   = 120
	genuineSenders = 4
	genuinePause   = 30 * time.Millisecond // of each
	genuineRate    = 130                   // of all, a second
)

// TestStrangersAtTheDoor has senders without a signature use up what an intake has: memory, connections, time. Beside them every
// delivery of a provider is taken, whether the strangers come from the provider's address, as they do behind a proxy that nobody told the
// intake of, or from another. Under FOREBAY_SOAK=1, which is for a machine that does nothing else, it is taken about as fast as without them.
func TestStrangersAtTheDoor(t *testing.T) {
	const same, other = "127.0.0.1", "127.0.0.2"
	r := deploy(t, rig.Fake(t), options{})
	r.serve("intake")
	r.visit(t) // warms both sides
	_, alone := r.visit(t)
	for _, s := range []strangers{
		{"64 that send 1 MB of 24, from the same address", same, 64, time.Second, 24 << 20, 1 << 20, ""},
		{"64 that send 1 MB and do not say of how much", same, 64, time.Second, -1, 1 << 20, ""},
		{"400 that send 1 MB of 24, more than the memory holds", same, 400, 2 * time.Second, 24 << 20, 1 << 20, ""},
		{"1000 slow ones with bodies of 12 KB", other, 1000, 2 * time.Second, 12_000, 1000, ""},
		{"1000 that send no byte of their bodies", same, 1000, 2 * time.Second, 12_000, 0, ""},
		{"3000 that send nothing at all", same, 3000, 2 * time.Second, 0, 0, ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			defer s.come(t, r)()
			statuses, p99 := r.visit(t)
			t.Logf("answers %v, p99 %v; alone %v", statuses, p99, alone)
			if statuses[http.StatusAccepted] != genuineCount {
				t.Errorf("answers to %d signed deliveries: %v, want 202 to all", genuineCount, statuses)
			}
			if limit := max(3*alone, 150*time.Millisecond); os.Getenv("FOREBAY_SOAK") == "1" && p99 > limit {
				t.Errorf("one of a hundred took %v, want %v", p99, limit)
			}
		})
	}
}

// genuine is told of every signed delivery that was answered, and of every question.
var genuine progress

// progress counts what gets ahead, for those that go by it and not by the clock.
type progress struct {
	mu      sync.Mutex
	n       int
	waiting map[int][]chan struct{} // by the count that they wait for; closed then
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	for _, c := range p.waiting[p.n] {
		close(c)
	}
	delete(p.waiting, p.n)
}

// after returns a channel that is closed after n more, at least one.
func (p *progress) after(n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[int][]chan struct{}{}
	}
	c := make(chan struct{})
	at := p.n + max(n, 1)
	p.waiting[at] = append(p.waiting[at], c)
	return c
}

// visits counts them: each has a repository of its own.
var visits atomic.Int64

// visit delivers signed bodies over connections of their own, as GitHub does, and returns how often which status was answered and the
// p99 of the times. Nothing is sent twice.
func (r *deployment) visit(t *testing.T) (statuses map[int]int, p99 time.Duration) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 15 * time.Second}
	statuses = map[int]int{}
	repository := 100 + int(visits.Add(1))
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for sender := range genuineSenders {
		wg.Go(func() {
			for n := range genuineCount / genuineSenders {
				d := issue(repository, 1+sender, 1+n)
				d.body = fmt.Appendf(nil, "%s%s", d.body, strings.Repeat(" ", genuineBody-len(d.body)))
				req := d.request(t.Context(), r.intake.Load().intake, r.team)
				begin := time.Now()
				status := answered(t, client, req)
				mu.Lock()
				statuses[status]++
				took = append(took, time.Since(begin))
				mu.Unlock()
				genuine.tell()
				<-time.After(genuinePause)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return statuses, took[len(took)*99/100]
}

// answered returns the status of the answer, 0 without one: then the test's log has why.
func answered(t *testing.T, client *http.Client, req *http.Request) int {
	t.Helper()
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		t.Logf("no answer after %v: %v", time.Since(began), err)
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

var strangerNumber atomic.Int64

// TestMoreConnectionsThanFiles has more strangers come than the process may have files open, each from an address of its own: no
// listener is closed to others, the process answers for itself, and a line says which limit holds.
func TestMoreConnectionsThanFiles(t *testing.T) {
	r := deployLong(t, rig.Fake(t), "{deadline: 5m, heartbeat: 2m}")
	health := rig.FreeAddress(t)
	r.edit("listen: {agents:", fmt.Sprintf("listen: {health: %q, agents:", health))
	r.binary = filepath.Join(t.TempDir(), "forebay")
	if err := os.WriteFile(r.binary, []byte("#!/bin/sh\nulimit -n 256\nexec '"+forebay+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := r.serve("intake,stream")
	http.DefaultClient.CloseIdleConnections() // what comes now comes over new connections
	reported := 0
	for _, s := range []strangers{
		{"400 that send nothing at all", "", 400, time.Second, 0, 0, ""},
		{"400 slow ones with bodies of 12 KB", "", 400, 2 * time.Second, 12_000, 1000, ""},
	} {
		for name, at := range map[string]string{"intake": p.intake, "agents": "http://" + p.agents, "operator": "http://" + p.operator, "health": "http://" + health} {
			t.Run(s.name+", "+name, func(t *testing.T) {
				s.to = at
				defer s.come(t, r)()
				statuses, _ := r.visit(t)
				if statuses[http.StatusAccepted] != genuineCount {
					t.Errorf("answers to %d signed deliveries: %v, want 202 to all", genuineCount, statuses)
				}
				for range 3 {
					reported++
					r.report(t, p, fmt.Sprintf("slow-%d", reported))
					genuine.tell()
				}
				for _, at := range []string{p.operator + "/livez", p.operator + "/readyz", health + "/livez", health + "/readyz"} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got := answered(t, impatient(), req); got != http.StatusOK {
						t.Errorf("%s was answered %d, want 200", at, got)
					}
				}
			})
		}
	}
	if log := p.output(); !strings.Contains(log, "ulimit -n") || strings.Contains(log, "too many open files") {
		t.Errorf("the log does not say which limit holds, or the process has met it:\n%s", log)
	}
}

// impatient is a client that makes a connection for each request.
func impatient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 15 * time.Second}
}

// report delivers the first order of an entity, whose work takes long, and has its agent report the result.
func (r *deployment) report(t *testing.T, p *process, entity string) {
	t.Helper()
	d := order(entity, 1)
	if got := answered(t, impatient(), d.request(t.Context(), p.intake, r.team)); got != http.StatusAccepted {
		t.Errorf("the order of %s was answered %d, want 202", entity, got)
		return
	}
	if !rig.Until(time.Minute, func() bool {
		return slices.ContainsFunc(r.agent.snapshot(), func(c call) bool { return c.event == d.id })
	}) {
		t.Errorf("the order of %s did not reach its agent", entity)
		return
	}
	c := r.agent.callOf(t, d.id)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at(t, c.result), strings.NewReader(`{"status": "done"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if got := answered(t, impatient(), req); got != http.StatusAccepted {
		t.Errorf("the report of an agent on %s was answered %d, want 202", entity, got)
	}
}

// strangers are connections that each announce a body (-1: of a length that they do not say; 0: they announce nothing), send the
// beginning of it, and then one byte a second. One that is answered or cut off comes again a while later: as many deliveries later as a
// machine that is not busy takes in that time, or on one that is, the strangers would come faster than it can turn them away.
type strangers struct {
	name, from       string
	count            int
	again            time.Duration
	announced, bytes int
	to               string // URL of the listener; empty: the intake's
}

// come returns when all of them have sent their beginning, or were turned away. end has them leave.
func (s strangers) come(t *testing.T, r *deployment) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	to := strings.TrimPrefix(cmp.Or(s.to, r.intake.Load().intake), "http://")
	there := make(chan struct{}, s.count)
	var wg sync.WaitGroup
	for range s.count {
		wg.Go(func() {
			tell := sync.OnceFunc(func() { there <- struct{}{} })
			for ctx.Err() == nil {
				if err := s.one(ctx, to, r.team, tell); err != nil && ctx.Err() == nil {
					t.Errorf("a stranger: %v", err)
					return
				}
				tell()
				select {
				case <-ctx.Done():
				case <-genuine.after(rand.IntN(int(2 * s.again.Seconds() * genuineRate))): // not all of them at once
				}
			}
		})
	}
	for range s.count {
		select {
		case <-there:
		case <-time.After(30 * time.Second):
			t.Fatal("the strangers have not come")
		}
	}
	return func() { cancel(); wg.Wait() }
}

// one is one connection, until the intake closes it.
func (s strangers) one(ctx context.Context, to, team string, there func()) error {
	from := net.ParseIP(s.from)
	if from == nil { // an address of its own for each of them
		n := strangerNumber.Add(1)
		from = net.IPv4(127, 1, byte(n>>8), byte(n))
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return fmt.Errorf("%s takes no connection: %w", to, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	length := fmt.Sprintf("Content-Length: %d", s.announced)
	if s.announced < 0 {
		length = "Transfer-Encoding: chunked"
	}
	if s.announced == 0 {
		there()
		_, _ = conn.Read(make([]byte, 1)) // until it is closed
		return nil
	}
	fmt.Fprintf(conn, "POST /v1/in/%s/github HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: issues\r\nX-Hub-Signature-256: sha256=%064d\r\n%s\r\n\r\n", team, 0, length)
	if s.announced < 0 {
		fmt.Fprintf(conn, "%x\r\n", 24_000_000) // one chunk
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		io.Copy(io.Discard, conn)
	}()
	_, err = conn.Write(make([]byte, s.bytes))
	there()
	for err == nil {
		select {
		case <-closed:
			err = net.ErrClosed
		case <-time.After(time.Second):
			_, err = conn.Write([]byte("x"))
		}
	}
	conn.Close()
	<-closed
	return nil
}

// TestLimitsOfTheFile: what the file says of the door holds in the process, senders behind a trusted proxy count for themselves, each
// is told by its status what is wrong, and the listener for probes and Prometheus counts it.
func TestLimitsOfTheFile(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	health := rig.FreeAddress(t)
	r.edit("listen: {", `listen: {health: "`+health+`", `)
	r.edit("topics: {", "intake: {pace: {grace: 6s}, yield_after: 30s, per_address: {connections: 3}, trusted_proxies: [127.0.0.0/8]}\ntopics: {")
	p := r.serve("intake")
	slow := make(chan int, 3)
	for range 3 { // on their way for 6 s: the others come meanwhile, however busy the machine
		c := r.announce(t, p, "192.0.2.1")
		go func() { slow <- statusOf(c) }()
	}
	if !rig.Until(time.Minute, func() bool { return r.scrape(t, health, "forebay_ingest_bodies_arriving") == "3" }) {
		t.Fatal("three bodies do not arrive")
	}
	if got := statusOf(r.announce(t, p, "192.0.2.1")); got != http.StatusTooManyRequests {
		t.Errorf("the fourth of an address was answered %d, want 429", got)
	}
	for from, want := range map[string]int{"192.0.2.2": http.StatusAccepted, "192.0.2.1": http.StatusTooManyRequests} {
		req := issue(1, 1, 1).request(t.Context(), p.intake, r.team)
		req.Header.Set("X-Forwarded-For", "192.0.2.1, "+from) // a sender may write what it likes before its own
		if got := answered(t, http.DefaultClient, req); got != want {
			t.Errorf("a signed delivery forwarded for %s was answered %d, want %d", from, got, want)
		}
	}
	for range 3 {
		if got := <-slow; got != http.StatusRequestTimeout {
			t.Errorf("a slow one was answered %d, want 408", got)
		}
	}
	for labels, want := range map[string]string{`outcome="slow",reason="pace"`: "3", `outcome="throttled",reason="address_connections"`: "2", `outcome="accepted",reason=""`: "1"} {
		if got := r.scrape(t, health, "forebay_ingest_deliveries_total{"+labels+`,source="github",team="`+r.team+`"}`); got != want {
			t.Errorf("%s was counted %q times, want %s", labels, got, want)
		}
	}
}

// announce sends a request of which most of the body is missing.
func (r *deployment) announce(t *testing.T, p *process, from string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.intake, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/in/%s/github HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Length: 9000\r\n\r\n{", r.team, from)
	return conn
}

// statusOf waits for the answer; 0 if there is none.
func statusOf(conn net.Conn) int {
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// scrape asks for a metric as Prometheus does.
func (r *deployment) scrape(t *testing.T, address, metric string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), metric+" "); ok {
			return value
		}
	}
	return ""
}
