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
)

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
	a := newAgent()
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
