package app

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	httpsink "github.com/forebay-io/forebay/sinks/http"
	"github.com/forebay-io/forebay/stream/sink"
)

// A topic takes bodies of 1 MiB although the source beside it takes 25: what waits for a slow broker must be cut into
// batches that the topic takes, or all of it is refused at once.
func TestBacklogFitsTheTopic(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)

	const deliveries = 40
	var mu sync.Mutex
	largest, held := 0, make(chan struct{})
	r.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		r.cluster.SleepControl(func() { <-held })
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, partition := range topic.Partitions {
				largest = max(largest, len(partition.Records))
			}
		}
		return nil, nil, false
	})
	noise := make([]byte, 60<<10)
	rand.Read(noise)
	var wg sync.WaitGroup
	for i := range deliveries {
		wg.Go(func() {
			d := &verify.Request{Method: "POST", Body: fmt.Appendf(nil, `{"type":"order","order":"o","rev":%d,"noise":"%x"}`, i+1, noise),
				Header: http.Header{"X-Event-Id": {fmt.Sprint(i)}}}
			if got := p.send("orders", "orders-secret", d); got != http.StatusAccepted {
				t.Errorf("delivery %d was answered %d", i, got)
			}
		})
	}
	p.metric("forebay_ingest_deliveries_in_flight", deliveries)
	close(held)
	wg.Wait()
	if limit := 1<<20 + producer.Room; largest > limit {
		t.Errorf("a batch of %d bytes went to a topic for %d", largest, limit)
	}
	p.clean()
}

// hold makes the broker silent on what is produced until the channel is closed.
func (r *deployment) hold() chan struct{} {
	held := make(chan struct{})
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		r.cluster.SleepControl(func() { <-held })
		return nil, nil, false
	})
	return held
}

// A source's provider that waits for two seconds only has its answer before that, however slow the brokers are.
func TestSourceDeadline(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        deadline: 2s", 1)
	p := r.run(config.RoleIntake)
	held := r.hold()
	begin := time.Now()
	if got := p.send("orders", "orders-secret", order("x", 1)); got != http.StatusServiceUnavailable || time.Since(begin) > 8*time.Second { // the default ends after 9 s
		t.Errorf("%d after %v", got, time.Since(begin))
	}
	close(held)
	p.clean()
}

// A reload lowers the limit of a source, and raises it to what its topic was made for; TestReloadKeepsBodyLimitsOfTheStream asks for more.
func TestReloadChangesBodyLimits(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)
	before := r.text
	r.text = strings.Replace(before, "preset: generic", "preset: generic\n        max_body: 1KiB", 1)
	if err := p.app.Reload(r.load(config.RoleIntake)); err != nil {
		t.Error(err)
	}
	large := order("x", 1)
	large.Body = append(large.Body, bytes.Repeat([]byte(" "), 1<<10)...)
	if got := p.send("orders", "orders-secret", large); got != http.StatusRequestEntityTooLarge {
		t.Errorf("over the new limit: %d", got)
	}
	r.text = before // back to what the topic has
	if err := p.app.Reload(r.load(config.RoleIntake)); err != nil {
		t.Error(err)
	}
	p.accepted("orders", "orders-secret", large)
	p.clean()
}

// A reload keeps what was fetched for sources: the keys of issuers and the certificates of SNS.
func TestReloadKeepsWhatWasFetched(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	r.createTopics()
	p := r.run(config.RoleIntake)
	before := p.app.intake.around("acme", "orders")
	r.text = strings.Replace(r.text, "secrets: [orders-secret]", "secrets: [orders-secret, other]", 1)
	r.reload(p, config.RoleIntake)
	after := p.app.intake.around("acme", "orders")
	if after.KeySets == nil || after.KeySets != before.KeySets || after.Certificates == nil || after.Certificates != before.Certificates {
		t.Errorf("%+v became %+v", before, after)
	}
}

// A reload keeps with which bodies the tokens of a source have come: whoever has seen one could else send another body with it, whatever the reload
// was for.
func TestReloadKeepsUsedTokens(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: private.Public(), KeyID: "k", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "      orders:", fmt.Sprintf(`      mailgun: {preset: mailgun, secrets: [s3cret]}
      planner: {preset: a2a, secrets: ['%s'], verify: {issuer: "https://planner.example.com", audience: acme}}
      orders:`, public), 1)
	compiled := func(before map[nameInTeam]*ingest.Source) map[nameInTeam]*ingest.Source {
		t.Helper()
		sources, problems := compileSources(r.load(config.RoleIntake), before, nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return sources
	}
	before := compiled(nil)

	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://planner.example.com", "aud": "acme", "jti": "1", "taskId": "t", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	planner := &verify.Request{Method: "POST", Header: http.Header{"Authorization": {"Bearer " + token}}, Body: []byte(`{"statusUpdate":{"taskId":"t","n":1}}`)}
	mailgun := &verify.Request{Method: "POST", Header: http.Header{}, Body: []byte(`{"n":1}`)}
	if err := before[nameInTeam{"acme", "mailgun"}].Sign(mailgun, now); err != nil {
		t.Fatal(err)
	}
	posts := map[string]*verify.Request{"planner": planner, "mailgun": mailgun}
	for source, r := range posts {
		if err := before[nameInTeam{"acme", source}].Verifier.Verify(r, now); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	r.text = strings.Replace(r.text, "orders-secret", "another-secret", 1)
	after := compiled(before)
	for source, r := range posts {
		s := after[nameInTeam{"acme", source}].Verifier
		other := *r
		other.Body = bytes.Replace(r.Body, []byte(`"n":1`), []byte(`"n":2`), 1)
		if e, ok := errors.AsType[*verify.Error](s.Verify(&other, now)); !ok || e.Reason != verify.Mismatch {
			t.Errorf("%s: another body with the same token: %v", source, e)
		}
		if err := s.Verify(r, now); err != nil {
			t.Errorf("%s, the same once more: %v", source, err)
		}
	}
}

// A reload keeps what a source has used up of its rate; another rate begins again.
func TestReloadKeepsLimiters(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        rate: {limit: 1, burst: 100}", 1)
	compiled := func(before map[nameInTeam]*ingest.Source) map[nameInTeam]*ingest.Source {
		t.Helper()
		sources, problems := compileSources(r.load(config.RoleIntake), before, nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return sources
	}
	at := nameInTeam{"acme", "orders"}
	first := compiled(nil)
	r.text = strings.Replace(r.text, "secrets: [orders-secret]", "secrets: [other-secret]", 1)
	second := compiled(first)
	if first[at].Limiter == nil || second[at].Limiter != first[at].Limiter {
		t.Error("a changed secret gave the source its rate again")
	}
	r.text = strings.Replace(r.text, "burst: 100", "burst: 50", 1)
	if third := compiled(second); third[at].Limiter == first[at].Limiter || third[at].Limiter.Burst() != 50 {
		t.Error("a changed rate was not taken")
	}
	r.text = strings.Replace(r.text, "limit: 1,", "limit: 3, per: 1m,", 1)
	if slow := compiled(second); slow[at].Limiter.Limit() != 0.05 || slow[at].Limiter.Burst() != 50 {
		t.Errorf("three a minute are %v a second", slow[at].Limiter.Limit())
	}
}

// A team's quota holds for all of its sources together, over a reload too, and says that it was the quota. Another team has its own.
func TestTeamsHaveOneRate(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	r.text = strings.Replace(r.text, "teams:\n", "quotas: {default: {rate: {limit: 1, per: 24h, burst: 3}}, teams: {}}\nteams:\n  other: {sources: {hooks: {preset: github, secrets: [first-secret]}}}\n", 1)
	r.createTopics()
	p := r.run(config.RoleIntake)
	if got := []int{p.send("orders", "orders-secret", order("x", 1)), p.send("orders", "orders-secret", order("x", 2))}; !slices.Equal(got, []int{202, 202}) {
		t.Errorf("answered %v", got)
	}
	r.text = strings.Replace(r.text, "secrets: [orders-secret]", "secrets: [orders-secret, other]", 1)
	r.reload(p, config.RoleIntake)
	sources := *p.app.intake.sources.current.Load()
	github, orders := sources[nameInTeam{"acme", "github"}], sources[nameInTeam{"acme", "orders"}]
	if github.TeamLimiter != orders.TeamLimiter || sources[nameInTeam{"other", "hooks"}].TeamLimiter == orders.TeamLimiter {
		t.Error("a team has one limiter, and no other team's")
	}
	if got := []int{p.send("orders", "orders-secret", order("x", 3)), p.send("orders", "orders-secret", order("x", 4))}; !slices.Equal(got, []int{202, 429}) {
		t.Errorf("answered %v", got)
	}
	if n, series := counted(t, p.app.registry, "forebay_ingest_deliveries_total", map[string]string{"outcome": "throttled", "reason": "team"}); n != 1 || series != 1 {
		t.Errorf("%v deliveries are counted in %d series", n, series)
	}
	r.text = strings.Replace(r.text, "burst: 3", "burst: 4", 1)
	r.reload(p, config.RoleIntake)
	if got := p.send("orders", "orders-secret", order("x", 5)); got != 202 {
		t.Errorf("with another quota answered %d", got)
	}
	p.clean()
}

// Destinations are told which version calls, unless the binary has none.
func TestAgentHasTheVersion(t *testing.T) {
	t.Parallel()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { agent = r.UserAgent() }))
	defer server.Close()
	s, err := newSink(&config.Config{}, config.NamedDestination{Name: "agent", Destination: &config.Destination{
		Type: "http", Keys: &httpsink.Config{URL: server.URL}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e := &schemas.Event{ID: "1", Source: "/acme/orders", Type: "t", Entity: "e", Payload: schemas.Delta, Data: []byte("{}")}
	if _, err := s.Do(t.Context(), sink.Action{ID: "act_1", Event: e}); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if want := "Forebay/" + cmp.Or(buildVersion(), "dev"); agent != want {
		t.Errorf("User-Agent %q, want %q", agent, want)
	}
}

// The keys of `verify:` that choose a scheme, a header or a fallback reach the verifier.
func TestVerifyKeysOfTheFile(t *testing.T) {
	t.Parallel()
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G"
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
	r.text = strings.Replace(r.text, "      orders:", `      token: {preset: generic, secrets: [s3cret], verify: {scheme: token, header: X-Own, prefix: "Bearer "},
        event: {id: /id, type: /type, entity: []}}
      svix: {preset: standard-webhooks, secrets: [`+key+`], verify: {header_prefix: svix-}}
      standard: {preset: generic, secrets: [`+key+`], verify: {scheme: standard_webhooks}, event: {id: header:webhook-id, type: /type, entity: []}}
      old: {preset: github, secrets: [s3cret], verify: {allow_sha1: true}}
      orders:`, 1)
	sources, problems := compileSources(r.load(config.RoleIntake), nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	body := []byte("{}")
	signed := func(source string) http.Header {
		t.Helper()
		r := verify.Request{Method: "POST", Header: http.Header{}, Body: body}
		if err := sources[nameInTeam{"acme", source}].Sign(&r, time.Now()); err != nil {
			t.Fatal(err)
		}
		return r.Header
	}
	sha1 := hmac.New(sha1.New, []byte("s3cret"))
	sha1.Write(body)
	for _, test := range []struct {
		source string
		header http.Header
		holds  bool
	}{
		{"token", http.Header{"X-Own": {"Bearer s3cret"}}, true},
		{"token", http.Header{"X-Own": {"s3cret"}}, false},
		{"svix", signed("svix"), true},
		{"svix", signed("standard"), false}, // the names of the other family
		{"standard", signed("standard"), true},
		{"old", http.Header{"X-Hub-Signature": {fmt.Sprintf("sha1=%x", sha1.Sum(nil))}}, true},
		{"github", http.Header{"X-Hub-Signature": {fmt.Sprintf("sha1=%x", sha1.Sum(nil))}}, false},
	} {
		s := sources[nameInTeam{"acme", test.source}]
		err := s.Verifier.Verify(&verify.Request{Method: "POST", Header: test.header, Body: body}, time.Now())
		if (err == nil) != test.holds {
			t.Errorf("%s with %v: %v", test.source, test.header, err)
		}
	}
	if got := sources[nameInTeam{"acme", "token"}].SecretHeaders(); !slices.Equal(got, []string{"X-Own"}) {
		t.Errorf("the token's header is not secret: %v", got)
	}
}

// Whatever is sent, the lines of a process at its most talkative hold no secret, no signature and no body.
func TestLogsHoldNoSecret(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	var log lockedBuffer
	r.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := r.run(config.RoleIntake)
	good := order("o-1", 1)
	good.Header.Set("Authorization", "Bearer not-for-lines")
	p.accepted("orders", "orders-secret", good)
	if got := p.send("orders", "a-forgers-secret", order("o-2", 1)); got != http.StatusUnauthorized {
		t.Errorf("forged: %d", got)
	}
	unusable := order("o-3", 1)
	unusable.Body = []byte("not-for-lines either")
	p.accepted("orders", "orders-secret", unusable)
	r.text = strings.Replace(r.text, "orders-secret", "another-secret", 1)
	r.reload(p, config.RoleIntake)
	p.clean()
	text := log.String()
	for _, want := range []string{"outcome=accepted", "outcome=refused", "outcome=quarantined", "configuration reloaded"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the lines", want)
		}
	}
	for _, leak := range []string{"orders-secret", "first-secret", "another-secret", "a-forgers-secret", "not-for-lines", good.Header.Get("X-Signature")} {
		if strings.Contains(text, leak) {
			t.Errorf("%q is in the lines", leak)
		}
	}
}

// What is wrong with secrets is told at their line, which is not the source's.
func TestCheckNamesTheLineOfSecrets(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"[a, b, c, d, e, f, g, h, i]":               "9 secrets are more than 8",
		"[00ff, no-hex]\n        key_encoding: hex": "secret 2 is not hex",
	} {
		r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "", "http://127.0.0.1:1")}
		r.text = strings.Replace(r.text, "[orders-secret]", wrong, 1)
		problems := Check(r.load(config.RoleIntake), []config.Role{config.RoleIntake})
		if len(problems) != 1 || problems[0].Path != "teams.acme.sources.orders.secrets" || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v", wrong, problems)
			continue
		}
		if line := strings.Split(r.text, "\n")[problems[0].Line-1]; !strings.Contains(line, "secrets: "+strings.Split(wrong, "\n")[0]) {
			t.Errorf("%s: line %d is %q", wrong, problems[0].Line, line)
		}
	}
}

// Whoever has shown no signature keeps no connection, whatever they ask for: one that idles counts for nobody, and files run out.
func TestStrangersKeepNoIdleConnection(t *testing.T) {
	t.Parallel()
	const most = 3
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", fmt.Sprintf("intake: {per_address: {connections: %d}}\nlisten: {", most), 1)
	p := r.run(config.RoleIntake)
	for request, want := range map[string]int{
		"GET /v1/actions/x": 421, "POST /v1/actions/x/result": 421, "GET /v1/events/acme/orders/1": 421,
		"OPTIONS *": 404, "OPTIONS /v1/in/acme/orders": 405, "GET /": 404, "POST /v1/in/acme/orders": 401,
	} {
		for range most + 1 {
			c, err := net.Dial("tcp", p.app.Addr("intake").String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute)) // the server would wait for 120
			fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", request)
			reader := bufio.NewReader(c)
			resp, err := http.ReadResponse(reader, nil)
			if err != nil || resp.StatusCode != want {
				t.Fatalf("%s: %v %v, want %d", request, resp, err, want)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if _, err := reader.ReadByte(); err != io.EOF {
				t.Errorf("%s: the connection is kept: %v", request, err)
				break
			}
		}
	}
	if got := p.send("orders", "orders-secret", order("x", 1)); got != http.StatusAccepted {
		t.Errorf("a delivery after them was answered %d", got)
	}
	p.clean()
}

// All listeners bound what a connection may cost.
func TestListenersAreBounded(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "listen: {", `listen: {health: "127.0.0.1:0", `, 1)
	p := r.run(config.RoleIntake)
	for name, l := range map[string]*listener{"operator": p.app.operator, "health": p.app.health, "intake": p.app.intake.listener} {
		s := l.server
		if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 {
			t.Errorf("%s: a timeout is missing", name)
		}
		if name == "intake" && s.ReadTimeout-s.ReadHeaderTimeout != 10*time.Second {
			t.Errorf("a body may take %v, and the handler counts on %v", s.ReadTimeout-s.ReadHeaderTimeout, 10*time.Second)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Large", strings.Repeat("x", 100<<10))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: 100 KiB of headers are answered %d", name, resp.StatusCode)
		}
	}
	p.clean()
}
