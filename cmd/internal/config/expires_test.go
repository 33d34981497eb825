package config

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestSourceSecretsExpire: a secret is a plain text, or a value with its end; what ends soon or has ended is noted and still taken as a file,
// `config show` tells the end and no secret, and the source refuses what an ended secret has signed.
func TestSourceSecretsExpire(t *testing.T) {
	t.Parallel()
	v := newVillage(t, `{env: ["TEAM_{TEAM}_*"]}`)
	v.env["TEAM_A_OLD"], v.env["TEAM_A_NEW"] = "the canary of old, long enough", "the canary of now, long enough"
	day := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.DateOnly) }
	file := fmt.Sprintf(`teams:
  a:
    sources:
      ended: {preset: stripe, secrets: [{value: "${env:TEAM_A_OLD}", expires: 2020-12-31}, "${env:TEAM_A_NEW}"]}
      last: {preset: stripe, secrets: [{value: "${env:TEAM_A_OLD}x", expires: %s}]}
      later: {preset: stripe, secrets: [{value: a canary that is literal, expires: "2999-01-01T12:00:00Z"}, a plain canary of the file]}
`, day(13*24*time.Hour))
	v.write("teams/a.yaml", file)
	c, problems := v.load()
	if problems != "" {
		t.Fatal(problems)
	}
	noted := map[string]string{}
	for _, n := range c.Notes() {
		if strings.HasSuffix(n.Path, ".expires") {
			noted[n.Path] = n.Message[:len("ends on")]
		}
	}
	want := map[string]string{"teams.a.sources.ended.secrets[0].expires": "has end", "teams.a.sources.last.secrets[0].expires": "ends on"}
	if d := cmp.Diff(want, noted); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	var last []bool
	for _, e := range c.Expiring() {
		last = append(last, e.Last)
	}
	if d := cmp.Diff([]bool{false, true, false}, last); d != "" {
		t.Errorf("which are the last of their sources (-want +got):\n%s", d)
	}
	shown, err := c.YAML()
	if err != nil || strings.Contains(string(shown), "canary") {
		t.Errorf("config show shows a secret (%v):\n%s", err, shown)
	}
	strangers, err := c.ForStrangers()
	for _, text := range []string{string(shown), string(strangers)} {
		if err != nil || strings.Count(text, "expires: \"2") != 3 || !strings.Contains(text, "${env:TEAM_A_NEW}") || !strings.Contains(text, "2020-12-31") {
			t.Errorf("not all of the secrets (%v):\n%s", err, text)
		}
	}
	source, err := provider.Compile(c.Source("a", "ended"))
	if err != nil {
		t.Fatal(err)
	}
	for name, verifies := range map[string]bool{"TEAM_A_OLD": false, "TEAM_A_NEW": true} {
		by, err := verify.New(verify.Params{Scheme: verify.SchemeStripe}, []schemas.Secret{schemas.NewSecret(v.env[name])})
		r, now := verify.Request{Header: http.Header{}, Body: []byte("{}")}, time.Now()
		if err == nil {
			err = by.Sign(&r, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := source.Verifier.Verify(&r, now); (err == nil) != verifies || verifies && r.Secret != 2 {
			t.Errorf("%s: %v, by secret %d", name, err, r.Secret)
		}
	}
	v.write("teams/a.yaml", strings.Replace(file, "2020-12-31", "31.12.2020", 1))
	if _, problems := v.load(); !strings.Contains(problems, "teams.a.sources.ended.secrets[0].expires") {
		t.Errorf("a day of another form: %s", problems)
	}
}
