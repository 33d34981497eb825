package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// design is the file of the design's section 11, word for word in its keys and values.
const design = `version: 1
kafka:    {brokers: ["127.0.0.1:9092"]}
postgres: {url: "${env:FOREBAY_POSTGRES_URL}"}
listen:
  intake: 127.0.0.1:8080          # POST /v1/in/{team}/{source}
  operator: 127.0.0.1:9090        # /livez /readyz /metrics; later API and console
topics: {partitions: 12, replication: 1, retention: 7d}     # defaults, a source may override
teams:
  acme:
    sources:
      github:
        preset: github
        secrets: ["${env:GITHUB_SECRET}", "${file:/run/secrets/github_old}"]     # any may match
      orders:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event:
          id: header:X-Event-Id
          type: /type
          entity: [/order/id]
          version: {from: /order/rev, kind: sequence}       # sequence | monotonic | timestamp | none
          payload: snapshot                                  # snapshot | delta
    destinations:
      coder:
        type: http
        url: https://agents.example.com/run
        secret: "${env:CODER_SECRET}"                        # whsec_...: signs our calls (Standard Webhooks)
        timeout: 10s
        retry: {attempts: 7, within: 24h, min: 1s, max: 1h}
        allow_networks: [127.0.0.0/8]                        # private ranges and plain http are refused unless listed
    subscriptions:
      triage:
        sources: [github]
        types: ["com.github.issues.*", "com.github.pull_request.*"]              # globs, * crosses dots; none = all
        begin: now                                           # now | all | <RFC 3339>: where in the log a new subscription begins
        order: version                                       # version | arrival (dedupe only)
        start: any                                           # any | first | backfill: first event of an unknown entity
        gap: {wait: 30s, then: skip}                         # skip | park | backfill | dead_letter; kind sequence only, else inert
        actions: [{name: run, to: coder, on_dead: park}]     # park | continue
`

var designEnv = map[string]string{
	"FOREBAY_POSTGRES_URL": "postgres://forebay:pg-password@127.0.0.1:5432/forebay",
	"GITHUB_SECRET":        "gh-secret", "ORDERS_SECRET": "orders-secret",
	"CODER_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}

var designFiles = map[string]string{"/run/secrets/github_old": "old-secret\n"}

// load runs the loader with a given environment in place of the process's.
func load(text string, env, files map[string]string, o Options) (*Config, Problems) {
	if o.Path == "" {
		o.Path = "forebay.yaml"
	}
	o.Data = []byte(text)
	l := &loader{options: o, env: environment{
		lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		read: func(path string) ([]byte, error) {
			if data, ok := files[path]; ok {
				return []byte(data), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
	}}
	return l.run()
}

func TestDesignFileLoads(t *testing.T) {
	t.Parallel()
	c, problems := load(design, designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatalf("problems:\n%v", problems)
	}
	acme := c.Teams["acme"]
	if got := acme.Sources["github"].Secrets[1].Value.Reveal(); got != "old-secret" {
		t.Errorf("secret from a file = %q, want exactly one newline cut", got)
	}
	want := &Subscription{
		Sources: []string{"github"}, Types: []string{"com.github.issues.*", "com.github.pull_request.*"},
		Begin: "now", Order: "version", Start: "any", Equal: "apply", Stale: Stale{Snapshot: "drop", Delta: "deliver_marked"}, Backlog: "all",
		Gap: Gap{Wait: mustDuration("30s"), Then: "skip", Late: "stale", MaxEvents: MaxEvents{Entity: 1000, Subscription: 100_000},
			MaxBytes: MaxBytes{Entity: 256 << 20, Subscription: 1 << 30}},
		Senders: Senders{Own: SendersDrop, Automation: SendersAllow}, Loop: Loop{Depth: 8, Runs: LoopRuns{Limit: 30, Per: mustDuration("1h")}},
		Dedupe: Dedupe{Window: mustDuration("15d")}, Retention: Retention{Done: mustDuration("7d"), Dead: mustDuration("30d")},
		Actions: []Action{{Name: "run", To: "coder", OnDead: "park", OnNewer: "continue"}},
	}
	if diff := cmp.Diff(want, acme.Subscriptions["triage"]); diff != "" {
		t.Error(diff)
	}
	if got := acme.Sources["orders"].Topics; got != (Topics{Partitions: 12, Replication: 1, MinInsync: 1, Retention: mustDuration("7d")}) {
		t.Errorf("a source does not inherit the topics: %+v", got)
	}
}

func mustDuration(s string) Duration {
	d, err := ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func TestRolesResolveOnlyTheirParts(t *testing.T) {
	t.Parallel()
	intakeEnv := map[string]string{"GITHUB_SECRET": "a", "ORDERS_SECRET": "b"}
	c, problems := load(design, intakeEnv, designFiles, Options{Roles: []Role{RoleIntake}})
	if len(problems) > 0 {
		t.Errorf("intake must not need the Postgres URL or destination secrets:\n%v", problems)
	} else if !c.Postgres.URL.IsZero() {
		t.Error("intake has a Postgres URL")
	}
	streamEnv := map[string]string{"FOREBAY_POSTGRES_URL": designEnv["FOREBAY_POSTGRES_URL"], "CODER_SECRET": "whsec_x"}
	if _, problems := load(design, streamEnv, nil, Options{Roles: []Role{RoleStream}}); len(problems) > 0 {
		t.Errorf("stream must not need signing secrets of sources:\n%v", problems)
	}
	if _, problems := load(design, nil, nil, Options{Roles: []Role{RoleTopics}}); len(problems) > 0 {
		t.Errorf("topics apply must not need any secret:\n%v", problems)
	}
	noKafka := strings.Replace(design, `kafka:    {brokers: ["127.0.0.1:9092"]}`, "", 1)
	if _, problems := load(noKafka, intakeEnv, designFiles, Options{Roles: []Role{RoleSend}}); noKafka == design || len(problems) > 0 {
		t.Errorf("send must not need Kafka, which files of forebay dev leave out:\n%v", problems)
	}
	_, problems = load(design, intakeEnv, designFiles, Options{Roles: []Role{RoleStream}})
	for _, want := range []string{"postgres.url: environment variable FOREBAY_POSTGRES_URL is not set", "coder.secret: environment variable CODER_SECRET is not set"} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("stream without its variables: no %q in\n%v", want, problems)
		}
	}
}

func TestExampleChecks(t *testing.T) {
	t.Parallel()
	c, problems := load(string(Example()), designEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatalf("the example does not check:\n%v", problems)
	}
	if c.Teams["acme"].Subscriptions["fulfil"].Start != "first" {
		t.Error("start of a subscription to sequence sources only is not first")
	}
}

func TestShowGolden(t *testing.T) {
	t.Parallel()
	c, problems := load(design, designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"gh-secret", "old-secret", "orders-secret", "pg-password", "MfKQ9r8"} {
		if strings.Contains(string(shown), secret) {
			t.Errorf("config show leaks %q", secret)
		}
	}
	golden(t, "show.golden.yaml", shown)
	c2, problems := load(string(shown), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatalf("what config show prints does not load:\n%v", problems)
	}
	if twice, _ := c2.YAML(); cmp.Diff(string(shown), string(twice)) != "" {
		t.Error(cmp.Diff(string(shown), string(twice)))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", name, diff)
	}
}

func TestTeamFiles(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	dir, write := v.dir, v.write
	const source = "{sources: {s: {preset: github, secrets: [x]}}}"
	main := filepath.Join(dir, "forebay.yaml")
	write("forebay.yaml", "version: 1\nkafka: {brokers: [\"localhost:9092\"]}\npostgres: {url: \"${file:"+filepath.Join(dir, "secret")+"}\"}\nteams_dir: teams\n")
	write("secret", "postgres://h/d\n")
	write("teams/alpha.yaml", "teams:\n  alpha: "+source+"\n")
	write("teams/beta.yml", "teams:\n  beta: "+source+"\n")
	write("teams/.hidden.yaml", "nonsense: true\n")
	write("teams/README.md", "not yaml: [")
	var seen []string
	c, err := Load(Options{Path: main, See: func(path string) { seen = append(seen, strings.TrimPrefix(path, dir)) }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alpha", "beta"}, keys(c.Teams)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/forebay.yaml", "/secret", "/teams", "/teams/alpha.yaml", "/teams/beta.yml"}, seen); diff != "" {
		t.Error(diff)
	}

	write("teams/gamma.yaml", "teams:\n  gamma: {}\n  alpha: "+source+"\n  beta: {sources: {s: {preset: githb, secrets: [x]}}}\n")
	_, err = Load(Options{Path: main})
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("error = %v, want Problems", err)
	}
	for _, want := range []string{
		"gamma.yaml:3: teams.alpha: team alpha is already in " + filepath.Join(dir, "teams/alpha.yaml") + ", line 2",
		"gamma.yaml:4: teams.beta: team beta is already in",
		`gamma.yaml:4: teams.beta.sources.s.preset: "githb" is not one of`,
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("no %q in\n%v", want, problems)
		}
	}
	if _, err := Load(Options{Path: main, TeamsDir: filepath.Join(dir, "absent")}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("an absent teams directory: %v", err)
	}
}
