package ingest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// keeps has a source keep what is refused.
func keeps(limits KeepLimits, throttled bool) func(*Config, *Source) {
	return func(_ *Config, s *Source) { s.Refused = RefusedOf(&limits, throttled, nil) }
}

// results holds how many refused deliveries ended in a way against what is wanted, once none is being written.
func (in *intake) results(result string, want float64) {
	in.t.Helper()
	in.handler.keeper.writing.Wait()
	if got := testutil.ToFloat64(in.handler.keeper.results.WithLabelValues("acme", "orders", result)); got != want {
		in.t.Fatalf("%v refused deliveries were %s, want %v", got, result, want)
	}
}

func TestRefusedIsKept(t *testing.T) {
	t.Parallel()
	in := setup(t, keeps(KeepLimits{1, 10, 1 << 20}, false))
	for n, header := range [][]string{{"X-Signature", sign([]byte("other"))}, {"X-Signature", "zz"}, {}} {
		a := in.do("POST", inPath+"?a=b", strings.NewReader("body"), append(header, "Authorization", "Bearer tok-1", "X-Other", "kept")...)
		if a.status != 401 || !strings.Contains(a.body, "Unauthorized") {
			t.Fatalf("%+v", a)
		}
		in.results("kept", float64(n+1))
		d := in.log.deliveries[n]
		want := []string{"mismatch", "malformed", "missing_header"}[n]
		if d.Kind != KindRefused || d.Reason != want || d.Method != "POST" || d.Secret != 0 || string(d.Body) != "body" || d.Received.Unix() != 1_700_000_000 || in.log.topics[n] != "quarantine.acme.orders" {
			t.Errorf("%+v", d)
		}
		kept := http.Header{}
		for _, h := range d.Headers {
			kept.Add(h.Name, h.Value)
		}
		if kept.Get("Authorization") != "" || kept.Get("X-Other") != "kept" || len(header) > 0 && kept.Get("X-Signature") != header[1] {
			t.Errorf("kept %v of %v", kept, header)
		}
		if in.count("refused", want) != 1 {
			t.Errorf("%s is counted %v times", want, in.count("refused", want))
		}
	}
	// What its source would not take, and what is of no source, is not kept.
	in.do("POST", inPath, strings.NewReader(strings.Repeat("x", 1025)))
	in.do("POST", "/v1/in/acme/other", strings.NewReader("x"))
	in.do("GET", inPath, nil)
	if a := in.post("accepted"); a.status != 202 {
		t.Fatalf("%+v", a)
	}
	in.results("kept", 3)
}

// The limits are of a day, and what is signed right has its own.
func TestRefusedIsKeptWithinLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	k := RefusedOf(&KeepLimits{1, 3, 100}, true, nil)
	took := func(authentic bool, size int) bool { return k.take(now, authentic, size) }
	if took(false, 101) || !took(false, 60) || took(false, 60) || !took(false, 40) || took(false, 1) {
		t.Error("bytes do not limit what is kept")
	}
	for n := range 4 {
		if took(true, 1) != (n < 3) {
			t.Error("most does not limit what is kept, or a forger has taken it")
		}
	}
	now = now.Add(keepLimitsPer - 1)
	if took(false, 1) || took(true, 1) {
		t.Error("the day is not over")
	}
	now = now.Add(1)
	if !took(false, 60) || !took(true, 60) {
		t.Error("a new day keeps nothing")
	}
	before := &Source{Refused: k}
	if RefusedOf(&KeepLimits{1, 3, 100}, true, before) != k || RefusedOf(&KeepLimits{1, 4, 100}, true, before) == k || RefusedOf(nil, true, before) != nil {
		t.Error("a reload fills the limits, or keeps those that were changed")
	}
	kept, share := 0, RefusedOf(&KeepLimits{0.25, 1 << 20, 1 << 20}, false, nil)
	for range 10_000 {
		if share.take(now, false, 1) {
			kept++
		}
	}
	if kept < 2000 || kept > 3000 { // the chance to miss that is below 1e-28
		t.Errorf("%d of 10000 were kept, by a share of a quarter", kept)
	}
}

// A forger's flood holds up nobody and fills no memory: what the log does not take in time is left out, and the answers come all the same.
func TestRefusedWaitsForNoLog(t *testing.T) {
	t.Parallel()
	in := setup(t, keeps(KeepLimits{1, 1000, 1 << 30}, false))
	stuck := make(chan error)
	in.log.answer = func(context.Context) error { return <-stuck }
	in.handler.keeper.held.Store(int64(keepMemory - 2*(maxKept+4)))
	for range 3 {
		if a := in.do("POST", inPath, strings.NewReader("body")); a.status != 401 {
			t.Fatalf("%+v", a)
		}
	}
	stuck <- errors.New("no broker")
	stuck <- nil
	in.results("left_out", 1)
	in.results("failed", 1)
	in.results("kept", 1)
	if !strings.Contains(in.lines.String(), "a refused delivery could not be kept") {
		t.Error("that it could not be kept is in no log")
	}
	if held := in.handler.keeper.held.Load(); held != keepMemory-2*(maxKept+4) {
		t.Errorf("%d bytes are held", held)
	}
}

// Over a quota a delivery is authentic. It is kept where the provider does not send it again, and answered 429 as ever.
func TestThrottledIsKept(t *testing.T) {
	t.Parallel()
	for _, throttled := range []bool{true, false} {
		in := setup(t, func(c *Config, s *Source) {
			keeps(KeepLimits{1, 10, 1 << 20}, throttled)(c, s)
			s.Limiter = rate.NewLimiter(0, 1)
		})
		in.post("first")
		if a := in.post("second"); a.status != 429 || a.header.Get("Retry-After") == "" {
			t.Fatalf("%+v", a)
		}
		if !throttled {
			in.do("POST", inPath, strings.NewReader("forged")) // kept behind it, if that was
			in.results("kept", 1)
			if d := in.log.deliveries[0]; string(d.Body) != "forged" {
				t.Errorf("%+v", d)
			}
			continue
		}
		in.results("kept", 1)
		if d := in.log.deliveries[0]; d.Kind != KindRefused || d.Reason != ReasonThrottled || d.Detail != "over the rate of the source" || d.Secret != 1 || string(d.Body) != "second" {
			t.Errorf("%+v", d)
		}
	}
}

// A secret that is sent along is not kept, so that nothing could be verified again: only what is over a quota is kept.
func TestRefusedTokenIsNotKept(t *testing.T) {
	t.Parallel()
	in := setup(t, keeps(KeepLimits{1, 10, 1 << 20}, true))
	in.preset(provider.Config{Preset: "generic", Verify: &verify.Params{Scheme: verify.SchemeToken, Header: "X-Token"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}}})
	in.source.Limiter = rate.NewLimiter(0, 0)
	if a := in.do("POST", inPath, strings.NewReader("{}"), "X-Token", "wrong"); a.status != 401 {
		t.Fatalf("%+v", a)
	}
	if a := in.do("POST", inPath, strings.NewReader("{}"), "X-Token", secret); a.status != 429 {
		t.Fatalf("%+v", a)
	}
	in.results("kept", 1)
	if d := in.log.deliveries[0]; d.Reason != ReasonThrottled || len(in.log.deliveries) != 1 {
		t.Errorf("%+v", in.log.deliveries)
	} else {
		for _, h := range d.Headers {
			if strings.Contains(h.Value, secret) {
				t.Errorf("the secret is kept: %v", h)
			}
		}
	}
}

// What an address's limits end once its body is there is throttled, too, but nobody has looked at its signature: kept as authentic it would be a
// forger's event.
func TestEndedBodyIsNotAuthentic(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, s *Source) {
		keeps(KeepLimits{1, 10, 1 << 20}, true)(c, s)
		c.MaxBody, s.MaxBody, c.Limits = 2*mib, 2*mib, Limits{AddressBytes: 4 * mib, YieldAfter: time.Hour}
	})
	signs := *ordersMapping.Verify
	signs.Unpacked = true
	in.preset(provider.Config{Preset: "generic", Verify: &signs, Event: ordersMapping.Event, MaxBody: 2 * mib})
	in.stand(2*mib, 2*mib-1)
	in.holds(1, 2*mib+1+ownMemory)
	if a := in.do("POST", inPath, bytes.NewReader(zip(strings.Repeat("x", 2*mib-1)))); a.status != 429 {
		t.Fatalf("%+v", a)
	}
	if in.count("throttled", "address_bytes") != 1 {
		t.Errorf("it ended otherwise: %s", in.lines)
	}
	in.results("kept", 0)
}
