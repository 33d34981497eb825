package provider_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// TestVolatile: a retry that differs only in volatile values hashes the same, and nothing else does.
func TestVolatile(t *testing.T) {
	t.Parallel()
	stripe := compile(t, provider.Config{Preset: "stripe"})
	cfg := orders()
	cfg.Event.Volatile = []string{"/attempt", "/meta", "/meta/sent", "/list/0"}
	generic := compile(t, cfg)
	tests := []struct {
		name string
		src  *provider.Source
		a, b string
		same bool
	}{
		{"Stripe's retry", stripe, `{"id":"e","type":"t","created":1,"pending_webhooks":2,"data":{"object":{"object":"o"}}}`,
			`{"id":"e","type":"t","created":1,"pending_webhooks":10,"data":{"object":{"object":"o"}}}`, true},
		{"Stripe's other event", stripe, `{"id":"e","type":"t","created":1,"pending_webhooks":2,"data":{"object":{"object":"o"}}}`,
			`{"id":"e","type":"t","created":2,"pending_webhooks":2,"data":{"object":{"object":"o"}}}`, false},
		{"name found elsewhere", stripe, `{"id":"e","type":"t","created":1,"data":{"pending_webhooks":2,"object":{"object":"o"}}}`,
			`{"id":"e","type":"t","created":1,"data":{"pending_webhooks":3,"object":{"object":"o"}}}`, false},
		{"several, one inside the other", generic, `{"list":["a",2],"meta":{"sent":1,"x":[1]},"type":"t","order":{"id":1,"rev":1},"attempt":1}`,
			`{"list":[{},2],"meta":null,"type":"t","order":{"id":1,"rev":1},"attempt":"second"}`, true},
		{"beside a volatile one", generic, `{"list":["a",2],"type":"t","order":{"id":1,"rev":1},"attempt":1}`,
			`{"list":["a",3],"type":"t","order":{"id":1,"rev":1},"attempt":1}`, false},
	}
	for _, tt := range tests {
		hash := func(body string) schemas.BodyHash {
			e, err := tt.src.Event(request(body, "X-Event-Id: 1"), received)
			if err != nil {
				t.Fatal(tt.name, err)
			}
			return e.Hash
		}
		if got := hash(tt.a) == hash(tt.b); got != tt.same {
			t.Errorf("%s: same is %t", tt.name, got)
		}
	}
	body := `{"type":"t","order":{"id":1,"rev":1}}`
	e, err := generic.Event(request(body, "X-Event-Id: 1"), received)
	if err != nil || e.Hash != schemas.HashBody([]byte(body)) {
		t.Errorf("nothing volatile there: %v %v", e, err)
	}
}

func TestBodyAsID(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event.ID, cfg.Event.Volatile = "sha256:body", []string{"/attempt"}
	s := compile(t, cfg)
	id := func(body string) string {
		e, err := s.Event(request(body), received)
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	body := `{"type":"t","order":{"id":1,"rev":1}}`
	sum := sha256.Sum256([]byte(body))
	if got := id(body); got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("id %s", got)
	}
	if id(`{"type":"t","order":{"id":1,"rev":1},"attempt":1}`) != id(`{"type":"t","order":{"id":1,"rev":1},"attempt":2}`) {
		t.Error("a retry has another id")
	}
}

// TestNothingOfTheBody: a source that reads only headers takes any bytes, also none.
func TestNothingOfTheBody(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event = &provider.EventConfig{ID: "sha256:body", Type: "header:X-Type", Entity: []string{"header:X-Entity"}}
	s := compile(t, cfg)
	for _, body := range []string{"", "\x00\xff", "{"} {
		e, err := s.Event(request(body, "X-Type: t", "X-Entity: e"), received)
		if err != nil || string(e.Entity) != "e" || e.Data == nil || e.Payload != schemas.Delta {
			t.Errorf("%q: %+v %v", body, e, err)
		}
	}
	r := request("")
	r.Body = nil
	r.Header["X-Type"], r.Header["X-Entity"], r.Header["Content-Type"] = []string{"t"}, []string{"e"}, []string{"a\x00b"}
	e, err := s.Event(r, received)
	if err != nil || e.Data == nil || e.DataContentType != "" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestFormFields(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event = &provider.EventConfig{ID: "form:Sid", Type: "form:Status", Entity: []string{"form:Account", "form:Sid"},
		Version: &provider.VersionConfig{From: "form:Seq", Kind: "monotonic"}, Payload: "snapshot"}
	s := compile(t, cfg)
	const form = "Content-Type: application/x-www-form-urlencoded"
	e, err := s.Event(request("Sid=S%2F1&Status=sent&Account=A&Seq=0", form), received)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := brief(e), "S/1 | sent | A/S%2F1 | monotonic 00000000000000000000 | snapshot"; got != want {
		t.Errorf("%s", got)
	}
	if _, err := s.Event(request("Sid=1&Status=sent&Account=A&Seq=0"), received); err == nil {
		t.Error("fields of a body that is no form")
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	slack := compile(t, provider.Config{Preset: "slack"})
	a, ok := slack.Challenge(request(`{"type":"url_verification","challenge":"<a>\"b","token":"x"}`))
	if !ok || a.Status != 200 || a.ContentType != "application/json" || string(a.Body) != `{"challenge":"\u003ca\u003e\"b"}` {
		t.Errorf("%+v %t", a, ok)
	}
	for _, body := range []string{`{"type":"event_callback","event":{"text":"url_verification"}}`, `{"type":"url_verification"}`,
		`{"type":"url_verification","challenge":1}`, `url_verification`, `{"type":"url_verification","type":"x","challenge":"y"}`} {
		if _, ok := slack.Challenge(request(body)); ok {
			t.Errorf("answered %s", body)
		}
	}
	if _, ok := compile(t, provider.Config{Preset: "github"}).Challenge(request(`{"type":"url_verification","challenge":"x"}`)); ok {
		t.Error("GitHub has no handshake")
	}
}
