package provider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

func TestCompileSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const secret = "the secret of this test"
	first := int64(1)
	negative := int64(-1)
	tests := []struct {
		name   string
		change func(*provider.Config)
		want   string
	}{
		{"preset", func(c *provider.Config) { c.Preset = "gitbuh" }, `preset "gitbuh" does not exist; use one of `},
		{"team", func(c *provider.Config) { c.Team = "Acme" }, `team name "Acme"`},
		{"limits", func(c *provider.Config) { c.MaxBody = -1 }, "max_body"},
		{"empty secret", func(c *provider.Config) { c.Secrets = append(c.Secrets, schemas.Secret{}) }, "secrets bad_key: secret 2 is empty"},
		{"key encoding", func(c *provider.Config) { c.KeyEncoding = "hex" }, "secret 1 is not hex"},
		{"two key encodings", func(c *provider.Config) { c.KeyEncoding, c.Verify.KeyEncoding = "hex", "base64" }, "contradicts verify.key_encoding"},
		{"standard secret", func(c *provider.Config) { c.Preset = "standard-webhooks"; c.Verify = nil }, "secret 1 is not base64 after whsec_"},
		{"no verify", func(c *provider.Config) { c.Verify = nil }, "verify is missing"},
		{"verify", func(c *provider.Config) { c.Verify.SignatureHeader = "" }, "verify: signature_header is missing"},
		{"verify of a preset", func(c *provider.Config) { c.Preset = "stripe" }, "verify: signature_header has no meaning for scheme stripe"},
		{"no event", func(c *provider.Config) { c.Event = nil }, "event is missing"},
		{"no id", func(c *provider.Config) { c.Event.ID = "" }, "event.id is missing"},
		{"no type", func(c *provider.Config) { c.Event.Type = "" }, "event.type is missing"},
		{"no entity", func(c *provider.Config) { c.Event.Entity = nil }, "event.entity is missing"},
		{"wrong from", func(c *provider.Config) { c.Event.ID = "id" }, `event.id "id" is not a JSON Pointer`},
		{"hash as type", func(c *provider.Config) { c.Event.Type = "sha256:body" }, "is for event.id"},
		{"no kind", func(c *provider.Config) { c.Event.Version.Kind = "" }, "event.version.kind is missing"},
		{"wrong kind", func(c *provider.Config) { c.Event.Version.Kind = "counter" }, `event.version.kind "counter"`},
		{"no from", func(c *provider.Config) { c.Event.Version.From = "" }, "event.version.from is missing"},
		{"none with from", func(c *provider.Config) { c.Event.Version.Kind = "none" }, "have no meaning with kind: none"},
		{"resolution of a counter", func(c *provider.Config) { c.Event.Version.Resolution = time.Second }, "is for kind: timestamp"},
		{"resolution", func(c *provider.Config) {
			c.Event.Version.Kind, c.Event.Version.Resolution = "timestamp", time.Minute
		}, "1s, 1ms, 1us, 1ns"},
		{"rank of none", func(c *provider.Config) {
			c.Event.Version = &provider.VersionConfig{Kind: "none", Rank: &provider.RankConfig{From: "/status", Order: []string{"a"}}}
		}, "event.version.rank has no meaning"},
		{"rank from", func(c *provider.Config) { c.Event.Version.Rank = &provider.RankConfig{Order: []string{"a"}} }, "event.version.rank.from is missing"},
		{"rank of the body", func(c *provider.Config) {
			c.Event.Version.Rank = &provider.RankConfig{From: "sha256:body", Order: []string{"a"}}
		}, "event.version.rank.from is a hash"},
		{"rank order", func(c *provider.Config) { c.Event.Version.Rank = &provider.RankConfig{From: "/status"} }, "event.version.rank.order is missing"},
		{"empty rank", func(c *provider.Config) {
			c.Event.Version.Rank = &provider.RankConfig{From: "/status", Order: []string{"a", ""}}
		}, "value 2 is empty"},
		{"rank twice", func(c *provider.Config) {
			c.Event.Version.Rank = &provider.RankConfig{From: "/status", Order: []string{"a", "b", "a"}}
		}, `"a" is listed twice`},
		{"clock", func(c *provider.Config) { c.Event.Version.Clock = "a b" }, "event.version.clock"},
		{"payload", func(c *provider.Config) { c.Event.Payload = "state" }, `event.payload "state"`},
		{"first without sequence", func(c *provider.Config) { c.Event.First, c.Event.Version.Kind = &first, "monotonic" }, "event.first needs"},
		{"negative first", func(c *provider.Config) { c.Event.First = &negative }, "event.first"},
		{"many entities", func(c *provider.Config) { c.Event.Entity = slices.Repeat([]string{"/a"}, 17) }, "event.entity has 17 values: 16 are the most"},
		{"volatile", func(c *provider.Config) { c.Event.Volatile = []string{"header:a"} }, "event.volatile"},
		{"header", func(c *provider.Config) { c.Event.KeepHeaders = []string{"a b"} }, "event.keep_headers"},
		{"as of a sequence", func(c *provider.Config) { c.Event.Version.As = "text" }, "event.version.as is for kind: monotonic"},
		{"wrong as", func(c *provider.Config) { c.Event.Version.Kind, c.Event.Version.As = "monotonic", "ulid" }, `event.version.as "ulid" is not one of`},
		{"secret header", func(c *provider.Config) { c.Event.KeepHeaders = []string{"authorization"} }, "carries a secret"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := orders()
			cfg.Team, cfg.Name, cfg.Secrets = "acme", "orders", []schemas.Secret{schemas.NewSecret(secret)}
			tt.change(&cfg)
			s, err := provider.Compile(cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v %v, want %q", s, err, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error says the secret: %v", err)
			}
		})
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "standard-webhooks", MaxBody: 10, Deadline: time.Second,
		Event: &provider.EventConfig{Entity: []string{"/data/id"}, Payload: "snapshot", KeepHeaders: []string{"X-Extra"},
			Version: &provider.VersionConfig{From: "/at", Kind: "timestamp", Clock: "data", Resolution: time.Millisecond},
			Deleted: &provider.DeletedConfig{From: "/type", Is: []string{"gone"}}}})
	if s.MaxBody != 10 || s.Deadline != time.Second {
		t.Errorf("limits %d %s", s.MaxBody, s.Deadline)
	}
	e, err := s.Event(request(`{"type":"gone","at":1557933618123,"data":{"id":"x"}}`, "webhook-id: m", "X-Extra: 1"), received)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := brief(e), "m | gone | x | data timestamp 2019-05-15T15:20:18.123000000Z | snapshot deleted"; got != want {
		t.Errorf("%s", got)
	}
	if diff := cmp.Diff([]schemas.Header{{Name: "webhook-id", Value: "m"}, {Name: "x-extra", Value: "1"}}, e.Headers); diff != "" {
		t.Error(diff)
	}

	// A preset's value that is replaced is not read: GitHub's issue number may be missing.
	s = compile(t, provider.Config{Preset: "github", Event: &provider.EventConfig{Entity: []string{}, Version: &provider.VersionConfig{Kind: "none"}}})
	e, err = s.Event(request(`{"action":"x","issue":{}}`, "X-GitHub-Event: issues", "X-GitHub-Delivery: d"), received)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := brief(e), "d | com.github.issues.x | in | none | delta"; got != want {
		t.Errorf("%s", got)
	}
}

func TestVerifyOverrides(t *testing.T) {
	t.Parallel()
	signedAt := received.Add(-time.Hour)
	for _, preset := range []string{"slack", "stripe", "standard-webhooks"} {
		strict := compile(t, provider.Config{Preset: preset})
		lenient := compile(t, provider.Config{Preset: preset, Verify: &verify.Params{Tolerance: 2 * time.Hour}})
		r := request(`{}`)
		if err := strict.Sign(r, signedAt); err != nil {
			t.Fatal(err)
		}
		if strict.Verifier.Verify(r, received) == nil {
			t.Errorf("%s: the default tolerance took an hour", preset)
		}
		if err := lenient.Verifier.Verify(r, received); err != nil {
			t.Errorf("%s: %v", preset, err)
		}
	}
	cfg := orders()
	cfg.Verify = &verify.Params{Scheme: "token", Header: "X-Token"}
	r := request(`{}`, "X-Token: "+whsec)
	if err := compile(t, cfg).Verifier.Verify(r, received); err != nil {
		t.Errorf("another scheme: %v", err)
	}
}

// TestUnsignedFamily: where only one family of headers is signed, an id of the other must not count. With it, whoever
// has seen a delivery could send it again under a new id.
func TestUnsignedFamily(t *testing.T) {
	t.Parallel()
	s := compile(t, provider.Config{Preset: "standard-webhooks", Verify: &verify.Params{HeaderPrefix: "svix-"}})
	r := request(`{"type":"t"}`, "svix-id: signed", "webhook-id: forged")
	if err := s.Sign(r, received); err != nil {
		t.Fatal(err)
	}
	if err := s.Verifier.Verify(r, received); err != nil {
		t.Fatal(err)
	}
	e, err := s.Event(r, received)
	if err != nil || e.ID != "signed" {
		t.Errorf("id %v %v", e, err)
	}
}

// Where either family is taken, a delivery that was seen must not come again under the names of one family with another id in the other's.
func TestEitherFamily(t *testing.T) {
	t.Parallel()
	mapped := &provider.EventConfig{ID: "header:svix-id", Type: "/type", Entity: []string{}}
	for _, cfg := range []provider.Config{{Preset: "svix"}, {Preset: "standard-webhooks"}, {Preset: "standard-webhooks", Event: mapped},
		{Preset: "generic", Event: mapped, Verify: &verify.Params{Scheme: verify.SchemeStandardWebhooks}, Secrets: []schemas.Secret{schemas.NewSecret(whsec)}}} {
		s := compile(t, cfg)
		r := request(`{"type":"t"}`, "webhook-id: signed")
		if err := s.Sign(r, received); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name, value string
			want        verify.Reason
		}{
			{"Svix-Id", "signed", ""},
			{"Svix-Timestamp", r.Header.Get("Webhook-Timestamp"), ""},
			{"Svix-Id", "forged", verify.Malformed},
			{"Svix-Timestamp", "1", verify.Malformed},
		} {
			both := *r
			both.Header = r.Header.Clone()
			both.Header.Set("Svix-Id", "signed")
			both.Header.Set(test.name, test.value)
			err := s.Verifier.Verify(&both, received)
			if bad, _ := errors.AsType[*verify.Error](err); test.want == "" && err != nil || test.want != "" && (bad == nil || bad.Reason != test.want) {
				t.Errorf("%s with %s: %s: %v, want %q", cfg.Preset, test.name, test.value, err, test.want)
			}
			if e, err := s.Event(&both, received); test.want == "" && (err != nil || e.ID != "signed") {
				t.Errorf("%s: %v, %v", cfg.Preset, e, err)
			}
		}
	}
}
