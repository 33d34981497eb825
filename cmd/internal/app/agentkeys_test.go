package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/forebay-io/forebay/cmd/internal/agents"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// say posts what another agent says, as a program does: with its key or token, and nothing of ours.
func (p *process) say(source, key, idempotency, body string) (status int, id, statusURL string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.app.Addr("intake").String()+"/v1/in/acme/"+source, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		ID        string `json:"id"`
		StatusURL string `json:"status_url"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, answer.ID, answer.StatusURL
}

// An agent posts with its key, an action runs once, and the status_url tells what became of it; its key ends in every intake within a second of its
// revocation, an intake without Postgres among them.
func TestAnotherAgentPosts(t *testing.T) {
	t.Parallel()
	place, target := newLedger(t), newAgent(t)
	r := deploy(t, target.URL, place, false)
	withAgents(t, r, "{deadline: 10m}")
	r.text = strings.NewReplacer("    sources:\n", "    sources:\n      agents: {preset: agent}\n      others: {preset: agent}\n",
		"    subscriptions:\n", "    subscriptions:\n      plan: {sources: [agents], begin: all, actions: [{name: run, to: agent}]}\n", "long: {deadline: 10m}, ", "").Replace(r.text)
	r.createTopics()
	p, intake := r.run(config.RoleIntake, config.RoleStream), r.run(config.RoleIntake)

	topics := agents.NewTopics(KafkaOptions(r.load(config.RoleTopics), config.RoleTopics))
	create := func(a agents.Agent) string {
		a.Team, a.CreatedAt = "acme", time.Now()
		key, err := topics.Create(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	planner := create(agents.Agent{Name: "planner", Sources: []string{"agents"}, Types: []string{"com.acme.plan.*"}})
	coder := create(agents.Agent{Name: "coder", Sources: []string{"agents", "others"}})
	const plan = `{"id":"in the body","type":"com.acme.plan.made","entity":"issue-7","version":1,"title":"A plan"}`
	known := func(p *process, key string, want int) bool {
		return rig.Until(time.Minute, func() bool {
			status, _, _ := p.say("agents", key, "first", plan)
			return status == want
		})
	}
	for _, p := range []*process{p, intake} {
		if !known(p, planner, http.StatusAccepted) || !known(p, coder, http.StatusAccepted) {
			t.Fatal("a key that was made does not open")
		}
	}

	status, id, ask := p.say("agents", planner, "first", plan)
	if status != http.StatusAccepted || id != "planner/first" || ask == "" {
		t.Fatalf("%d %q %q", status, id, ask)
	}
	if body := getUntil(t, ask, "", is("done")); !strings.Contains(body, `"status":"done"`) {
		t.Error(body)
	}
	d, err := p.api.Item(t.Context(), "acme", "plan", "agents", id)
	if err != nil || d.Sender == nil || d.Sender.ID != "planner" || d.Sender.Kind != "automation" || d.Title != "A plan" || d.Entity != "issue-7" {
		t.Errorf("%+v %v", d, err)
	}
	// The two that have the same key and entity are two events, and each acted once, of all that was sent until here.
	calls := map[string]int{}
	for _, c := range target.wait(t, 2) {
		calls[c.ID]++
	}
	if len(calls) != 2 || calls["planner/first"] != 1 || calls["coder/first"] != 1 {
		t.Errorf("%v", calls)
	}

	for what, c := range map[string]struct {
		source, key, idempotency, body string
		want                           int
		id                             string // empty: it is in quarantine, if it is answered 202
	}{
		"a type that the key is not for":   {"agents", planner, "x", strings.Replace(plan, "plan.made", "deploy", 1), http.StatusForbidden, ""},
		"a type that looks like a glob":    {"agents", planner, "x", strings.Replace(plan, "plan.made", "*", 1), http.StatusForbidden, ""},
		"a source that the key is not for": {"others", planner, "x", plan, http.StatusUnauthorized, ""},
		"its own source":                   {"others", coder, "x", plan, http.StatusAccepted, "coder/x"},
		"without an Idempotency-Key":       {"others", coder, "", plan, http.StatusAccepted, "coder/in%20the%20body"},
		"no key":                           {"agents", "", "x", plan, http.StatusUnauthorized, ""},
		"a stranger's key":                 {"agents", "fbk_" + strings.Repeat("A", 43), "x", plan, http.StatusUnauthorized, ""},
		"a key as a file has it":           {"agents", "planner:" + planner, "x", plan, http.StatusUnauthorized, ""},
		"an endless Idempotency-Key":       {"agents", coder, strings.Repeat("k", 600), plan, http.StatusAccepted, ""},
		"one with another's name":          {"agents", coder, "planner/first", plan, http.StatusAccepted, "coder/planner%2Ffirst"},
		"one that is not UTF-8":            {"agents", coder, "caf\xe9", plan, http.StatusAccepted, "coder/caf%E9"},
		"a body that is too deep":          {"agents", coder, "y", strings.Repeat(`{"type":`, 20_000), http.StatusAccepted, ""},
		"no JSON":                          {"agents", coder, "y", "x", http.StatusAccepted, ""},
	} {
		if got, id, _ := p.say(c.source, c.key, c.idempotency, c.body); got != c.want || id != c.id {
			t.Errorf("%s: %d %q, want %d %q", what, got, id, c.want, c.id)
		}
	}

	if _, err := topics.Revoke(t.Context(), "acme", "planner", "bob", "leaked", time.Now()); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	for _, p := range []*process{p, intake} {
		if !known(p, planner, http.StatusUnauthorized) {
			t.Error("a revoked key opens")
		}
	}
	if took := time.Since(revoked); took > time.Second {
		t.Errorf("a revoked key opened for %s", took)
	}
	if status, _, _ := intake.say("agents", coder, "first", plan); status != http.StatusAccepted {
		t.Errorf("the other agent: %d", status)
	}
	p.clean()
	intake.clean()
}

// An agent with a token of its own issuer, whose keys are fetched from where a team may reach.
func TestAgentWithAToken(t *testing.T) {
	t.Parallel()
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1", Use: "sig"}}})
	}))
	defer issuer.Close()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	source := `      %s: {preset: agent, verify: {scheme: jwt, jwks_url: %q, issuer: "https://issuer.example.com", audience: acme%s}}` + "\n"
	r.text = strings.Replace(r.text, "    sources:\n", "    sources:\n"+fmt.Sprintf(source, "issued", issuer.URL, `, allow_networks: ["127.0.0.1/32"]`), 1)
	r.createTopics()
	p := r.run(config.RoleIntake)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://issuer.example.com", "aud": "acme", "sub": "planner", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	var status int
	var id string
	if !rig.Until(time.Minute, func() bool {
		status, id, _ = p.say("issued", token, "first", `{"type":"t","entity":"e"}`)
		return status != http.StatusServiceUnavailable // until the keys have come
	}) || status != http.StatusAccepted || id != "planner/first" {
		t.Errorf("%d %q", status, id)
	}
	if status, _, _ := p.say("issued", token[:len(token)-4]+"AAAA", "first", `{"type":"t","entity":"e"}`); status != http.StatusUnauthorized {
		t.Errorf("another signature: %d", status)
	}
	p.clean()

	r.text = strings.Replace(r.text, `, allow_networks: ["127.0.0.1/32"]`, "", 1)
	if _, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(r.text), Roles: []config.Role{config.RoleIntake}}); err == nil || !strings.Contains(err.Error(), "jwks_url") {
		t.Errorf("a private address that is not allowed: %v", err)
	}
}
