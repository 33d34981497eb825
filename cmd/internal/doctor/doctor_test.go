package doctor

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // most of them wait most of the time
	goleak.VerifyTestMain(m)
}

// installation is a file with its brokers and its ledger, which a test breaks.
type installation struct {
	t             *testing.T
	text          string
	path          string
	dbURL, schema string
	cl            *kgo.Client
	adm           *kadm.Client
}

const sound = `version: 1
kafka: {brokers: ["BROKERS"]}
postgres: {url: "POSTGRES", schema: SCHEMA}
listen: {intake: "127.0.0.1:0", operator: "127.0.0.1:0"}
topics: {partitions: 3, replication: 1, retention: 7d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: ["${file:SECRET}"]}
    destinations:
      agent: {type: log}
    subscriptions:
      triage: {sources: [github], actions: [{name: run, to: agent}]}
`

// install makes everything that the sound file needs.
func install(t *testing.T) *installation {
	t.Helper()
	short.NeedsServer(t, "a broker")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	i := &installation{t: t, path: filepath.Join(t.TempDir(), "forebay.yaml")}
	i.dbURL, i.schema = pgtest.Schema(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("first-secret-of-github\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.text = strings.NewReplacer("BROKERS", broker, "POSTGRES", i.dbURL, "SCHEMA", i.schema, "SECRET", secret).Replace(sound)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	i.cl, i.adm = cl, kadm.NewClient(cl)
	return i
}

// apply makes the topics and the ledger.
func (i *installation) apply() {
	i.t.Helper()
	cfg := i.load()
	if _, err := topics.Apply(i.t.Context(), i.cl, topics.Wanted(cfg, cfg.MaxBody), false); err != nil {
		i.t.Fatal(err)
	}
	l, err := app.LedgerConfig(cfg.Ledger(), nil)
	if err == nil {
		_, err = ledger.Migrate(i.t.Context(), l)
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) write() {
	i.t.Helper()
	if err := os.WriteFile(i.path, []byte(i.text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) load() *config.Config {
	i.t.Helper()
	i.write()
	cfg, err := config.Load(config.Options{Path: i.path})
	if err != nil {
		i.t.Fatal(err)
	}
	return cfg
}

func (i *installation) replace(old, with string) {
	i.t.Helper()
	if !strings.Contains(i.text, old) {
		i.t.Fatalf("the file has no %q", old)
	}
	i.text = strings.Replace(i.text, old, with, 1)
}

// look runs the doctor before anything is started.
func (i *installation) look() *Report {
	i.t.Helper()
	i.write()
	return Run(i.t.Context(), i.config())
}

func (i *installation) config() Config {
	return Config{Path: i.path, Within: time.Minute,
		Load: func(roles ...config.Role) (*config.Config, error) {
			return config.Load(config.Options{Path: i.path, Roles: roles, Look: true})
		}}
}

// want fails the test unless a finding of a check has a severity and texts in its subject, evidence and fix.
func want(t *testing.T, r *Report, check string, severity Severity, subject, evidence, fix string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check && f.Severity == severity && strings.Contains(f.Subject, subject) && strings.Contains(f.Evidence, evidence) && strings.Contains(f.Fix, fix) {
			return
		}
	}
	t.Errorf("no finding %s of %s about %q with %q and fix %q:\n%s", severity, check, subject, evidence, fix, told(r))
}

func told(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %s  %s\n    %s\n    fix: %s\n", f.Severity, f.Check, f.Subject, f.Evidence, f.Fix)
	}
	return b.String()
}

// TestSound: of an installation that has all it needs every check is made, and none finds a problem.
func TestSound(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.apply()
	r := i.look()
	if n := r.Problems(); n > 0 {
		t.Errorf("%d problems:\n%s", n, told(r))
	}
	seen := map[string]Severity{}
	for _, f := range r.Findings {
		seen[f.Check] = f.Severity
		if f.Severity == Unknown && f.Check != "rights" {
			t.Errorf("not made: %+v", f)
		}
	}
	for _, c := range []string{"config", "secrets", "expiry", "networks", "destinations", "brokers", "topics", "copies", "rights", "postgres", "connections"} {
		if _, ok := seen[c]; !ok {
			t.Errorf("nothing is said of %s", c)
		}
	}
	want(t, r, "brokers", OK, "", "1 of 1 answer", "")
	want(t, r, "copies", Warning, "topics.replication", "one replica", "replication: 3")
	want(t, r, "postgres", Warning, "postgres", "superuser", "CREATE ROLE")
}

// TestRoleOfItsOwn: what is advised to somebody whose role is a superuser gives another role the ledger that is there.
func TestRoleOfItsOwn(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.apply()
	var advice string
	for _, f := range i.look().Findings {
		if f.Check == "postgres" && strings.HasPrefix(f.Fix, "CREATE ROLE") {
			advice, _, _ = strings.Cut(f.Fix, "; then that role")
		}
	}
	role := "own_" + i.schema
	advice = regexp.MustCompile(`\bforebay(_app)?\b`).ReplaceAllString(advice, role) // servers are shared
	db, err := pgx.Connect(t.Context(), i.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), strings.Replace(advice, "'...'", "'pencil'", 1)); err != nil {
		t.Fatal(advice, err)
	}
	own := url.URL{Scheme: "postgres", User: url.UserPassword(role, "pencil"), Host: db.Config().Host + ":" + strconv.Itoa(int(db.Config().Port)), Path: db.Config().Database, RawQuery: "sslmode=disable"}
	i.replace(i.dbURL, own.String())
	want(t, i.look(), "postgres", OK, "postgres", "role "+role+" has what it needs", "")
	if _, err := db.Exec(t.Context(), fmt.Sprintf("DROP SCHEMA %s CASCADE; DROP OWNED BY %[2]s; DROP ROLE %[2]s", i.schema, role)); err != nil {
		t.Error(err)
	}
}

// TestNothingThere: neither brokers nor Postgres answer, and what else is wrong is told all the same.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.replace(i.load().Kafka.Brokers[0], rig.FreeAddress(t))
	i.replace(i.dbURL, "postgres://forebay:pencil@"+rig.FreeAddress(t)+"/forebay?sslmode=disable")
	r := i.look()
	want(t, r, "brokers", Problem, "127.0.0.1", "connection refused", "kafka.brokers")
	want(t, r, "topics", Unknown, "", "the brokers do not answer", "")
	want(t, r, "postgres", Problem, "postgres", "", "postgres.url")
	want(t, r, "connections", Unknown, "postgres", "does not answer", "")
	want(t, r, "networks", OK, "", "no allow_networks leads to", "")
	if strings.Contains(told(r), "pencil") {
		t.Error("the password is shown")
	}
}

// TestUnreadable: of a file that cannot be read it says why, and of one that is not there which command writes one.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.replace(`"${file:`, `"${file:/nowhere`)
	r := i.look()
	want(t, r, "config", Problem, "forebay.yaml:9", "reference to a file", "forebay config check -c ")
	if len(r.Findings) != 1 {
		t.Error(told(r))
	}
	i.path = filepath.Join(t.TempDir(), "nofile.yaml")
	want(t, Run(t.Context(), i.config()), "config", Problem, "nofile.yaml", "`forebay config init "+i.path+"` writes an example", "")
	i.path = "-"
	want(t, Run(t.Context(), i.config()), "config", Problem, "-", "stdin is not read", "")
}

// TestTopics breaks one topic after the other.
func TestTopics(t *testing.T) {
	t.Parallel()
	i := install(t)
	want(t, i.look(), "topics", Problem, "events.acme.github", "is missing", "forebay topics apply -c "+i.path)
	want(t, i.look(), "topics", Warning, "dead.acme.triage", "is missing", "forebay topics apply -c "+i.path)
	want(t, i.look(), "postgres", Problem, "postgres", "has no ledger", "forebay migrate -c "+i.path)
	i.apply()
	set := func(topic, key, value string) {
		t.Helper()
		if _, err := i.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic); err != nil {
			t.Fatal(err)
		}
	}
	set("events.acme.github", "retention.ms", "-1")
	set("quarantine.acme.github", "cleanup.policy", "compact")
	r := i.look()
	want(t, r, "topics", Problem, "quarantine.acme.github", "cleanup.policy compact -> delete: a process does not start", "forebay topics apply")
	want(t, r, "topics", Warning, "events.acme.github", "keeps events for ever, configured is 7d", "forebay topics plan -c "+i.path)
	if _, err := i.adm.UpdatePartitions(t.Context(), 5, "events.acme.github"); err != nil {
		t.Fatal(err)
	}
	want(t, i.look(), "topics", Problem, "events.acme.github", "has 5 partitions, configured are 3", "forebay topics plan -c "+i.path)
}

// TestFiles looks at files with secrets that others can read or write, and at literals.
func TestFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	_, secret, _ := strings.Cut(i.text, "${file:")
	secret, _, _ = strings.Cut(secret, "}")
	for mode, text := range map[os.FileMode]string{0o644: "everybody on this machine may read it", 0o620: "others may write it"} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		want(t, i.look(), "secrets", Problem, secret, text, "chmod ")
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	want(t, i.look(), "config", Problem, "forebay.yaml", "no such file", "")
	i.replace("${file:"+secret+"}", "a-literal-of-the-file")
	r := i.look()
	want(t, r, "secrets", Warning, "postgres.url", "stand in the configuration itself", "postgres.url: \"${env:NAME}")
	if err := os.Chmod(i.path, 0o644); err != nil {
		t.Fatal(err)
	}
	r = Run(t.Context(), i.config())
	want(t, r, "secrets", Problem, i.path, "everybody on this machine may read it", "chmod o-rwx "+i.path)
	if strings.Contains(told(r), "a-literal-of-the-file") {
		t.Error("a secret is shown")
	}
}

// TestNetworks opens networks that are worth a second look, and destinations that lead where nobody may go.
func TestNetworks(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.replace("{type: log}", `{type: http, url: "https://127.0.0.1:1/hook", allow_networks: [169.254.0.0/16, 127.0.0.0/8]}`)
	r := i.look()
	want(t, r, "networks", Problem, "teams.acme.destinations.agent.allow_networks", "169.254.0.0/16 has an address at which clouds tell", "list the networks")
	want(t, r, "networks", Warning, "teams.acme.destinations.agent.allow_networks", "operator listener", "auth: tokens")
	want(t, r, "destinations", Problem, "teams.acme.destinations.agent", "connection refused", "")
	i.replace("https://127.0.0.1:1/hook", "https://localhost/hook")
	i.replace(", allow_networks: [169.254.0.0/16, 127.0.0.0/8]", "")
	want(t, i.look(), "config", Problem, "forebay.yaml", "localhost is in none of allow_networks", "forebay config check")
}

// TestNobodyAnswers: brokers and Postgres take connections and say nothing. Every check ends in its time and says that there was no answer.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write()
	brokers := i.load().Kafka.Brokers[0]
	var lc net.ListenConfig
	silent, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
		}
	}()
	t.Cleanup(func() {
		silent.Close()
		<-accepting
		for _, c := range open {
			c.Close()
		}
	})
	i.replace(brokers, silent.Addr().String())
	i.replace(i.dbURL, "postgres://forebay:pencil@"+silent.Addr().String()+"/forebay?sslmode=disable")
	i.write()
	cfg := i.config()
	cfg.Within = 2 * time.Second
	began := time.Now()
	r := Run(t.Context(), cfg)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s with %s for a check", took, cfg.Within)
	}
	want(t, r, "brokers", Problem, silent.Addr().String(), "no answer in time", "kafka.brokers")
	want(t, r, "postgres", Problem, "postgres", "", "postgres.url")
	want(t, r, "topics", Unknown, "", "not made", "")
	want(t, r, "networks", OK, "", "no allow_networks leads to", "")
}
