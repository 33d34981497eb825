package ingest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// preset puts a source of the catalogue behind the server instead of the fake.
func (in *intake) preset(c provider.Config) {
	in.t.Helper()
	c.Team, c.Name, c.Secrets = "acme", "orders", []schemas.Secret{schemas.NewSecret(secret)}
	if c.Preset == "standard-webhooks" {
		c.KeyEncoding = "text"
	}
	source, err := provider.Compile(c)
	if err != nil {
		in.t.Fatal(err)
	}
	in.source.Source, in.source.mapping = source, nil
	in.handler.c.Now = time.Now
}

// signed posts body as the source's provider would.
func (in *intake) signed(body []byte, header ...string) answer {
	in.t.Helper()
	r := verify.Request{Method: "POST", Header: http.Header{}, Body: body}
	if err := in.source.Sign(&r, time.Now()); err != nil {
		in.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	var pairs []string
	for name, values := range r.Header {
		for _, v := range values {
			pairs = append(pairs, name, v)
		}
	}
	return in.do("POST", inPath, bytes.NewReader(body), pairs...)
}

var ordersMapping = provider.Config{Preset: "generic", MaxBody: 64 << 10, Verify: &verify.Params{SignatureHeader: "X-Signature"},
	Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/order"}, Version: &provider.VersionConfig{From: "/rev", Kind: "sequence"}}}

// Once the signature holds nothing is refused for its content: what cannot be named, keyed or versioned is kept byte
// for byte with its reason, and answered 202. More that is unusable is in ingest/provider.
func TestNothingAuthenticIsRefusedForItsContent(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 64<<10, 64<<10 })
	in.preset(ordersMapping)
	text := func(id, order, rev string) string {
		return fmt.Sprintf(`{"id":%s,"type":"t","order":%s,"rev":%s}`, id, order, rev)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, text(`"1"`, `"o"`, `1`))
	z.Close()
	var wide []byte
	for _, b := range []byte(text(`"1"`, `"o"`, `1`)) {
		wide = append(wide, b, 0)
	}
	for _, test := range []struct{ name, body, reason string }{
		{"empty", "", "not_json"},
		{"two texts", text(`"1"`, `"o"`, `1`) + "{}", "not_json"},
		{"gzip, cut off", zipped.String()[:zipped.Len()-9], "bad_encoding"},
		{"two byte order marks", "\ufeff\ufeff" + text(`"1"`, `"o"`, `1`), "not_json"},
		{"UTF-16", "\xff\xfe" + string(wide), "not_json"},
		{"a list", `[1]`, "missing_field"},
		{"null", `null`, "missing_field"},
		{"duplicate key, escaped", `{"id":"1","\u0069d":"2","type":"t","order":"o","rev":1}`, "duplicate_key"},
		{"line break in the id", text(`"a\r\nb"`, `"o"`, `1`), "control_character"},
		{"not UTF-8", text("\"\xff\"", `"o"`, `1`), "bad_string"},
		{"id of 5,000 characters", text(`"`+strings.Repeat("i", 5000)+`"`, `"o"`, `1`), "too_long"},
		{"huge exponent", text(`"1"`, `"o"`, `1e999999999`), "bad_version"},
		{"deep nesting on the way", `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "too_deep"},
		{"deep and never closed", strings.Repeat(`{"a":`, 10_000), "too_deep"},
	} {
		events, kept := len(in.log.events), len(in.log.deliveries)
		a := in.signed([]byte(test.body), "Content-Encoding", "gzip")
		if a.status != 202 || len(in.log.events) != events || len(in.log.deliveries) != kept+1 {
			t.Errorf("%s: answered %d %s, %d events", test.name, a.status, a.body, len(in.log.events)-events)
			continue
		}
		if d := in.log.deliveries[kept]; d.Reason != test.reason || string(d.Body) != test.body {
			t.Errorf("%s: kept for %s (%s), want %s; body unchanged: %t", test.name, d.Reason, d.Detail, test.reason, string(d.Body) == test.body)
		}
	}
	for name, body := range map[string]string{
		"duplicates not read":    `{"x":1,"x":2,"id":"1","type":"t","order":"o","rev":1}`,
		"an entity with slashes": text(`"1"`, `"a/b%2F../"`, `1`),
	} {
		events := len(in.log.events)
		if a := in.signed([]byte(body)); a.status != 202 || len(in.log.events) != events+1 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// An expression that fails is the mapping's affair: the delivery is kept with the reason and answered 202.
func TestFailedExpressionsAreQuarantined(t *testing.T) {
	t.Parallel()
	in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 1<<20, 1<<20 })
	in.preset(provider.Config{Preset: "generic", MaxBody: 1 << 20, Verify: &verify.Params{SignatureHeader: "X-Signature"},
		Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/order"},
			Version: &provider.VersionConfig{From: "cel:body.lines.map(l, l.rev * 10)[0]", Kind: "sequence"}}})
	body := func(lines string) string { return `{"id":"1","type":"t","order":"o","lines":` + lines + `}` }
	for lines, reason := range map[string]string{
		`[]`:                               "expression_failed",
		`[{"rev":1,"deep":{"a":1,"a":2}}]`: "duplicate_key",
		"[" + strings.Repeat(`{"rev":1},`, 20_000) + `{"rev":1}]`: "expression_cost",
	} {
		kept := len(in.log.deliveries)
		a := in.signed([]byte(body(lines)))
		if a.status != 202 || len(in.log.events) != 0 || len(in.log.deliveries) != kept+1 {
			t.Fatalf("%.40s: answered %d %s, %d events", lines, a.status, a.body, len(in.log.events))
		}
		if d := in.log.deliveries[kept]; d.Reason != reason || string(d.Body) != body(lines) {
			t.Errorf("%.40s: kept for %s (%s), want %s", lines, d.Reason, d.Detail, reason)
		}
		if in.count("quarantined", reason) == 0 {
			t.Errorf("%s is not counted", reason)
		}
	}
	if a := in.signed([]byte(body(`[{"rev":4}]`))); a.status != 202 || len(in.log.events) != 1 || in.log.events[0].Version.Value != 40 {
		t.Errorf("answered %d, %d events", a.status, len(in.log.events))
	}
}

// A header that names the event and is repeated, missing or unusable is the event's fault, not the sender's.
func TestHeadersThatNameAreContentToo(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	in.preset(provider.Config{Preset: "github"})
	const body = `{"action":"opened","repository":{"id":1},"issue":{"number":2,"updated_at":"2026-07-01T12:00:00Z"}}`
	for _, test := range []struct {
		name   string
		header []string
		reason string
	}{
		{"two types", []string{"X-GitHub-Event", "issues", "X-GitHub-Event", "push"}, "repeated_header"},
		{"type that is not UTF-8", []string{"X-GitHub-Event", "a\xffb"}, "type_mismatch"},
		{"a form without its payload", []string{"X-GitHub-Event", "issues", "Content-Type", "application/x-www-form-urlencoded"}, "bad_form"},
	} {
		kept := len(in.log.deliveries)
		a := in.signed([]byte(body), test.header...)
		if a.status != 202 || len(in.log.deliveries) != kept+1 || in.log.deliveries[kept].Reason != test.reason {
			t.Errorf("%s: %+v, kept %+v", test.name, a, in.log.deliveries[kept:])
		}
	}
}

// A person sees Slack's view of the answer to a command or an interaction: 200 without a body, also where it went to quarantine. Events
// are answered like all others.
func TestSlackForms(t *testing.T) {
	t.Parallel()
	in := setup(t, nil)
	in.preset(provider.Config{Preset: "slack"})
	const form = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		name, contentType, body string
		status                  int
		answer                  string
		events, deliveries      int
	}{
		{"command", form, "team_id=T1&channel_id=C1&command=%2Fdeploy&trigger_id=1", 200, "", 1, 0},
		{"modal", form, "payload=" + url.QueryEscape(`{"type":"view_submission","team":{"id":"T1"},"view":{"id":"V1"}}`), 200, "", 2, 0},
		{"unusable", form, "payload=" + url.QueryEscape(`{"team":{"id":"T1"}}`), 200, "", 2, 1},
		{"event", "application/json", `{"type":"event_callback","team_id":"T1","event_id":"E1","event":{"type":"app_mention","channel":"C1","ts":"1.2","event_ts":"1.2"}}`,
			202, `{"id":"E1"}`, 3, 1},
	} {
		a := in.signed([]byte(test.body), "Content-Type", test.contentType)
		if a.status != test.status || a.body != test.answer || len(in.log.events) != test.events || len(in.log.deliveries) != test.deliveries {
			t.Errorf("%s: %+v, %d events, %d in quarantine", test.name, a, len(in.log.events), len(in.log.deliveries))
		}
	}
}
