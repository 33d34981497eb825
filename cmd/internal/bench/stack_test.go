package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

func TestE2EScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Round = 500 * time.Millisecond // long enough for some deliveries, whatever else the machine does
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	sizes := e2eSizes{warmUp: 100 * time.Millisecond, warmEvents: 1, conns: 2, entities: 3, partitions: 2, window: 20}
	if err := runE2E(t.Context(), o, sizes, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `e2e/rate e2e/bare e2e/trickle e2e/trickle_p99 e2e/rest`, `e2e/cpu_intake e2e/cpu_stream e2e/cpu_postgres e2e/cpu_load e2e/cpu_agent `+
		`e2e/cpu_bare_intake e2e/cpu_bare_stream e2e/cpu_bare_postgres e2e/cpu_bare_load e2e/cpu_bare_agent `+
		`e2e/cpu_trickle_bare_intake e2e/cpu_trickle_bare_stream e2e/cpu_trickle_bare_postgres e2e/cpu_trickle_intake e2e/cpu_trickle_stream e2e/cpu_trickle_postgres`,
		`e2e/half_rate e2e/p50 e2e/p99 e2e/coming_to_rest`)
	if x := r.Ratios[0]; x.AtMost || x.Bar != 1 || x.Theirs != e2eBar || len(x.Rounds) != o.Rounds {
		t.Errorf("%+v", x)
	}
	if p := r.Settings["e2e.profile_stream"]; !strings.Contains(p, "%") {
		t.Errorf("no profile: %v", r.Settings)
	}
}

func TestHolScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Round = time.Second // long enough for every kind of delivery, whatever else the machine does
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	sizes := holSizes{warmUp: 100 * time.Millisecond, rate: 100, conns: 2, entities: 2, partitions: 2}
	if err := runHol(t.Context(), o, sizes, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `hol/p99`, ``, `hol/p50_with hol/p50_without hol/failed_calls hol/hanging_calls`)
	if x := r.Ratios[0]; !x.AtMost || x.Bar != holBar || len(x.Rounds) != o.Rounds {
		t.Errorf("%+v", x)
	}
}

func TestFanoutScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Round = time.Second
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	sizes := fanoutSizes{warmUp: 100 * time.Millisecond, rate: 30, conns: 2, entities: 2, partitions: 2, subscriptions: 2}
	if err := runFanout(t.Context(), o, sizes, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `fanout/hangs fanout/fails`, ``, `fanout/p50_well fanout/worst_p99_well fanout/p50_hangs fanout/worst_p99_hangs fanout/p50_fails fanout/worst_p99_fails`)
	if x := r.Ratios[0]; !x.AtMost || x.Bar != fanoutBar || len(x.Rounds) != o.Rounds {
		t.Errorf("%+v", x)
	}
}

// An intake that refuses ends the run: a figure with refusals in it is none.
func TestSendersStopAtARefusal(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	s := &senders{addr: l.Addr().String(), conns: 2, mix: []share{{weight: 1, entities: 1}}, newTemplate: func() *requestTemplate { return newRequestTemplate("a", "b", "c", time.Now()) }}
	err = s.runWhile(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

// Each connection goes round entities of its own, by the weights, and a second run goes on where the first ended.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := &senders{conns: 2, mix: []share{{kind: 0, weight: 3, entities: 2}, {kind: 1, weight: 1, entities: 5}}}
	last, kinds, of := map[uint64]uint64{}, map[uint64]int{}, map[uint64]int{}
	for run := range uint64(2) {
		s.step = run * 100
		for conn := range s.conns {
			next := s.schedule(conn)
			for range 40 {
				d := next()
				line := kindAndEntityOf(d)
				if before, ok := last[line]; ok && before >= d {
					t.Fatalf("%x after %x", d, before)
				}
				if owner, ok := of[line]; ok && owner != conn {
					t.Fatalf("%x is sent by two connections", d)
				}
				if stepOf(d) < s.step {
					t.Fatalf("step %d in a run from %d on", stepOf(d), s.step)
				}
				last[line], of[line] = d, conn
				kinds[kindOf(d)]++
			}
		}
	}
	if kinds[0] != 120 || kinds[1] != 40 || len(last) != 2*(2+5) {
		t.Errorf("%v over %d entities", kinds, len(last))
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	f := newRequestTemplate("team", "github", "secret", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	first := string(f.request(deliveryOf(1, 61, 12)))
	again := string(f.request(deliveryOf(1, 62, 12)))
	if back := string(f.request(deliveryOf(1, 61, 12))); back != first || first == again {
		t.Error("a delivery is not always the same request, or two are")
	}
	head, body, _ := strings.Cut(first, "\r\n\r\n")
	for _, want := range []string{"X-GitHub-Delivery: 010000003d00000c", fmt.Sprintf("Content-Length: %d\r\n", len(body)), "POST /v1/in/team/github "} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in %s", want, head)
		}
	}
	if want := `{"action":"renamed","repository":{"id":77000001,"full_name":"acme/shop"},"issue":{"number":88000012,"updated_at":"2026-01-01T00:01:01Z"`; !strings.HasPrefix(body, want) || len(body) != deliveryBody {
		t.Errorf("%d bytes: %.160s", len(body), body)
	}
}

// The agent tells what came twice, what came out of order, and whom it failed.
func TestAgent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := &agent{seen: map[uint64]bool{}, last: map[uint64]uint64{}}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go a.connection(conn)
		}
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(path string, delivery uint64) (int, []byte) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+path, strings.NewReader("body"))
		req.Header.Set("ce-deliveryid", fmt.Sprintf("%016x", delivery))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	one, two, other := deliveryOf(0, 1, 1), deliveryOf(0, 2, 1), deliveryOf(0, 1, 0)
	for _, c := range []struct {
		path     string
		delivery uint64
		status   int
	}{{agentRun, two, 200}, {agentRun, one, 200}, {agentFirst, two, 200}, {agentFirst, other, 500}, {agentRun, other, 200}} {
		if status, _ := call(c.path, c.delivery); status != c.status {
			t.Errorf("%+v: %d", c, status)
		}
	}
	if _, body := call(agentCount, 0); string(body) != "3" {
		t.Errorf("count %s", body)
	}
	var fate agentReport
	_, body := call(agentTake, 0)
	in := bytes.NewReader(body)
	if err := binary.Read(in, binary.LittleEndian, &fate); err != nil || fate != (agentReport{Receipts: 3, Twice: 1, Unordered: 1, Failed: 1}) {
		t.Fatalf("%+v %v", fate, err)
	}
	list := make([]receipt, 3)
	if err := binary.Read(in, binary.LittleEndian, list); err != nil || list[0].Delivery != two || list[0].At == 0 {
		t.Errorf("%+v %v", list, err)
	}
}

func TestWays(t *testing.T) {
	t.Parallel()
	accepted := []receipt{{1, 100}, {2, 100}, {3, 100}, {4, 100}}
	came := []receipt{{2, 50}, {1, 350}, {4, 120}}
	list, lost := transitTimes(accepted, came, func(d uint64) bool { return d != 4 })
	if !slices.Equal(list, []time.Duration{0, 250}) || lost != 1 {
		t.Errorf("%v, %d lost", list, lost)
	}
}

func TestTopPackages(t *testing.T) {
	t.Parallel()
	const traces = `File: bench
Type: cpu
Duration: 5s, Total samples = 100ms
-----------+-------------------------------------------------------
      60ms   runtime.memmove
             crypto/tls.(*Conn).Write
             net/http.(*conn).serve
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc
             slices.SortFunc[go.shape.[]net/http.x] (inline)
             github.com/forebay-io/forebay/stream/lane.(*Lanes).run
             net/http.(*conn).serve
-----------+-------------------------------------------------------
      10ms   runtime.gcDrain
-----------+-------------------------------------------------------
`
	if got, want := topPackages(traces, 3), "net/http 60%, stream/lane 30%, runtime 10%"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := topPackages("nothing", 3); got != "" {
		t.Errorf("%q of nothing", got)
	}
}
