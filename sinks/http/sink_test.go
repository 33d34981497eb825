package httpsink

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{
		Make: func(t testing.TB, d sinktest.Target) sink.Sink {
			return must(t, Config{
				URL: d.URL + "/run?token=" + url.QueryEscape(d.Secret), Common: spec.Common{AllowNetworks: loopback},
				Secret:  schemas.NewSecret("whsec_" + d.Secret),
				Headers: map[string]schemas.Secret{"Authorization": schemas.NewSecret("Bearer " + d.Secret)},
			})
		},
		Key:   func(r *http.Request, _ []byte) string { return r.Header.Get("Idempotency-Key") },
		Whole: true,
	})
}

// receiver acts once per key, as the contract asks of one.
type receiver struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[req.Header.Get("Idempotency-Key")] = true
	_, _ = io.WriteString(w, "taken")
}

// Done counts keys: whatever comes under another than the action's is done besides.
func (r *receiver) Done() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// The key goes with every attempt, and a receiver that looks at it acts once, whatever breaks and wherever.
func TestOnce(t *testing.T) {
	sinktest.Once(t, sinktest.Effect{
		Fake: func() sinktest.Fake { return &receiver{seen: map[string]bool{}} }, Calls: 1,
		Make: func(t testing.TB, url string) sink.Sink {
			return must(t, Config{URL: url, Common: spec.Common{AllowNetworks: loopback}})
		},
	})
}

func must(t testing.TB, cfg Config) *Sink {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// receive runs one attempt against a server that keeps the request.
func receive(t *testing.T, cfg Config, a sink.Action) (http.Header, []byte) {
	t.Helper()
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	cfg.URL, cfg.AllowNetworks = server.URL, loopback
	out, err := must(t, cfg).Do(t.Context(), a)
	if err != nil || out.Code != 202 {
		t.Fatalf("%+v, %v", out, err)
	}
	return header, body
}

func TestWireFormat(t *testing.T) {
	t.Parallel()
	a := sinktest.Action(7)
	a.Attempt, a.Late = 3, true
	e := a.Event
	e.Type = "com.example.order \"ünusual\" 100%\r\nX-Evil: 1"
	e.Version.Clock = "order"
	e.Deleted, e.Backfill, e.DeliveryID = true, true, "72d3162e"
	e.Sender, e.Title = schemas.Sender{ID: "21031067", Login: "codertocat", Kind: schemas.Human, Trust: schemas.Member}, "It fails"
	e.Conversation, e.Chain = true, schemas.Chain{Agents: []string{"planner", "coder"}, Depth: 4, TraceID: "t-9"}
	e.DataSchema = "https://example.com/schema"
	e.TraceState = "vendor=1"
	e.Extensions = map[string]string{"tenant": "blue"}
	e.Headers = []schemas.Header{{Name: "x-github-event", Value: "issues"}}
	e.Data = []byte("{\"raw\" :  1.0}\r\n\x00\xff")
	got, body := receive(t, Config{
		Common: spec.Common{Version: "1.2.3"}, Headers: map[string]schemas.Secret{"x-api-key": schemas.NewSecret("k")},
	}, a)

	parent := got.Get("Traceparent")
	got.Del("Traceparent")
	want := http.Header{
		"Content-Length": {"18"},
		"Content-Type":   {"application/json"}, "User-Agent": {"Forebay/1.2.3"}, "X-Api-Key": {"k"},
		"Idempotency-Key": {string(a.ID)}, "Webhook-Id": {string(a.ID)},
		"Forebay-Attempt": {"3"}, "Forebay-Late": {"true"}, "Forebay-Outgoing": {"true"}, "Tracestate": {"vendor=1"},
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"delivery-7"}, "Ce-Deliveryid": {"72d3162e"}, "Ce-Source": {"/acme/orders"},
		"Ce-Senderid": {"21031067"}, "Ce-Senderlogin": {"codertocat"}, "Ce-Senderkind": {"human"}, "Ce-Sendertrust": {"member"}, "Ce-Conversation": {"true"},
		"X-Agent-Call-Chain": {"planner, coder, acme.triage"}, "X-Agent-Call-Depth": {"5"}, "X-Agent-Trace-Id": {"t-9"}, "Ce-Entitytitle": {"It%20fails"},
		"Ce-Type": {"com.example.order%20%22%C3%BCnusual%22%20100%25%0D%0AX-Evil:%201"},
		"Ce-Time": {"2026-03-01T10:00:00Z"}, "Ce-Recordedtime": {"2026-03-01T10:00:01Z"},
		"Ce-Subject": {"orders/7"}, "Ce-Partitionkey": {"orders/7"}, "Ce-Dataschema": {"https://example.com/schema"},
		"Ce-Entityversion": {"00000000000000000007"}, "Ce-Versionkind": {"sequence"}, "Ce-Versionclock": {"order"},
		"Ce-Payloadkind": {"snapshot"}, "Ce-Entitydeleted": {"true"}, "Ce-Backfill": {"true"}, "Ce-Tenant": {"blue"},
		"Ce-Traceparent": {e.TraceParent}, "Ce-Tracestate": {"vendor=1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if string(body) != string(e.Data) {
		t.Errorf("body %q is not the provider's", body)
	}
	if !strings.HasPrefix(parent, e.TraceParent[:36]) || !strings.HasSuffix(parent, "-01") || parent == e.TraceParent {
		t.Errorf("traceparent %q is no child of %q", parent, e.TraceParent)
	}
}

// Where nothing newer has run, nothing is said of it: an agent may look for the header alone.
func TestNotLate(t *testing.T) {
	t.Parallel()
	if got, _ := receive(t, Config{}, sinktest.Action(7)); got["Forebay-Late"] != nil {
		t.Errorf("Forebay-Late: %s", got["Forebay-Late"])
	}
}

// TestSignatureKnownAnswer checks against a signature published with the Standard Webhooks libraries.
func TestSignatureKnownAnswer(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/standard-webhooks.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Secret, ID, Timestamp, Body, Signature string }
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	key, err := signingKey(schemas.NewSecret(v.Secret))
	if err != nil {
		t.Fatal(err)
	}
	if got := sign(key, v.ID, v.Timestamp, []byte(v.Body)); got != v.Signature {
		t.Errorf("signature %s, published %s", got, v.Signature)
	}
}

func TestSignatureOnTheWire(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	a := sinktest.Action(1)
	var stamps []string
	for _, key := range [][]byte{[]byte(strings.Repeat("a", 24)), []byte(strings.Repeat("b", 64))} {
		now = now.Add(time.Minute)
		secret := schemas.NewSecret("whsec_" + base64.StdEncoding.EncodeToString(key))
		h, body := receive(t, Config{Secret: secret, Now: func() time.Time { return now }}, a)
		stamp := h.Get("Webhook-Timestamp")
		stamps = append(stamps, stamp)
		mac := hmac.New(sha256.New, key) // a verifier written here from the standard alone
		_, _ = io.WriteString(mac, h.Get("Webhook-Id")+"."+stamp+"."+string(body))
		text, ok := strings.CutPrefix(h.Get("Webhook-Signature"), "v1,")
		given, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || !hmac.Equal(given, mac.Sum(nil)) {
			t.Errorf("signature %q does not verify", h.Get("Webhook-Signature"))
		}
	}
	if diff := cmp.Diff([]string{"1700000060", "1700000120"}, stamps); diff != "" {
		t.Errorf("every attempt has a fresh timestamp:\n%s", diff)
	}
	h, _ := receive(t, Config{}, a)
	if h.Get("Webhook-Signature") != "" || h.Get("Webhook-Timestamp") != "" {
		t.Error("signed without a secret")
	}
}

func TestHop(t *testing.T) {
	t.Parallel()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for parent, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":       trace + "/01",
		"00-" + trace + "-" + span + "-00":       trace + "/00",
		"cc-" + trace + "-" + span + "-03-extra": trace + "/01",
		"":                                       "new",
		"garbage":                                "new",
	} {
		h := http.Header{}
		hop(h, sink.Action{Event: &schemas.Event{TraceParent: parent, TraceState: "a=b"}})
		got := h.Get("Traceparent")
		if len(got) != 55 || strings.Contains(got, span) {
			t.Fatalf("%q gives %q", parent, got)
		}
		if want == "new" {
			if strings.Contains(got, trace) || !strings.HasSuffix(got, "-00") || h.Get("Tracestate") != "" {
				t.Errorf("%q goes on as %q", parent, got)
			}
			continue
		}
		if got[3:35]+"/"+got[53:] != want || h.Get("Tracestate") != "a=b" {
			t.Errorf("%q gives %q, want %q", parent, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	s := schemas.NewSecret
	short := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))
	for name, cfg := range map[string]Config{
		"no url":          {},
		"unparsable":      {URL: "https://exa mple.com/hush-hush"},
		"private literal": {URL: "https://10.0.0.1/hush-hush"},
		"raw secret":      {URL: "https://example.com", Secret: s("hush-hush")},
		"not base64":      {URL: "https://example.com", Secret: s("whsec_hush-hush!")},
		"short secret":    {URL: "https://example.com", Secret: s(short)},
		"reserved":        {URL: "https://example.com", Headers: map[string]schemas.Secret{"idempotency-key": s("hush-hush")}},
		"bad name":        {URL: "https://example.com", Headers: map[string]schemas.Secret{"a b": s("hush-hush")}},
	} {
		_, err := New(cfg)
		if schemas.KindOf(err) != schemas.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), short) {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("check sent a request") }))
	s := must(t, Config{URL: server.URL, Common: spec.Common{AllowNetworks: loopback}})
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := s.Check(t.Context()); sink.ClassOf(err) != sink.ClassNetwork {
		t.Errorf("a closed port: %v", err)
	}
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	s = must(t, Config{URL: tls.URL, Common: spec.Common{AllowNetworks: loopback}})
	err := s.Check(t.Context())
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a certificate nobody trusts: %v", err)
	}
}

// Where calls go, and where a redirect would lead that nobody follows, is told without what is secret in it.
func TestWhereItLeads(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"https://login.example.com/start?token=hush": "destination answered 302, a redirect to https://login.example.com/start", "/other?x=1": "destination answered 302, a redirect to http://127.0.0.1:",
		"": "destination answered 302", "https://user:hush@x.example/": "a redirect to https://x.example/",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.WriteHeader(http.StatusFound)
		}))
		s := must(t, Config{URL: server.URL + "/hooks/T0123456789ABCDEF?key=hush-hush", Common: spec.Common{AllowNetworks: loopback}})
		_, err := s.Do(t.Context(), sinktest.Action(1))
		server.Close()
		if sink.ClassOf(err) != sink.ClassRejected || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") || strings.HasSuffix(err.Error(), "to ") {
			t.Errorf("%q: %v", location, err)
		}
		if where := s.Where(); !strings.HasPrefix(where, server.URL+"/hooks/") || strings.Contains(where, "hush") || strings.Contains(where, "T0123456789ABCDEF") {
			t.Errorf("where: %s", where)
		}
	}
}
