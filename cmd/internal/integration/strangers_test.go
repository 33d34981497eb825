package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

const (
	genuineBody    = 12 << 10
	genuineCount   = 300
	genuineSenders = 4
	genuinePause   = 40 * time.Millisecond // of each: 100/s in all, for three seconds
	// beside strangers a delivery may take three times as long as without, or this: below it is the noise of a shared machine.
	genuineFloor = 150 * time.Millisecond
)

// TestStrangersAtTheDoor has senders without a signature use up what an intake has: memory, connections, time. Beside them every
// delivery of a provider is taken, about as fast as without them, whether the strangers come from the provider's address, as they do
// behind a proxy that nobody told the intake of, or from another.
func TestStrangersAtTheDoor(t *testing.T) {
	r := deploy(t, rig.Fake(t), options{})
	r.serve("intake")
	r.visit(t, 0) // warms both sides
	_, alone := r.visit(t, 1)
	t.Logf("alone: %v", alone)
	for i, s := range []strangers{
		{"64 that send 1 MB of 24", 64, 24 << 20, 1 << 20},
		{"64 that send 1 MB and do not say of how much", 64, -1, 1 << 20},
		{"400 that send 1 MB of 24, more than the memory holds", 400, 24 << 20, 1 << 20},
		{"1000 slow ones with bodies of 12 KB", 1000, 12_000, 1000},
		{"1000 slow ones with nearly all of 64 KB", 1000, 64_000, 60_000},
		{"1000 that send no byte of their bodies", 1000, 12_000, 0},
	} {
		for j, from := range []string{"127.0.0.1", "127.0.0.2"} {
			t.Run(s.name+", from "+from, func(t *testing.T) {
				end := s.come(t, r, from)
				statuses, p99 := r.visit(t, 2+2*i+j)
				end()
				t.Logf("answers %v, p99 %v, alone %v", statuses, p99, alone)
				if statuses[http.StatusAccepted] != genuineCount {
					t.Errorf("answers to %d signed deliveries: %v, want 202 to all", genuineCount, statuses)
				}
				if limit := max(3*alone, genuineFloor); p99 > limit {
					t.Errorf("the slowest of a hundred took %v, want %v: alone it took %v", p99, limit, alone)
				}
			})
		}
	}
}

// visit delivers signed bodies over connections of their own, as GitHub does, and returns how often which status was answered and the
// p99 of the times. Nothing is sent twice.
func (r *deployment) visit(t *testing.T, repository int) (statuses map[int]int, p99 time.Duration) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 15 * time.Second}
	statuses = map[int]int{}
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for sender := range genuineSenders {
		wg.Go(func() {
			for n := range genuineCount / genuineSenders {
				d := issue(100+repository, 1+sender, 1+n)
				d.body = fmt.Appendf(nil, "%s%s", d.body, strings.Repeat(" ", genuineBody-len(d.body)))
				req := d.request(t.Context(), r.intake.Load().intake, r.team)
				begin := time.Now()
				status := answered(client, req)
				mu.Lock()
				statuses[status]++
				took = append(took, time.Since(begin))
				mu.Unlock()
				<-time.After(genuinePause)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return statuses, took[len(took)*99/100]
}

// answered returns the status of the answer, 0 without one.
func answered(client *http.Client, req *http.Request) int {
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// strangers are connections that each announce a body (-1: of a length that they do not say), send the beginning of it, and then one
// byte a second. One that is answered or cut off comes again a second later.
type strangers struct {
	name             string
	count            int
	announced, bytes int
}

// come returns when all of them have sent their beginning, or were turned away. end has them leave.
func (s strangers) come(t *testing.T, r *deployment, from string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	intake := strings.TrimPrefix(r.intake.Load().intake, "http://")
	there := make(chan struct{}, s.count)
	var wg sync.WaitGroup
	for range s.count {
		wg.Go(func() {
			tell := sync.OnceFunc(func() { there <- struct{}{} })
			for ctx.Err() == nil {
				if err := s.one(ctx, intake, r.team, from, tell); err != nil && ctx.Err() == nil {
					t.Errorf("a stranger: %v", err)
					return
				}
				tell()
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
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
func (s strangers) one(ctx context.Context, intake, team, from string, there func()) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(ctx, "tcp", intake)
	if err != nil {
		return fmt.Errorf("the intake takes no connection: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	length := fmt.Sprintf("Content-Length: %d", s.announced)
	if s.announced < 0 {
		length = "Transfer-Encoding: chunked"
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
	if errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
