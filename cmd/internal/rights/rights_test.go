package rights

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

// file has two teams: one with a backfill and destinations of type kafka, and one with the name of a prefix of ours.
const file = `
version: 1
kafka: {brokers: ["127.0.0.1:9092"], publish: {acme: ["shared."]}}
postgres: {url: "postgres://localhost/forebay"}
teams:
  acme:
    sources:
      github:
        preset: github
        secrets: ["0123456789abcdef"]
        backfill:
          url: "https://api.example.com/issues/{entity.0}?from={from}"
          event: {id: /id, type: /type, payload: snapshot, version: {from: /updated_at, kind: timestamp, clock: issue}}
    destinations:
      own: {type: kafka, topic: acme.enriched}
      again: {type: kafka, topic: acme.enriched}
      shared: {type: kafka, topic: shared.enriched}
    subscriptions:
      triage: {sources: [github], actions: [{name: write, to: own}]}
  events:
    sources:
      github: {preset: github, secrets: ["0123456789abcdef"]}
      shared: {preset: github, secrets: ["0123456789abcdef"], share: [acme]}
      shop: {preset: shopify, secrets: ["0123456789abcdef"], reconcile: {every: 1h, token: t, hook: acme.myshopify.com/2026-07/orders/updated}}
`

func load(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func byRole(role Role, team string) string {
	if role == Consumer {
		return "User:team-" + team
	}
	return "User:forebay-" + string(role)
}

// TestExports compares what is printed for a file with what was looked at once.
func TestExports(t *testing.T) {
	t.Parallel()
	list := Of(load(t), []Role{Intake, Stream, Admin, Rekey, Reading, Consumer}, byRole)
	for name, text := range map[string]string{"acls.golden.sh": Kafka(list), "kafkausers.golden.yaml": Strimzi(list, "my-cluster"), "acls.golden.tf": Terraform(list)} {
		golden(t, "testdata/"+name, text)
	}
}

func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (go test -update rewrites it) (-want +got):\n%s", path, diff)
	}
}

// TestPageHasTheTable: the page about Kafka has this table, word for word.
func TestPageHasTheTable(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../../deploy/docs/KAFKA.md", "<!-- the table of package rights; `go test ./cmd/internal/rights -update` writes it -->\n", "<!-- end -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	golden(t, path, before+begin+Markdown()+end+after)
}

// TestNoTeamReachesAnother: no right of one team's consumers is to anything of another, whatever the teams are called.
func TestNoTeamReachesAnother(t *testing.T) {
	t.Parallel()
	own := 0
	for _, r := range Of(load(t), []Role{Consumer}, byRole) {
		names := []string{"acme.triage"}
		if r.Kind == Topic {
			names = []string{"events.acme.github", "dead.acme.triage", "quarantine.acme.github", "acme.enriched"}
		}
		for _, name := range names {
			reaches := name == r.Name || r.Prefixed && strings.HasPrefix(name, r.Name)
			if reaches && r.Team != "acme" {
				t.Errorf("team %s has a right to %s: %+v", r.Team, name, r)
			} else if reaches {
				own++
			}
		}
	}
	if own == 0 {
		t.Error("the team itself reaches nothing")
	}
}

// TestOneUserOfAllRolesHasEachRightOnce: where the roles share a user, nothing is printed twice.
func TestOneUserOfAllRolesHasEachRightOnce(t *testing.T) {
	t.Parallel()
	one := func(Role, string) string { return "User:forebay" }
	list := Of(load(t), []Role{Intake, Stream, Admin}, one)
	for i, r := range list {
		if slices.ContainsFunc(list[i+1:], func(other Right) bool {
			return other.Kind == r.Kind && other.Name == r.Name && other.Operation == r.Operation
		}) {
			t.Errorf("%s on %s twice", r.Operation, r.Name)
		}
	}
	if len(entries(list)) == 0 || entries(list)[0].principal != "User:forebay" {
		t.Errorf("entries: %+v", entries(list))
	}
}

// TestNamesAreQuoted: a certificate's name has commas and spaces, a user may have what a shell or Terraform reads.
func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	list := []Right{{Principal: `User:CN=it's,O=a b`, Kind: Topic, Name: "x${y}", Operation: "Read"}}
	for text, want := range map[string]string{
		Kafka(list):              `--allow-principal 'User:CN=it'\''s,O=a b'`,
		Strimzi(list, "my: one"): `name: "CN=it's,O=a b"`,
		Terraform(list):          `= "x$${y}"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nhas no %s", text, want)
		}
	}
}

// TestASharedSourceIsRead: a team's own consumers may read the topic of a source that another team shares with it, and that alone.
func TestASharedSourceIsRead(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(strings.Replace(file, "      github:\n        preset: github\n", "      other: {preset: github, secrets: [x]}\n      github:\n        preset: github\n        share: [events]\n", 1))})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range Of(c, []Role{Consumer}, byRole) {
		if r.Team == "events" && strings.Contains(r.Name, "acme") {
			got = append(got, r.Principal+" "+r.Operation+" "+r.Name)
			if r.Prefixed {
				t.Errorf("%+v", r)
			}
		}
	}
	if want := []string{"User:team-events Read events.acme.github"}; !slices.Equal(got, want) {
		t.Errorf("the other team may %q, want %q", got, want)
	}
}

// Markdown returns the table for people.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| role | may | with | for |\n|---|---|---|---|\n")
	for _, r := range table {
		name := strings.ReplaceAll(r.name, "{team}", "TEAM")
		if r.prefixed {
			name += "\\*"
		}
		b.WriteString("| " + string(r.role) + " | " + strings.Join(r.operations, ", ") + " | " + string(r.kind) + " " + name + " | " + r.why + " |\n")
	}
	b.WriteString("| stream | Write | topic of each destination of type kafka | what it is told to write |\n")
	b.WriteString("| consumer | Read | topic of each source that another team shares with TEAM | its events |\n")
	return b.String()
}
