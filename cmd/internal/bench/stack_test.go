package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
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
	sizes := e2eSizes{warmUp: 100 * time.Millisecond, warmEvents: 1, conns: 2, entities: 3, partitions: 2, window: 20, sample: 1}
	if err := runE2E(t.Context(), o, sizes, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `e2e/rate e2e/bare e2e/traced e2e/guarded e2e/memory_intake e2e/memory_stream e2e/trickle e2e/trickle_p50 e2e/trickle_p50_200 e2e/trickle_p99 e2e/rest `+
		`e2e/memory_rest_intake e2e/memory_rest_stream`, `e2e/cpu_intake e2e/cpu_stream e2e/cpu_postgres e2e/cpu_load e2e/cpu_agent `+
		`e2e/cpu_bare_intake e2e/cpu_bare_stream e2e/cpu_bare_postgres e2e/cpu_bare_load e2e/cpu_bare_agent `+
		`e2e/cpu_traced_intake e2e/cpu_traced_stream e2e/cpu_traced_postgres e2e/cpu_traced_load e2e/cpu_traced_agent `+
		`e2e/cpu_guarded_intake e2e/cpu_guarded_stream e2e/cpu_guarded_postgres e2e/cpu_guarded_load e2e/cpu_guarded_agent `+
		`e2e/cpu_trickle_bare_intake e2e/cpu_trickle_bare_stream e2e/cpu_trickle_bare_postgres e2e/cpu_trickle_intake e2e/cpu_trickle_stream e2e/cpu_trickle_postgres`)
	if x := r.Ratios[0]; x.AtMost || x.Bar != 1 || x.Theirs != e2eBar || len(x.Rounds) != o.Rounds {
		t.Errorf("%+v", x)
	}
}

func TestGrowthScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	load := e2eSizes{conns: 2, entities: 3, partitions: 2, window: 20}
	if err := runGrowth(t.Context(), o, growthSizes{first: 10, full: 100, trickle: 300}, load, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, ``, `growth/log growth/wal growth/tables growth/trickle_log growth/trickle_wal growth/trickle_tables`)
}

func TestRecoveryScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	sizes := recoverySizes{rate: 50, warmUp: 2 * time.Second, conns: 2, entities: 100, partitions: 6}
	if err := sizes.run(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `recovery/restart recovery/of_three recovery/others_p99`, ``)
	for _, x := range r.Ratios {
		if !x.AtMost || x.Bar < 1 || len(x.Rounds) != o.Rounds {
			t.Errorf("%+v", x)
		}
	}
}

func TestReleaseScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Round = 500 * time.Millisecond
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	if err := (releaseSizes{waiting: 2000, rate: 100, entities: 5}).run(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `release/others_p99 release/memory`, ``)
	for _, x := range r.Ratios {
		if !x.AtMost || x.Bar < 1 {
			t.Errorf("%+v", x)
		}
	}
}

func TestHolScenario(t *testing.T) {
	t.Parallel()
	runTrouble(t, hol(troubleSizes{warmUp: 100 * time.Millisecond, rate: 100, conns: 2, entities: 2, partitions: 2}), `hol/p99`)
}

func TestFanoutScenario(t *testing.T) {
	t.Parallel()
	runTrouble(t, fanout(troubleSizes{warmUp: 100 * time.Millisecond, rate: 30, conns: 2, entities: 2, partitions: 2, subscriptions: 2}), `fanout/hangs fanout/fails`)
}

func runTrouble(t *testing.T, of trouble, ratios string) {
	t.Helper()
	o := tiny(t)
	o.Round = time.Second // long enough for every kind of delivery, whatever else the machine does
	o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
	r := newReport(o)
	if err := of.run(t.Context(), o, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, ratios, ``)
	if x := r.Ratios[0]; !x.AtMost || x.Bar != troubleBar || len(x.Rounds) != o.Rounds {
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
