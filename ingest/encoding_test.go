package ingest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

func zip(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

// A compressed body is read, and its event has what was signed: the compressed body with its encoding named, or what it was before.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	const plain = `{"id":"1","type":"t","order":"o","rev":1,"note":"n"}`
	// A report: gzip makes it smaller than an eighth.
	report := `{"id":"1","type":"t","order":"o","rev":1,"rows":[` + strings.Repeat(`{"city":"Rome","sold":0,"returned":0,"currency":"EUR","region":"south","note":""},`, 200) + `{}]}`
	for _, test := range []struct {
		order    string
		unpacked bool
	}{{plain, false}, {plain, true}, {report, false}, {report, true}} {
		order, unpacked := test.order, test.unpacked
		in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 64<<10, 64<<10 })
		cfg := ordersMapping
		signs := *cfg.Verify
		signs.Unpacked = unpacked
		cfg.Verify = &signs
		in.preset(cfg)
		signed, want, encoding := zip(order), string(zip(order)), "gzip"
		if unpacked {
			signed, want, encoding = []byte(order), order, ""
		}
		r := verify.Request{Header: map[string][]string{}, Body: signed}
		if err := in.source.Sign(&r, in.handler.c.Now()); err != nil {
			t.Fatal(err)
		}
		a := in.do("POST", inPath, bytes.NewReader(zip(order)), "X-Signature", r.Header.Get("X-Signature"), "Content-Encoding", "gzip", "Content-Type", "application/json")
		if a.status != 202 || len(in.log.events) != 1 {
			t.Fatalf("unpacked %t: %d %s", unpacked, a.status, a.body)
		}
		e := in.log.events[0]
		if e.ID != "1" || string(e.Data) != want || e.Extensions[schemas.EncodingAttribute] != encoding {
			t.Errorf("unpacked %t: %+v", unpacked, e)
		}
		if text, err := e.Text(1 << 20); err != nil || string(text) != order {
			t.Errorf("unpacked %t: %q, %v", unpacked, text, err)
		}
		if n, _, _ := in.handler.room.usage(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	}
}

// A CloudEvent says by its bytes whether it is compressed, beside the sender's own extensions: a header of the sender's name for that says nothing.
func TestCompressedCloudEvents(t *testing.T) {
	t.Parallel()
	const order = `{"rev":1}`
	for _, body := range []string{order, string(zip(order))} {
		in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 64<<10, 64<<10 })
		in.preset(provider.Config{Preset: "cloudevents", MaxBody: 64 << 10})
		a := in.signed([]byte(body), "Content-Type", "application/json", "ce-specversion", "1.0", "ce-source", "/s", "ce-type", "t", "ce-tenant", "x",
			"ce-contentencoding", "gzip")
		if a.status != 202 || len(in.log.events) != 1 {
			t.Fatalf("%q: %d %s", body, a.status, a.body)
		}
		e := in.log.events[0]
		if text, err := e.Text(1 << 20); err != nil || string(text) != order || string(e.Data) != body {
			t.Errorf("%q became %q, %v", body, text, err)
		}
		if e.Extensions["tenant"] != "x" {
			t.Errorf("%q: extensions %v", body, e.Extensions)
		}
	}
}

// The list or the envelope of a delivery is read without its compression, which the data of its events does not have.
func TestCompressedEnvelopes(t *testing.T) {
	t.Parallel()
	event := func(id string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"t","data":{"rev":1}}`
	}
	for mode, body := range map[string]string{"application/cloudevents+json": event("1"), "application/cloudevents-batch+json": "[" + event("1") + ",\n" + event("2") + ",7]"} {
		in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 64<<10, 64<<10 })
		in.preset(provider.Config{Preset: "cloudevents", MaxBody: 64 << 10})
		in.signed([]byte(body), "Content-Type", mode)
		want, unusable := in.log.events, in.log.deliveries
		in.log.events, in.log.deliveries = nil, nil
		if a := in.signed(zip(body), "Content-Type", mode, "Content-Encoding", "gzip"); a.status != 202 || len(want) == 0 || len(in.log.events) != len(want) {
			t.Fatalf("%s: %d, %d of %d events, %d in quarantine", mode, a.status, len(in.log.events), len(want), len(in.log.deliveries))
		}
		for i, e := range in.log.events {
			if e.ID != want[i].ID || string(e.Data) != string(want[i].Data) || e.Extensions[schemas.EncodingAttribute] != "" {
				t.Errorf("%s: %+v, want %+v", mode, e, want[i])
			}
		}
		if len(in.log.deliveries) != len(unusable) || len(unusable) > 0 && string(in.log.deliveries[0].Body) != string(unusable[0].Body) {
			t.Errorf("%s: in quarantine %+v, want %+v", mode, in.log.deliveries, unusable)
		}
		// More than the source takes is kept whole, as it came.
		bomb := zip(strings.Replace(body, `{"rev":1}`, `"`+strings.Repeat("a", 64<<10)+`"`, 1))
		in.log.deliveries = nil
		in.signed(bomb, "Content-Type", mode)
		if kept := in.log.deliveries; len(kept) != 1 || kept[0].Reason != provider.BadEncoding || kept[0].Element != 0 || !bytes.Equal(kept[0].Body, bomb) {
			t.Errorf("%s: a bomb: %+v", mode, kept)
		}
	}
}

// A bomb is not unpacked beyond what the source takes: it is refused where nobody has signed it, with a reason of its own, and kept as it came where
// somebody has.
func TestBombs(t *testing.T) {
	t.Parallel()
	text := `{"id":"` + strings.Repeat("a", 32<<20) + `"}`
	bomb := zip(text)
	for _, unpacked := range []bool{false, true} {
		in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 64<<10, 64<<10 })
		cfg := ordersMapping
		signs := *cfg.Verify
		signs.Unpacked = unpacked
		cfg.Verify = &signs
		in.preset(cfg)
		a := in.signed(bomb)
		if kept := in.log.deliveries; len(kept) != 1 || kept[0].Reason != provider.BadEncoding || !bytes.Equal(kept[0].Body, bomb) || a.status != 202 {
			t.Errorf("unpacked %t: %d, %d kept", unpacked, a.status, len(kept))
		}
		if !unpacked {
			continue
		}
		in.source.Keys = KeysOf([]schemas.Secret{schemas.NewSecret(secret)}, nil)
		r := verify.Request{Header: http.Header{}, Body: []byte(text)}
		if err := in.source.Sign(&r, time.Now()); err != nil {
			t.Fatal(err)
		}
		a = in.do("POST", inPath, bytes.NewReader(bomb), "X-Signature", r.Header.Get("X-Signature"))
		if n := in.count("refused", "malformed"); a.status != 401 || n != 1 || in.source.Keys.Counts().Mismatches != 0 {
			t.Errorf("signed before it was compressed: %d, %v malformed, %+v", a.status, n, in.source.Keys.Counts())
		}
		if n, _, _ := in.handler.room.usage(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	}
}

// What may be unpacked is what the source takes, to the byte.
func TestUnpackedToTheLimit(t *testing.T) {
	t.Parallel()
	in := newIntake(t, nil)
	in.source.mapping, in.source.MaxBody = fakeMapping{proof: verify.Proof{Unpacked: true}}, 100_000
	for size, taken := range map[int]bool{0: true, smallBuffer: true, 100_000: true, 100_001: false} {
		text := strings.Repeat("a", size)
		d := &delivery{source: in.source, request: verify.Request{Body: zip(text)}}
		if err := in.handler.room.enter(&d.arrival, nil, nil, d.from, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := in.handler.unpack(d); err != nil || (d.packed == nil) != taken || taken && string(d.request.Body) != text || !taken && !schemas.Zipped(d.request.Body) {
			t.Errorf("%d bytes: %v, %v, a body of %d", size, err, d.packed, len(d.request.Body))
		}
		in.handler.room.leave(&d.arrival)
	}
}

// A body is unpacked once, into no more memory than the room knows of: the buffers up to the largest are twice that, and no step begins anew.
func TestBombsTakeWhatTheyHold(t *testing.T) { // not parallel: it measures what all allocate
	in := newIntake(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = mib, mib })
	in.source.mapping = fakeMapping{proof: verify.Proof{Unpacked: true}}
	r := httptest.NewRequest("POST", inPath, bytes.NewReader(zip(strings.Repeat("a", 32*mib))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in.handler.ServeHTTP(httptest.NewRecorder(), r)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 3*mib || in.count("refused", "missing_header") != 1 {
		t.Errorf("%d bytes were allocated: %s", took, in.lines)
	}
}

// What strangers have unpacked counts for their address, and as large; nobody gives way to it, and it takes nothing from small bodies.
func TestUnpackedHasItsShare(t *testing.T) {
	t.Parallel()
	r := newRoom(Limits{Memory: 8 * mib, AddressBytes: 3 * mib, YieldAfter: time.Nanosecond}.WithDefaults(mib))
	arrives := func(from byte, packed, unpacked int64) (*arrival, error) {
		a := &arrival{}
		err := r.enter(a, deadlines{set: make(chan deadline, 9)}, nil, netip.AddrFrom4([4]byte{10, 0, 0, from}), time.Now())
		if err == nil && packed > 0 {
			err = r.grow(a, packed)
		}
		if r.unpacks(a); err == nil {
			err = r.grow(a, unpacked)
		}
		return a, err
	}
	holds := func(want int64, what string) {
		t.Helper()
		if used, large, _ := r.usage(); used != want || large != want {
			t.Errorf("%s: %d bytes are held, %d of them large, want %d", what, used, large, want)
		}
	}
	first, err := arrives(1, 30<<10, 2*mib)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(ownMemory + 30<<10 + 2*mib)
	holds(sum, "the first")
	if _, err := arrives(1, 30<<10, mib); !errors.Is(err, errBytes) {
		t.Errorf("more than an address may have: %v", err)
	}
	holds(sum, "after it")
	if _, err := arrives(2, 0, 4*mib); !errors.Is(err, errFull) {
		t.Errorf("into the part of small bodies: %v", err)
	}
	holds(sum, "after it")
	if err := r.moved(first, 2*mib); err != nil {
		t.Error(err)
	}
	holds(sum, "once it is in its buffer")
	r.leave(first)
	holds(0, "in the end")
	// Else a source that takes as much as an address may have would never have it.
	if _, err := arrives(1, 30<<10, 4*mib); err != nil {
		t.Errorf("the only one of its address: %v", err)
	}
}
