package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/stream/ledger"
)

// TestProblems edits the design's file by one replacement and names what must be said, with its line.
func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, old, new, want string }{
		{"unknown key", "preset: github", "presett: github", `forebay.yaml:12: teams.acme.sources.github.presett: unknown key; did you mean preset?`},
		{"missing key", "preset: github", "", `teams.acme.sources.github: preset is missing`},
		{"unknown key without a near name", "  operator:", "  zzzzzzzzzzz:", "known are intake, operator"},
		{"duplicate key", "        preset: github", "        preset: github\n        preset: slack", "forebay.yaml:13: teams.acme.sources.github.preset: duplicate key; the first one is on line 12"},
		{"unset variable", "${env:GITHUB_SECRET}", "${env:NOPE}", "environment variable NOPE is not set"},
		{"empty variable", "${env:GITHUB_SECRET}", "${env:EMPTY}", "environment variable EMPTY is empty"},
		{"absent file", "/run/secrets/github_old", "/nope", "open /nope: file does not exist"},
		{"a line break behind a secret", "${env:GITHUB_SECRET}", "${env:ECHOED}", "sources.github.secrets[0]: the value of ${env:ECHOED} ends in a line break, which would be part of the secret"},
		{"a line break in a secret", "${env:GITHUB_SECRET}", `one\ntwo`, "sources.github.secrets[0]: has more than one line: a secret is one line"},
		{"private IPv6", "https://agents.example.com/run", "https://[fd00::1]/run", `fd00::1 is in none of allow_networks: if it is meant, write allow_networks: ["fd00::1/128"]`},
		{"unknown reference", "${env:GITHUB_SECRET}", "${vault:x}", "use ${env:NAME} or ${file:PATH}"},
		{"open reference", "${env:GITHUB_SECRET}", "${env:GITHUB_SECRET", "not closed"},
		{"unquoted reference in a list", `["${env:ORDERS_SECRET}"]`, `[${env:ORDERS_SECRET}]`, `needs quotes: ["${env:NAME}"]`},
		{"unknown preset", "preset: github", "preset: githup", "did you mean github?"},
		{"later sink", "type: http", "type: email", "email is not built yet in this version; today: "},
		{"inert backfill", "then: skip", "then: backfill", ""}, // its source has no sequences
		{"stale word", "order: version", "stale: {snapshot: keep}", `stale.snapshot: "keep" is not one of drop, deliver_marked, hold`},
		{"longest wait", "then: skip", "then: skip, max_wait: 20s", "gap.max_wait: 20s is less than 30s, wait"},
		{"longest wait and an answer", "then: skip", "then: backfill, max_wait: 80s", "gap.max_wait: 1m20s is less than 1m30s, wait and within together"},
		{"no events", "then: skip", "then: skip, max_events: {entity: 0}", "gap.max_events.entity: must be at least 1"},
		{"bytes", "then: skip", "then: skip, max_bytes: {subscription: 3GB}", "gap.max_bytes.subscription: "},
		{"retention of nothing", "order: version", "retention: {dead: 0}", "retention.dead: 0s is not between 1m and 3650d"},
		{"start asks nobody", "start: any", "start: backfill", "needs a place to ask: source github has no backfill"},
		{"backlog word", "order: version", "backlog: newest", `backlog: "newest" is not one of all, latest`},
		{"backlog without versions", "order: version", "order: arrival\n        backlog: latest", "latest needs order: version"},
		{"match that is none", "order: version", "match: 'body.x =='", "teams.acme.subscriptions.triage.match: is not an expression: at character 10: Syntax error"},
		{"match without a word", "order: version", "match: ''", "teams.acme.subscriptions.triage.match: is empty"},
		{"match that gives a text", "order: version", "match: 'event.type'", "teams.acme.subscriptions.triage.match: is an expression of type string, and must give one of bool"},
		{"match of what there is not", "order: version", "match: 'event.kind == \"x\"'", "teams.acme.subscriptions.triage.match: is not an expression: at character 6: undeclared reference to 'event.kind'"},
		{"match of an action", "order: version", "match: 'action.name == \"run\"'", "teams.acme.subscriptions.triage.match: reads action, and match is asked before there are actions"},
		{"when that gives a number", "on_dead: park", "when: '1'", "teams.acme.subscriptions.triage.actions[0].when: is an expression of type int"},
		{"start first without sequence", "start: any", "start: first", "forebay.yaml:38: teams.acme.subscriptions.triage.start: first needs sources whose versions are of kind sequence"},
		{"unknown source", "sources: [github]", "sources: [github, gitub]", `sources[1]: the team has no source "gitub"; did you mean github?`},
		{"unknown destination", "to: coder", "to: codr", `the team has no destination "codr"; did you mean coder?`},
		{"deadline too short", "        preset: github", "        preset: github\n        deadline: 500ms", "sources.github.deadline: 500ms is not between 1s and 50s"},
		{"source twice", "sources: [github]", "sources: [github, github]", "source github is listed twice"},
		{"action twice", "{name: run, to: coder, on_dead: park}", "{name: run, to: coder}, {name: run, to: coder}", "action run is listed twice"},
		{"cancels what ends at once", "on_dead: park", "on_newer: cancel", "teams.acme.subscriptions.triage.actions[0].on_newer: cancel needs long: of destination coder"},
		{"on_newer of another word", "on_dead: park", "on_newer: stop", "teams.acme.subscriptions.triage.actions[0].on_newer:"},
		{"no actions", "[{name: run, to: coder, on_dead: park}]", "[]", "actions: is empty"},
		{"more actions than the ledger takes", "[{name: run, to: coder, on_dead: park}]", manyActions(ledger.MaxActions + 1), "forebay.yaml:40: teams.acme.subscriptions.triage.actions: 101 actions are more than 100: the ledger takes no more"},
		{"as many actions as the ledger takes", "[{name: run, to: coder, on_dead: park}]", manyActions(ledger.MaxActions), ""},
		{"bad name", "      coder:", "      Coder_1:", `name "Coder_1" must match [a-z0-9-]{1,40}`},
		{"bad begin", "begin: now", "begin: yesterday", `"yesterday" is not now, all or a time`},
		{"begin of years to come", "begin: now", "begin: \"2099-01-01T00:00:00Z\"", "forebay.yaml:36: teams.acme.subscriptions.triage.begin: 2099-01-01T00:00:00Z is in the future, by "},
		{"begin tomorrow", "begin: now", "begin: " + from(24*time.Hour), "the subscription would begin at once all the same"},
		{"begin by a clock that is ahead", "begin: now", "begin: " + from(4*time.Minute), ""},
		{"begin that is past", "begin: now", "begin: " + from(-time.Second), ""},
		{"window too short", "begin: now", "begin: now\n        dedupe: {window: 7d}", "7d is less than 15d"},
		{"negative duration", "timeout: 10s", "timeout: -10s", "is negative"},
		{"signed URL that nobody knows", `signed: "{body}"`, `signed: "{url}{body}"`, "teams.acme.sources.orders: public_url is missing: the signature covers the URL"},
		{"signed URL", `signed: "{body}"}`, `signed: "{url}{body}"}
        public_url: "https://hooks.example.com/v1/in/acme/orders"`, ""},
		{"signed URL below the listener's", "topics:", "intake: {public_url: https://hooks.example.com}\ntopics:", ""},
		{"signed URL with a query", `signed: "{body}"}`, `signed: "{url}{body}"}
        public_url: "https://hooks.example.com/v1/in/acme/orders?a=b"`, "sources.orders.public_url: is not a URL such as"},
		{"bad duration", "timeout: 10s", "timeout: 10 seconds", `"10 seconds" is not a duration`},
		{"timeout bounds", "timeout: 10s", "timeout: 3h", "3h is not between 100ms and 10m"},
		{"retry min over max", "min: 1s, max: 1h", "min: 2h, max: 1h", "2h is more than max 1h"},
		{"retry attempts", "attempts: 7", "attempts: 0", "must be at least 1"},
		{"url template", "https://agents.example.com/run", "https://agents.example.com/{{event.id}}", "coder.url: has a template, and only params have those: it would be sent as it stands"},
		{"header template", "timeout: 10s", "timeout: 10s\n        headers: {X-Id: \"{{event.id}}\"}", "coder.headers.X-Id: has a template"},
		{"url scheme", "https://agents.example.com/run", "ftp://x/y", "not an absolute http or https URL"},
		{"url credentials", "https://agents", "https://u:p@agents", "carries credentials"},
		{"url private", "https://agents.example.com/run", "https://10.1.2.3/run", "10.1.2.3 is in none of allow_networks"},
		{"plain http", "allow_networks: [127.0.0.0/8]", "allow_networks: []", ""},
		{"bad network", "[127.0.0.0/8]", "[127.0.0.1/8]", "write 127.0.0.0/8"},
		{"operator not loopback", "operator: 127.0.0.1:9090", "operator: 0.0.0.0:9090", "0.0.0.0:9090 is not loopback"},
		{"bad listen", "intake: 127.0.0.1:8080", "intake: 8080", "is not host:port"},
		{"bad broker", `"127.0.0.1:9092"`, `"127.0.0.1"`, "is not host:port"},
		{"hasty transactions", `postgres: {`, `postgres: {transaction_timeout: 1s, `, "postgres.transaction_timeout: 1s is not between 2s and 1m"},
		{"bad instance id", "kafka:    {", "kafka:    {instance_id: \"a b\", ", `kafka.instance_id: "a b" is not a name`},
		{"topic of another team", "        preset: github", "        preset: github\n        topic: events.other.github", `"events.other.github" is not a topic's name that begins with events.acme.`},
		{"topic with a blank", "        preset: github", "        preset: github\n        topic: events.acme.a b", `is not a topic's name`},
		{"topic of another source", "        preset: github", "        preset: github\n        topic: events.acme.orders", `teams.acme.sources.orders.topic: events.acme.orders is the topic of teams.acme.sources.github, too`},
		{"topic of its own", "        preset: github", "        preset: github\n        topic: events.acme.github.24", ""},
		{"min insync over replication", "replication: 1", "replication: 2, min_insync: 3", "3 is more than replication 2"},
		{"min insync 1 of 3", "replication: 1", "replication: 3, min_insync: 1", "must be at least 2 with replication 3"},
		{"wrong version", "version: 1\n", "version: 2\n", `"2" is not one of 1`},
		{"number", "partitions: 12", "partitions: many", `"many" is not a whole number`},
		{"anchors", "begin: now", "begin: &a now", "anchors and aliases are not supported"},
		{"two documents", "version: 1\n", "version: 1\n---\n", "more than one YAML document"},
		{"generic without an id", "          id: header:X-Event-Id\n", "", "id is missing: preset generic needs"},
		{"no secrets", `secrets: ["${env:ORDERS_SECRET}"]`, `secrets: []`, "a source without a secret would let everybody in"},
		{"empty secret", `secrets: ["${env:ORDERS_SECRET}"]`, `secrets: [""]`, "secrets[0]: is empty"},
		{"list for text", "preset: github", "preset: [github]", "expected text, found a list"},
		{"text for list", "sources: [github]", "sources: github", `expected a list ([a, b]), found "github"`},
		{"unknown scheme", "algorithm: sha256, ", "scheme: tokken, ", `"tokken" is not one of a2a, agent_key, ed25519, github, hmac, hubspot, jwt, mailgun, paddle, rfc9421, sendgrid, sns, standard_webhooks, stripe, token, twilio, websub; did you mean token?`},
		{"neither true nor false", "        preset: github", "        preset: github\n        verify: {allow_sha1: yes}", `allow_sha1: "yes" is neither true nor false`},
		{"header prefix", "        preset: github", "        preset: github\n        verify: {header_prefix: hook-}", `"hook-" is not one of webhook-, svix-`},
		{"expire begins out of turn", "order: version", "start: first\n        expire: 30d", "needs start: any; with start: first"},
		{"expire too soon", "order: version", "expire: 1h", "expire"},
		{"expire", "order: version", "expire: 90d", ""},
		{"null value", "begin: now", "begin:", "begin: has no value"},
	}
	env := map[string]string{"EMPTY": "", "ECHOED": "gh-secret\n"}
	maps.Copy(env, designEnv)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(design, tt.old) {
				t.Fatalf("the design's file has no %q", tt.old)
			}
			_, problems := load(strings.Replace(design, tt.old, tt.new, 1), env, designFiles, Options{})
			if tt.want == "" {
				if len(problems) > 0 {
					t.Errorf("unexpected problems:\n%v", problems)
				}
				return
			}
			if !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("no %q in\n%v", tt.want, problems)
			}
		})
	}
}

// from returns the time that is ahead of now by d.
func from(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// manyActions returns n actions, as the file has them.
func manyActions(n int) string {
	actions := make([]string, n)
	for i := range actions {
		actions[i] = "{name: a" + itoa(i) + ", to: coder}"
	}
	return "[" + strings.Join(actions, ", ") + "]"
}

func TestEveryProblemIsReported(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("preset: github", "preset: githb", "timeout: 10s", "timeout: x", "to: coder", "to: c", "partitions: 12", "partitions: 0",
		"preset: generic", "preset: generic\n        json_schema: {own: \"${file:/schema}\"}").Replace(design)
	files := maps.Clone(designFiles)
	files["/schema"] = `{"type": "objekt"}`
	_, problems := load(text, designEnv, files, Options{})
	if len(problems) != 5 || !strings.Contains(problems.Error(), "teams.acme.sources.orders.json_schema.own: ") {
		t.Errorf("%d problems, want 5:\n%v", len(problems), problems)
	}
	for _, p := range problems {
		if p.Line == 0 || p.File != "forebay.yaml" {
			t.Errorf("no place on %v", p)
		}
	}
}

func TestReplicationMustBeWrittenOffLoopback(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(`["127.0.0.1:9092"]`, `["kafka-1:9092"]`, "replication: 1, ", "").Replace(design)
	_, problems := load(text, designEnv, designFiles, Options{})
	if !strings.Contains(problems.Error(), "topics.replication: must be written out") {
		t.Errorf("problems:\n%v", problems)
	}
	text = strings.Replace(text, "partitions: 12, ", "replication: 3, ", 1)
	c, problems := load(text, designEnv, designFiles, Options{})
	if len(problems) > 0 || c.Topics.MinInsync != 2 {
		t.Errorf("replication 3 gives min_insync %v, want 2; problems:\n%v", c, problems)
	}
}

func TestValuesOfReferencesNeverPrint(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("partitions: 12", `partitions: "${env:GITHUB_SECRET}"`, "timeout: 10s", `timeout: "${env:GITHUB_SECRET}"`,
		"preset: github", `preset: "${env:GITHUB_SECRET}"`, `{url: "${env:FOREBAY_POSTGRES_URL}"}`, `{url: "gh-secret:// %zz"}`).Replace(design)
	_, problems := load(text, designEnv, designFiles, Options{})
	if len(problems) < 4 || strings.Contains(problems.Error(), "gh-secret") {
		t.Errorf("a resolved value is printed, or not refused:\n%v", problems)
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	env := osEnvironment()
	env.lookup = func(n string) (string, bool) { return "<" + n + ">", true }
	for in, want := range map[string]string{
		"$${env:A}": "${env:A}", "a${env:A}b${env:B}": "a<A>b<B>", "$": "$", "$$": "$$", "$$$${": "$$${", "": "",
	} {
		if got, _, err := env.expand(in); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestReferencedFileIsBounded(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	err := os.WriteFile(large, nil, 0o600)
	if err == nil {
		err = os.Truncate(large, maxFile+1)
	}
	if err != nil {
		t.Fatal(err)
	}
	main := func(path string) ([]byte, error) { return readMain(path, false) }
	for name, read := range map[string]func(string) ([]byte, error){"a reference": readSmall, "the file": main} {
		if _, err := read(large); err == nil || !strings.Contains(err.Error(), "is larger than") {
			t.Errorf("%s: a large file: %v", name, err)
		}
	}
}

// TestLocalhost: it is one of two addresses, by TLS, too, and the line that the message has allows both.
func TestLocalhost(t *testing.T) {
	t.Parallel()
	const line = `: if it is meant, write allow_networks: [127.0.0.1/32, "::1/128"]`
	for _, tt := range []struct{ url, allow, want string }{
		{"http://localhost:8000/run", "", "lists the network that it goes to" + line},
		{"https://LOCALHOST/run", "", "localhost is in none of allow_networks" + line},
		{"http://localhost:8000/run", "[10.0.0.0/8]", "localhost is in none of allow_networks" + line},
		{"http://localhost:8000/run", "[127.0.0.1/32]", ""},
		{"https://localhost/run", `["::1/128"]`, ""},
		{"http://localhost:8000/run", strings.TrimPrefix(line, ": if it is meant, write allow_networks: "), ""},
		{"https://localhost.example/run", "", ""},
	} {
		allow := ""
		if tt.allow != "" {
			allow = ", allow_networks: " + tt.allow
		}
		_, problems := load(strings.Replace(chatting, "plain: {type: log}", fmt.Sprintf("plain: {type: log}\n      agent: {type: http, url: %q%s}", tt.url, allow), 1), chatEnv, nil, Options{})
		if got := problems.Error(); len(problems) > 1 || (len(problems) == 0) != (tt.want == "") || !strings.HasSuffix(strings.TrimSpace(got), tt.want) {
			t.Errorf("%s with %q: %s, want %q", tt.url, tt.allow, got, tt.want)
		}
	}
}

// A reference to what is no plain file is refused at once: nothing waits for the writer of a pipe, and nothing reads an endless device.
func TestReferencedFileIsPlain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", dir} {
		if text, _, err := osEnvironment().expand("${file:" + path + "}"); err == nil || !strings.Contains(err.Error(), path+" is not a plain file") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"7d": "7d", "168h": "7d", "1d12h": "1d12h", "90s": "1m30s", "24h": "1d", "1500ms": "1.5s", "0s": "0s", "10m": "10m", "1h": "1h"} {
		if d, err := ParseDuration(in); err != nil || d.String() != want {
			t.Errorf("%s = %s, %v; want %s", in, d, err, want)
		}
	}
	for _, in := range []string{"", "d", "-1d", "1.5d", "1d-2h", "99999999d", "1w", "7", "1d7", "2562047h48m"} {
		if d, err := ParseDuration(in); err == nil {
			t.Errorf("%q reads as %s, want an error", in, d)
		}
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for text, notes := range map[string]int{"replication: 1": 0, "replication: 2": 1, "replication: 2, min_insync: 2": 0, "replication: 3": 0} {
		c, problems := load(strings.Replace(design, "replication: 1", text, 1), designEnv, designFiles, Options{})
		n := 0
		if c != nil {
			for _, note := range c.Notes() {
				if note.Path == "topics.replication" {
					n++
				}
			}
		}
		if len(problems) > 0 || n != notes {
			t.Errorf("%s: %v, %d notes", text, problems, n)
		}
	}
	c, problems := load(design, designEnv, designFiles, Options{})
	if len(problems) > 0 || len(c.Notes()) != 4+3 || // the design's secrets are short
		!strings.Contains(c.Notes()[0].String(), ":12: teams.acme.sources.github.preset: GitHub is not known to deliver again") ||
		!strings.Contains(c.Notes()[1].String(), ":19: teams.acme.sources.orders.event.id: is read from header X-Event-Id") ||
		!strings.Contains(c.Notes()[2].Message, "1d is never used: the last of 7 attempts begins 1h15m after") || !strings.Contains(c.Notes()[3].Message, "has no effect") {
		t.Errorf("notes = %v, want also one on what GitHub does not repeat, one on the unsigned id, one on the retries and one on the inert gap", c.Notes())
	}
}

// TestRepeatsAreNoted: who asks for events of which two with the same body are one is told, and what to do.
func TestRepeatsAreNoted(t *testing.T) {
	t.Parallel()
	for types, want := range map[string]string{
		`["com.github.issues.*", "com.github.repository_dispatch.*"]`: "teams.acme.subscriptions.triage.types[1]: two repository_dispatch events with the same body are one event, and act once: GitHub signs nothing else that could tell them apart from a delivery that somebody repeats; put an id that differs into client_payload",
		`["com.github.workflow_dispatch"]`:                            "teams.acme.subscriptions.triage.types[0]: two workflow_dispatch",
		`["com.github.issues.*", "com.github.star.*"]`:                "", // nobody could do anything about it
		`["com.github.*"]`: "",
	} {
		c, problems := load(strings.Replace(design, `["com.github.issues.*", "com.github.pull_request.*"]`, types, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := ""
		for _, n := range c.Notes() {
			if strings.Contains(n.Path, "types") {
				got += n.String()
			}
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: noted %q, want %q", types, got, want)
		}
	}
	for preset, typ := range map[string]string{"bitbucket-cloud": "com.bitbucket.repo.push", "shopify": "com.shopify.inventory_levels.disconnect"} {
		text := strings.Replace(design, `["com.github.issues.*", "com.github.pull_request.*"]`, `["`+typ+`"]`, 1)
		c, problems := load(strings.Replace(text, "preset: github", "preset: "+preset, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if !slices.ContainsFunc(c.Notes(), func(n Problem) bool {
			return strings.Contains(n.String(), "types[0]: two ") && strings.Contains(n.Message, "a source of its own")
		}) {
			t.Errorf("%s: noted %v", typ, c.Notes())
		}
	}
}

// TestTypesAreSuggested: what a note says a glob was meant to be is a type that events have.
func TestTypesAreSuggested(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ preset, types, want string }{
		{"shopify", "com.shopify.order", "did you mean com.shopify.orders.*?"},
		{"shopify", "com.shopify.orders", "did you mean com.shopify.orders.*?"},
		{"shopify", "com.shopify.order.paid", "did you mean com.shopify.orders.paid?"},
		{"shopify", "com.shopify.orders.*", ""},
		{"shopify", "com.shopify.customer.tags_added", ""},
		{"github", "com.github.isue", "did you mean com.github.issue"},
	} {
		text := strings.Replace(design, `["com.github.issues.*", "com.github.pull_request.*"]`, `["`+tt.types+`"]`, 1)
		c, problems := load(strings.Replace(text, "preset: github", "preset: "+tt.preset, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		var got []string
		for _, n := range c.Notes() {
			if strings.Contains(n.Message, "did you mean") {
				got = append(got, n.Message)
			}
		}
		if noted := strings.Join(got, "\n"); (noted == "") != (tt.want == "") || !strings.Contains(noted, tt.want) {
			t.Errorf("%s: noted %q, want %q", tt.types, got, tt.want)
		}
	}
}

// TestDeclaration holds shape.go against the structs that are decoded into: every key once in both, every default and doc usable.
func TestDeclaration(t *testing.T) {
	t.Parallel()
	for typ, s := range shapes {
		tags := map[string]bool{}
		for field := range typ.Fields() {
			if tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); tag != "" {
				tags[tag] = true
			}
		}
		for _, f := range s.fields {
			if !tags[f.name] {
				t.Errorf("%s declares %s, which the struct does not have, or twice", typ, f.name)
			}
			delete(tags, f.name)
			if f.doc == "" || !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s.%s: doc %q is not a sentence", typ, f.name, f.doc)
			}
		}
		for tag := range tags {
			t.Errorf("%s.%s is not declared", typ, tag)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.golden.json", schema)
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return compiled.Validate(v)
	}
	for name, text := range map[string]string{"design": design, "example": string(Example()), "shared": twoTeams} {
		if err := valid(text); err != nil {
			t.Errorf("the schema refuses the %s's file: %v", name, err)
		}
	}
	for _, bad := range []string{"version: 2", "version: 1\nnope: 1", strings.Replace(design, "then: skip", "then: guess", 1), strings.Replace(design, "10s", "soon", 1),
		edited(t, "    teams: [alpha, beta]\n", ""), edited(t, "{mail: {type: log}}", "{mail: {type: log, teams: []}}")} {
		if valid(bad) == nil {
			t.Errorf("the schema accepts\n%s", bad)
		}
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	before, _ := load(design, designEnv, designFiles, Options{})
	change := func(old, new string) []string {
		t.Helper()
		after, problems := load(strings.Replace(design, old, new, 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return waitingPaths(before, after)
	}
	if got := change("${env:GITHUB_SECRET}", "rotated"); len(got) != 0 {
		t.Errorf("a new secret of a source needs a restart of %v", got)
	}
	if got := change("        sources: [github]", "        sources: [github]\n        contact: \"#triage\""); len(got) != 0 {
		t.Errorf("another contact of a subscription needs a restart of %v", got)
	}
	for want, edit := range map[string][2]string{
		"listen.intake":    {"8080", "8081"},
		"":                 {"timeout: 10s", "timeout: 11s"},
		"  ":               {"preset: github\n", "preset: github\n        on_broker_outage: refuse\n"},
		"intake.spool.dir": {"topics: {", "intake: {spool: {dir: spool}}\non_broker_outage: spool\ntopics: {"},
		" ":                {"wait: 30s", "wait: 31s"},
		"teams.acme.sources.github.topics.retention teams.acme.sources.orders.topics.retention": {"retention: 7d", "retention: 6d"},
	} {
		if got := strings.Join(change(edit[0], edit[1]), " "); got != strings.TrimSpace(want) {
			t.Errorf("%v needs a restart of %q, want %q", edit, got, want)
		}
	}
}

// waitingPaths returns what of a configuration waits for the next start of a process that runs another one, with all roles.
func waitingPaths(running, read *Config) (paths []string) {
	_, waits := running.Take(read, Taking{})
	for _, w := range waits {
		paths = append(paths, w.Path)
	}
	return paths
}

func FuzzLoad(f *testing.F) {
	f.Add(design)
	f.Add(string(Example()))
	for _, s := range []string{"", "version: 1", "- a", "a: [", "version: 1\nteams: {a: {sources: {b: }}}", "&a [*a]", "? {a: b}\n: c", "version: !!binary aGk=", "<<: {version: 1}", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := load(text, designEnv, designFiles, Options{})
		if len(problems) > 0 {
			for _, p := range problems {
				if strings.Contains(p.String(), "pg-password") {
					t.Fatalf("a problem prints a secret: %v", p)
				}
			}
			return
		}
		if c == nil {
			t.Fatal("no problem and no configuration")
		}
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(shown, &v); err != nil || reflect.TypeOf(v).Kind() != reflect.Map {
			t.Fatalf("config show is not YAML: %v\n%s", err, shown)
		}
	})
}
