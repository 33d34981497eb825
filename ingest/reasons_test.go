package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// told is what a sender is told, whatever the reason is: the same bytes as ever, for a forger and for who is over a limit. The headers are
// those before Content-Type, and those behind.
func told(status int, before, behind string) string {
	body := fmt.Sprintf(`{"type":"about:blank","title":"%s","status":%d}`, http.StatusText(status), status)
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Type: application/problem+json\r\n%sContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), before, behind, len(body), body)
}

const (
	closes = "Connection: close\r\n"
	retry  = "Retry-After: 5\r\n"
)

var (
	unauthorized = told(401, closes, "Www-Authenticate: Signature\r\n")
	closed503    = told(503, closes, retry)
	open503      = told(503, "", retry)
)

// wayOut is a way not to be taken in: what the sender does, what it is told, and what the operator.
type wayOut struct {
	outcome, reason string
	answer          string
	change          func(*Config, *Source)
	does            func(in *intake) *said // returns the connection that gets the answer
	unknown         bool                   // of no source
}

// said is a connection on which a request was sent.
type said struct {
	net.Conn
	half bool // the sender says no more
}

// request opens a connection and sends text.
func (in *intake) request(text string) *said {
	in.t.Helper()
	conn, err := net.Dial("tcp", in.server.Listener.Addr().String())
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, text) // fails where it is answered at once
	return &said{Conn: conn}
}

// answer reads the answer as it came, without its date.
func (s *said) answer(t *testing.T) string {
	t.Helper()
	if s.half {
		_ = s.Conn.(*net.TCPConn).CloseWrite()
	}
	r := bufio.NewReader(s)
	var text strings.Builder
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return text.String()
		}
		if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(n))
		}
		if !strings.HasPrefix(line, "Date: ") {
			text.WriteString(line)
		}
		if line == "\r\n" {
			break
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Error(err)
	}
	return text.String() + string(body)
}

// stampedSource signs a time, so that all that verification can refuse can be met.
var stampedSource = provider.Config{Preset: "generic", Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}},
	Verify: &verify.Params{SignatureHeader: "X-Signature", TimestampHeader: "X-Time", Signed: "{timestamp}.{body}"}}

// head is the beginning of a request, with these headers.
func head(path string, length int, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n", path, length, strings.Join(append(headers, ""), "\r\n"))
}

// signedAt sends a body that the source's secret signs at a time.
func (in *intake) signedAt(body string, at time.Time) *said {
	in.t.Helper()
	r := verify.Request{Method: "POST", Header: http.Header{}, Body: []byte(body)}
	if err := in.source.Sign(&r, at); err != nil {
		in.t.Fatal(err)
	}
	return in.request(head(inPath, len(body), "X-Signature: "+r.Header.Get("X-Signature"), "X-Time: "+r.Header.Get("X-Time")) + body)
}

const usable = `{"id":"1","type":"t"}`

// standing is a request whose body is not all there. It is on its way when this returns.
func (in *intake) standing(length, sent int) *said {
	in.t.Helper()
	_, _, before := in.handler.room.usage()
	s := in.request(head(inPath, length) + strings.Repeat("x", sent))
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(time.Millisecond) {
		if _, _, n := in.handler.room.usage(); n > before {
			break
		}
	}
	return s
}

// failing fails otherwise than verifiers do.
type failing struct{}

func (failing) Verify(*verify.Request, time.Time) error { return io.ErrUnexpectedEOF }

func waysOut() []wayOut {
	fails := func(err error) func(*Config, *Source) {
		return func(c *Config, _ *Source) { c.Log = &fakeLog{answer: func(context.Context) error { return err }} }
	}
	now := func(in *intake) *said { return in.signedAt(usable, time.Now()) }
	forged := func(headers ...string) func(in *intake) *said {
		return func(in *intake) *said { return in.request(head(inPath, 1, headers...) + "1") }
	}
	limits := func(l Limits) func(*Config, *Source) {
		return func(c *Config, s *Source) { c.MaxBody, s.MaxBody, c.Limits = 2*mib, 2*mib, l }
	}
	stamp := fmt.Sprintf("X-Time: %d", time.Now().Unix())
	return []wayOut{
		{outcome: "refused", reason: "unknown_source", answer: unauthorized, unknown: true, does: func(in *intake) *said { return in.request(head("/v1/in/acme/other", 1) + "1") }},
		{outcome: "refused", reason: "missing_header", answer: unauthorized, does: forged()},
		{outcome: "refused", reason: "malformed", answer: unauthorized, does: forged("X-Signature: zz", stamp)},
		{outcome: "refused", reason: "mismatch", answer: unauthorized, does: forged("X-Signature: "+sign([]byte("1")), stamp)},
		{outcome: "refused", reason: "mismatch", answer: unauthorized, does: forged("X-Signature: "+sign([]byte("1")), "X-Time: 1")},
		{outcome: "refused", reason: "too_old", answer: unauthorized, does: func(in *intake) *said { return in.signedAt(usable, time.Now().Add(-time.Hour)) }},
		{outcome: "refused", reason: "too_new", answer: unauthorized, does: func(in *intake) *said { return in.signedAt(usable, time.Now().Add(time.Hour)) }},
		{outcome: "refused", reason: "internal", answer: unauthorized, does: func(in *intake) *said {
			in.source.Source.Verifier = failing{}
			return in.request(head(inPath, 1) + "1")
		}},
		{outcome: "too_large", reason: "intake", answer: told(413, closes, ""), does: func(in *intake) *said { return in.request(head(inPath, ceiling+1)) }},
		{outcome: "too_large", reason: "source", answer: told(413, "", ""), does: func(in *intake) *said {
			in.source.Source.MaxBody = 5
			return in.signedAt(usable, time.Now())
		}},
		{outcome: "throttled", reason: "source", answer: told(429, "", "Retry-After: 2\r\n"), does: now, change: func(_ *Config, s *Source) { s.Limiter = rate.NewLimiter(0.5, 0) }},
		{outcome: "throttled", reason: "team", answer: told(429, "", "Retry-After: 2\r\n"), does: now, change: func(_ *Config, s *Source) { s.TeamLimiter = rate.NewLimiter(0.5, 0) }},
		{outcome: "throttled", reason: "address_connections", answer: told(429, closes, retry), change: limits(Limits{AddressConnections: 1, YieldAfter: time.Hour}),
			does: func(in *intake) *said { in.standing(100, 1); return in.request(head(inPath, 100)) }},
		{outcome: "throttled", reason: "address_bytes", answer: told(429, closes, retry), change: limits(Limits{AddressBytes: 4 * mib, YieldAfter: time.Hour}),
			does: func(in *intake) *said {
				in.standing(2*mib, 2*mib-1)
				in.holds(1, 2*mib+1+ownMemory)
				return in.request(head(inPath, 2*mib) + strings.Repeat("x", 2*mib-1))
			}},
		{outcome: "unavailable", reason: "in_flight", answer: closed503, change: limits(Limits{Memory: 5 * mib, SmallMemory: mib, AddressBytes: 20 * mib, YieldAfter: time.Hour}),
			does: func(in *intake) *said {
				in.standing(2*mib, 2*mib-1)
				in.holds(1, 2*mib+1+ownMemory)
				return in.request(head(inPath, 2*mib) + strings.Repeat("x", 2*mib-1))
			}},
		{outcome: "unavailable", reason: "displaced", answer: closed503, change: limits(Limits{Memory: 5 * mib, SmallMemory: mib, AddressBytes: 20 * mib, YieldAfter: time.Nanosecond}),
			does: func(in *intake) *said {
				first := in.standing(2*mib, 2*mib-1)
				in.holds(1, 2*mib+1+ownMemory)
				in.request(head(inPath, 2*mib) + strings.Repeat("x", 2*mib-1))
				return first
			}},
		{outcome: "unavailable", reason: "connections", answer: closed503, change: limits(Limits{Connections: 2, YieldAfter: time.Hour}),
			does: func(in *intake) *said { first := in.standing(100, 1); in.request(head(inPath, 100)); return first }},
		{outcome: "slow", reason: "pace", answer: told(408, closes, ""), change: func(c *Config, _ *Source) { c.ReadTimeout, c.Limits = time.Hour, Limits{Grace: 10 * time.Millisecond} },
			does: func(in *intake) *said { return in.request(head(inPath, 100) + "1") }},
		{outcome: "slow", reason: "timeout", answer: told(408, closes, ""), change: func(c *Config, _ *Source) { c.ReadTimeout = 50 * time.Millisecond },
			does: func(in *intake) *said { return in.request(head(inPath, 100) + "1") }},
		{outcome: "unavailable", reason: "stood_still", answer: closed503, change: func(c *Config, _ *Source) { c.ReadTimeout = 50 * time.Millisecond },
			does: func(in *intake) *said {
				in.handler.room.mu.Lock()
				in.handler.room.stood = time.Now().Add(time.Hour)
				in.handler.room.mu.Unlock()
				return in.request(head(inPath, 100) + "1")
			}},
		{outcome: "incomplete", reason: "broken_off", answer: told(400, closes, ""), does: func(in *intake) *said {
			s := in.request(head(inPath, 100) + "1")
			s.half = true
			return s
		}},
		{outcome: "unavailable", reason: "deadline", answer: open503, does: func(in *intake) *said {
			in.source.Source.Deadline = 50 * time.Millisecond
			return in.signedAt(usable, time.Now())
		}, change: func(c *Config, _ *Source) {
			c.Log = &fakeLog{answer: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		}},
		{outcome: "unavailable", reason: "client_gone", answer: "", does: func(in *intake) *said {
			reached := make(chan struct{})
			in.log.answer = func(ctx context.Context) error { close(reached); <-ctx.Done(); return context.Cause(ctx) }
			s := in.signedAt(usable, time.Now())
			in.wait(reached)
			s.Close()
			return s
		}},
		{outcome: "unavailable", reason: "throttled", answer: open503, does: now, change: fails(schemas.Errorf(schemas.Throttled, "produce", "full"))},
		{outcome: "unavailable", reason: "unavailable", answer: open503, does: now, change: fails(schemas.Errorf(schemas.Unavailable, "produce", "no broker"))},
		{outcome: "broken", reason: "too_large", answer: open503, does: now, change: fails(schemas.Errorf(schemas.TooLarge, "produce", "1 MB"))},
		{outcome: "broken", reason: "internal", answer: open503, does: now, change: fails(errors.New("a bug"))},
		{outcome: "misdirected", reason: "path", unknown: true, answer: told(404, closes, ""), does: func(in *intake) *said { return in.request(head("/hooks", 1) + "1") }},
		{outcome: "misdirected", reason: "method", unknown: true, answer: told(405, "Allow: POST\r\n"+closes, ""),
			does: func(in *intake) *said { return in.request("GET " + inPath + " HTTP/1.1\r\nHost: x\r\n\r\n") }},
		{outcome: "misdirected", reason: "headers", unknown: true, answer: told(431, closes, ""),
			does: func(in *intake) *said {
				return in.request(head(inPath, 1, strings.Fields(strings.Repeat("a:1 ", mostHeaderLines))...) + "1")
			}},
	}
}

// Each way not to be taken in, provoked over HTTP: the sender is told what it always was, and the operator its reason, in one line of the
// log and in the metric.
func TestEachRefusalHasItsReason(t *testing.T) {
	t.Parallel()
	for i, test := range waysOut() {
		t.Run(fmt.Sprintf("%d %s %s", i, test.outcome, test.reason), func(t *testing.T) {
			t.Parallel()
			in := setup(t, test.change)
			in.preset(stampedSource)
			if diff := cmp.Diff(test.answer, test.does(in).answer(t)); diff != "" {
				t.Errorf("the sender is told (-want +got): %s", diff)
			}
			team, source := "acme", "orders"
			if test.unknown {
				team, source = unknown, unknown
			}
			waitFor(t, "it is not counted", func() bool {
				return testutil.ToFloat64(in.handler.metrics.deliveries.WithLabelValues(team, source, test.outcome, test.reason)) == 1
			})
			want := "outcome=" + test.outcome + " "
			waitFor(t, "no line says so: "+in.lines.String(), func() bool {
				for line := range strings.Lines(in.lines.String()) {
					if strings.Contains(line, want) && strings.Contains(line, " reason="+test.reason+" ") {
						return true
					}
				}
				return false
			})
		})
	}
}

// No reason is left out above, and no two ways have the same.
func TestEveryReasonIsProvoked(t *testing.T) {
	t.Parallel()
	ways := map[string]int{}
	provoked := map[string]bool{
		"not_accepting":   true, // of the process: TestNotAcceptingIsTold in cmd/internal/app
		"key_not_ready":   true, // likewise
		"digest_mismatch": true, // of one scheme: TestVectors in ingest/verify
		"bad_cert_url":    true, // of one scheme: TestSNSCertificates in ingest/verify
		"bad_key":         true, // a source without a secret, which config check refuses
	}
	for _, test := range waysOut() {
		ways[test.outcome+" "+test.reason]++
		provoked[test.reason] = true
		if test.outcome == string(broken) && !slices.Contains(alerted[broken], test.reason) {
			t.Errorf("the first delivery that is broken as %s raises no alert: its counter begins at 1", test.reason)
		}
	}
	provoked[schemaUnchecked] = true                    // taken: TestBodiesAreHeldAgainstSchemas
	provoked[emptyList] = true                          // taken: TestEachElementIsAnEvent
	provoked[onDisk] = true                             // taken: TestOnDisk
	for _, reason := range provider.UnusableReasons() { // kept, and not refused
		if provoked[reason] = true; !slices.Contains(alerted[quarantined], reason) {
			t.Errorf("the first delivery that is kept for %s raises no alert: its counter begins at 1", reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !provoked[reason] {
			t.Errorf("%s is provoked by no test", reason)
		}
	}
	for way, n := range ways {
		if n > 1 && way != "refused mismatch" {
			t.Errorf("%s is the reason of %d ways", way, n)
		}
	}
}
