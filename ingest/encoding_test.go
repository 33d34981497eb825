package ingest

import (
	"bytes"
	"compress/gzip"
	"net/http"
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

// What strangers have unpacked takes no memory from small bodies.
func TestUnpackedCountsAsLarge(t *testing.T) {
	t.Parallel()
	in := newIntake(t, nil)
	room, a := in.handler.room, arrival{own: ownMemory}
	if err := room.more(&a, ownMemory); err != nil {
		t.Fatal(err)
	}
	if _, large, _ := room.usage(); large != 0 {
		t.Errorf("a small one: %d", large)
	}
	if err := room.more(&a, 1<<20); err != nil {
		t.Fatal(err)
	}
	if used, large, _ := room.usage(); large != used || used != ownMemory+1<<20 {
		t.Errorf("%d used, %d of them large", used, large)
	}
	if err := room.more(&a, room.limits.Memory-room.limits.SmallMemory-ownMemory-1<<20+1); err == nil {
		t.Error("it has the part of small ones")
	}
	room.free(&a)
	if used, large, _ := room.usage(); used != 0 || large != 0 {
		t.Errorf("%d used, %d large are left", used, large)
	}
}
