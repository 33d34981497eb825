package asyncapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas/jsonschema"
	"github.com/forebay-io/forebay/schemas/short"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const file = `
version: 1
kafka: {brokers: ["127.0.0.1:9092", "${env:OTHER_BROKER}"]}
postgres: {url: "${env:POSTGRES_URL}"}
topics: {partitions: 24, replication: 3}
teams:
  acme:
    sources:
      github: {preset: github, secrets: ["${env:GITHUB_SECRET}"], share: [pay]}
      orders:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: /type, entity: [/order]}
        json_schema: {own: '{"$id": "https://example.com/order", "required": ["order"], "properties": {"line": {"$ref": "#/$defs/line"}}, "$defs": {"line": {"type": "object"}}}'}
      plain:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: /type, entity: [/order]}
        json_schema: {check: warn, own: '{"$id": "https://example.com/plain", "required": ["order"]}'}
      anchored:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {signature_header: X-Signature}
        event: {id: /id, type: /type, entity: [/order]}
        json_schema: {check: quarantine, own: '{"$id": "https://example.com/anchored", "$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}'}
    destinations: {out: {type: log}}
    subscriptions:
      triage: {sources: [github, orders], actions: [{name: run, to: out}]}
  pay:
    sources:
      stripe: {preset: stripe, secrets: ["${env:STRIPE_SECRET}"]}
      slack: {preset: slack, secrets: ["${env:SLACK_SECRET}"], topic: events.pay.chat}
      any: {preset: standard-webhooks, secrets: ["${env:ANY_SECRET}"]}
    destinations: {out: {type: log}}
    subscriptions:
      fix: {sources: [acme/github], actions: [{name: run, to: out}]}
`

// written is the document of the file, none of whose variables is set.
func written(t *testing.T) (text []byte, doc map[string]any) {
	t.Helper()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(file), Roles: []config.Role{config.RoleCatalog}, Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	made, err := Document(c, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.MarshalIndent(made, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return text, doc
}

// at returns what is at the keys.
func at(doc any, keys ...string) any {
	for _, key := range keys {
		object, _ := doc.(map[string]any)
		doc = object[key]
	}
	return doc
}

func names(v any) (all []string) {
	object, _ := v.(map[string]any)
	for name := range object {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Every topic is a channel with what it carries: the catalogue's messages of its preset, the source's own, or anything.
func TestDocument(t *testing.T) {
	t.Parallel()
	_, doc := written(t)
	if got, want := strings.Join(names(at(doc, "channels")), " "), "dead.acme.triage dead.pay.fix events.acme.anchored events.acme.github events.acme.orders events.acme.plain events.pay.any events.pay.chat events.pay.stripe "+
		"quarantine.acme.anchored quarantine.acme.github quarantine.acme.orders quarantine.acme.plain quarantine.pay.any quarantine.pay.slack quarantine.pay.stripe"; got != want {
		t.Errorf("channels:\n%s\nwant\n%s", got, want)
	}
	for topic, want := range map[string]struct {
		has, lacks string
		count      int
	}{
		"events.acme.github":     {"com.github.pull_request", "com.stripe", 33},
		"events.pay.stripe":      {"com.stripe.invoice", "com.github.push", 14},
		"events.pay.chat":        {"com.slack.message", "com.stripe", 9},
		"events.acme.orders":     {"acme.orders", "com.github.push", 2}, // and what does not fit, or was too much to check
		"events.pay.any":         {"event", "com.github.push", 1},
		"quarantine.acme.github": {"forebay.quarantine", "event", 1},
		"dead.pay.fix":           {"forebay.deadletter", "event", 1},
	} {
		messages := names(at(doc, "channels", topic, "messages"))
		if !slices.Contains(messages, want.has) || slices.Contains(messages, want.lacks) || len(messages) != want.count {
			t.Errorf("%s carries %v", topic, messages)
		}
	}
	if n := at(doc, "channels", "events.acme.github", "bindings", "kafka", "partitions"); n != 24.0 {
		t.Errorf("%v partitions", n)
	}
	if hosts := names(at(doc, "servers")); len(hosts) != 1 || at(doc, "servers", "broker1", "host") != "127.0.0.1:9092" {
		t.Errorf("servers %v: a reference that is not followed is none", hosts)
	}
	if got := at(doc, "operations", "pay.fix.reads.acme.github", "channel", "$ref"); got != "#/channels/events.acme.github" {
		t.Errorf("pay.fix reads %v", got)
	}
	for _, topic := range []string{"events.acme.orders", "events.acme.plain", "events.acme.anchored"} { // off, warn, quarantine
		if got := at(doc, "channels", topic, "messages", "event", "$ref"); got != "#/components/messages/event" {
			t.Errorf("%s has no other events than those of its schema: %v", topic, got)
		}
	}
	// What only 2020-12 has keeps its dialect; what draft 7 has, too, is AsyncAPI's own, without what would be where references begin.
	if got := at(doc, "components", "messages", "acme.orders", "payload", "schemaFormat"); got != "application/schema+json;version=draft-2020-12" {
		t.Errorf("with $defs: %v", got)
	}
	if got := at(doc, "components", "messages", "acme.orders", "payload", "schema", "properties", "line", "$ref"); got != "#/components/messages/acme.orders/payload/schema/$defs/line" {
		t.Errorf("a reference leads to %v", got)
	}
	plain, _ := at(doc, "components", "messages", "acme.plain", "payload").(map[string]any)
	if plain["x-schema-id"] != "https://example.com/plain" || plain["$id"] != nil || plain["required"] == nil {
		t.Errorf("without: %v", plain)
	}
	for _, s := range jsonschema.All() {
		if payload(s, "")["schemaFormat"] != nil {
			t.Errorf("%s has what tools for AsyncAPI do not read", s.Name())
		}
	}
}

// What a consumer of its own has to know of is there: each header of the page for those.
func TestHeadersOfConsumers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "stream", "subscriber", "CONTRACT.md"))
	if err != nil {
		t.Fatal(err)
	}
	headers := names(eventHeaders()["properties"])
	for _, name := range regexp.MustCompile(`ce_[a-z]+`).FindAllString(string(page), -1) {
		if !slices.Contains(headers, name) {
			t.Errorf("%s is of CONTRACT.md alone", name)
		}
	}
}

// The official parser has nothing against it; and has against one that is broken.
func TestOfficialParser(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "Node.js")
	_, packages := os.Stat(filepath.Join("testdata", "parser", "node_modules"))
	_, node := exec.LookPath("node")
	if err := errors.Join(packages, node); err != nil {
		if os.Getenv("FOREBAY_ALLOW_SKIP_NODE") == "1" && os.Getenv("CI") == "" { // by make test, never by .ci/run
			t.Skip("NOT TESTED WITH THE PARSER OF ASYNCAPI: Node.js or its packages are not here")
		}
		t.Fatalf("the parser is not installed: run make deps, which needs Node.js and npm (Debian: nodejs, npm): %v", err)
	}
	text, doc := written(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.json": string(text),
		"bad.json":  strings.Replace(string(text), `"$ref": "#/channels/events.acme.github"`, `"$ref": "#/channels/events.acme.nothing"`, 1),
		"odd.json":  strings.Replace(string(text), `"action": "receive"`, `"action": "takes"`, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "node", "check.mjs", filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json"), filepath.Join(dir, "odd.json"))
	cmd.Dir, cmd.Stderr = filepath.Join("testdata", "parser"), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	said := strings.ReplaceAll(string(out), dir+"/", "")
	good, _, _ := strings.Cut(said, "bad.json")
	want := fmt.Sprintf("good.json: 3.0.0 channels=16 operations=%d messages=%d\n", len(names(doc["operations"])), len(names(at(doc, "components", "messages"))))
	if good != want {
		t.Errorf("the parser says\n%s\nwant\n%s", good, want)
	}
	for _, want := range []string{"bad.json: invalid-ref ", "odd.json: asyncapi"} {
		if !strings.Contains(said, want) {
			t.Errorf("the parser does not say %s: %s", want, said)
		}
	}
	if strings.Count(said, "channels=") != 1 {
		t.Errorf("the parser takes what is broken: %s", said)
	}
}
