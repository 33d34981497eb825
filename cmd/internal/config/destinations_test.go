package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	postgressink "github.com/forebay-io/forebay/sinks/postgres"
)

// withDestination is the design's file with another destination in the place of its own, and a line at its top.
func withDestination(t *testing.T, top, destination string) string {
	t.Helper()
	from := strings.Index(design, "        type: http\n")
	to := strings.Index(design, "    subscriptions:\n")
	if from < 0 || to < from {
		t.Fatal("the design's file is another one now")
	}
	var block strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(destination), "\n") {
		block.WriteString("        " + line + "\n")
	}
	line := strings.TrimPrefix(strings.TrimPrefix(top, "STATEMENTS"), "PUBLISH")
	text := strings.Replace(design[:from]+block.String()+design[to:], "teams:\n", line+"\nteams:\n", 1)
	if top == "PUBLISH" { // kafka, too
		text = strings.Replace(text, "kafka:    {", `kafka:    {publish: {acme: [shared.orders., events.], other: [audit.]}, `, 1)
	}
	if top == "STATEMENTS" { // postgres is a key that the file has already
		text = strings.Replace(text, "postgres: {", "postgres: {statements: true, ", 1)
	}
	return text
}

// TestDestinations holds destinations of several types against what must be said of them; nothing where they are well.
func TestDestinations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, top, destination, want string }{
		{"exec", "exec: {enabled: true}", "type: exec\ncommand: [/usr/bin/agent, --once]\nenv: {HOME: /tmp, TOKEN: \"${env:CODER_SECRET}\"}\nidempotent: true", ""},
		{"exec is off", "", "type: exec\ncommand: [agent]", "forebay.yaml:27: teams.acme.destinations.coder.type: exec is off: it runs programs on this machine. Where that is wanted, write exec: {enabled: true}"},
		{"exec without a command", "exec: {enabled: true}", "type: exec", "coder: command is missing: The program and its arguments"},
		{"exec of nothing", "exec: {enabled: true}", "type: exec\ncommand: []", "coder.command: is empty"},
		{"exec of a line", "exec: {enabled: true}", "type: exec\ncommand: agent --once", `command: expected a list ([a, b]), found "agent --once"`},
		{"exec with a url", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nurl: https://x.example", "coder.url: has no meaning for type exec"},
		{"exec with our variable", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nenv: {FOREBAY_ACTION_ID: x}", "coder.env.FOREBAY_ACTION_ID: is set by forebay"},
		{"exec with a bad variable", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nenv: {A-B: x}", `"A-B" is not the name of a variable`},
		{"kafka", "", "type: kafka\ntopic: acme.projection\nparams: {key: \"{{body.customer}}\"}\nidempotent: false", ""},
		{"kafka without a topic", "", "type: kafka", "coder: topic is missing: The topic to write to"},
		{"kafka into a topic of events", "", "type: kafka\ntopic: events.acme.github", "events.acme.github is one of Forebay's own topics"},
		{"kafka into Kafka's own", "", "type: kafka\ntopic: __consumer_offsets", "one of Kafka's own topics"},
		{"kafka into another team's topic", "", "type: kafka\ntopic: billing.projection", "forebay.yaml:28: teams.acme.destinations.coder.topic: billing.projection is not a topic of the team's, whose names begin with acme.; where it is to write there, write kafka: {publish: {acme: [billing.projection]}}"},
		{"kafka into a topic that begins like a team", "", "type: kafka\ntopic: acme-billing.t", "is not a topic of the team's"},
		{"kafka into a topic that is allowed", "PUBLISH", "type: kafka\ntopic: shared.orders.all", ""},
		{"kafka into one that is allowed to others", "PUBLISH", "type: kafka\ntopic: audit.x", "is not a topic of the team's, whose names begin with acme. or shared.orders."},
		{"kafka into a topic of events, allowed", "PUBLISH", "type: kafka\ntopic: events.acme.github", "one of Forebay's own topics"},
		{"kafka with a key that does not compile", "", "type: kafka\ntopic: acme.t\nparams: {key: \"{{bodi.x}}\"}", "forebay.yaml:29: teams.acme.destinations.coder.params.key"},
		{"kafka with another parameter", "", "type: kafka\ntopic: acme.t\nparams: {partition: 1}", "params.partition: is no parameter here"},
		{"postgres", "", "type: postgres\ndatabase: \"${env:FOREBAY_POSTGRES_URL}\"\nstatement: INSERT INTO t VALUES ($1)\nkey_table: app.done\nkey_retention: 31d\nallow_networks: [10.0.0.0/8]\nparams: {values: [\"{{event.id}}\", 1, \"{{null}}\"]}", ""},
		{"postgres in the ledger's database", "STATEMENTS", "type: postgres\nstatement: INSERT INTO t VALUES ($1)\nparams: {values: [\"{{event.id}}\"]}", ""},
		{"postgres in the ledger's database, unasked", "", "type: postgres\nstatement: SELECT 1", "forebay.yaml:26: teams.acme.destinations.coder: database is missing. For a statement in the ledger's own database, write postgres: {statements: true}"},
		{"postgres in the ledger's database with keys", "STATEMENTS", "type: postgres\nstatement: SELECT 1\nkey_table: t", "coder.key_table: means nothing without database"},
		{"postgres with a template as statement", "STATEMENTS", "type: postgres\nstatement: \"SELECT '{{body.x}}'\"", "values of events are parameters"},
		{"postgres elsewhere", "", "type: postgres\ndatabase: mysql://x/y\nstatement: SELECT 1", "coder.database: is not a URL of the form postgres://"},
		{"postgres with the machine's certificate", "", "type: postgres\ndatabase: postgres://u:p@db.example/y?sslcert=/etc/ssl/pg.crt&sslkey=/etc/ssl/pg.key\nstatement: SELECT 1", "coder.database: has sslcert: a destination shows no certificate of the machine's"},
		{"postgres with a file as its CA", "", "type: postgres\ndatabase: postgres://u:p@db.example/y?sslrootcert=/dev/zero\nstatement: SELECT 1", "put the server's CA into the system's store, and write sslrootcert=system"},
		{"postgres with a bad table", "", "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1\nkey_table: A B", "coder.key_table"},
		{"postgres forgets before dead letters go", "", "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1\nkey_retention: 30d", "triage.actions[0].to: key_retention 30d of destination coder is too short: an action can be retried and replayed for 31d "},
		{"postgres forgets before retries end", "", "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1\nkey_retention: 31d\nretry: {within: 2d}", "is too short: an action can be retried and replayed for 32d "},
		{"mcp", "", "type: mcp\nuntrusted: ok\nurl: https://tools.example.com/mcp\nheaders: {Authorization: \"Bearer ${env:CODER_SECRET}\"}\ntool_errors: retry\nparams: {tool: triage, arguments: {n: \"{{body.n}}\", deep: [1, {a: b}]}}", ""},
		{"mcp that is told what an event says", "", "type: mcp\nurl: https://tools.example.com/mcp\nparams: {tool: triage, arguments: {prompt: \"Do {{body.n}}\"}}", "params.arguments.prompt: puts words of an event where they may be taken for instructions"},
		{"mcp without a tool", "", "type: mcp\nurl: https://tools.example.com/mcp", "params.tool is missing, here or at destination coder"},
		{"mcp with a bad tool", "", "type: mcp\nurl: https://tools.example.com/mcp\nparams: {tool: a b}", "params.tool"},
		{"mcp inside", "", "type: mcp\nurl: https://10.1.2.3/mcp\nparams: {tool: t}", "10.1.2.3 is in none of allow_networks"},
		{"http with another expectation", "", "type: http\nurl: https://x.example\nexpect: xml", `"xml" is not one of json`},
		{"mcp with other errors", "", "type: mcp\nurl: https://x.example\ntool_errors: ignore\nparams: {tool: t}", `"ignore" is not one of dead, retry`},
		{"http with headers", "", "type: http\nurl: https://x.example\nheaders: {X-Api-Key: \"${env:CODER_SECRET}\"}", ""},
		{"http with a bad header", "", "type: http\nurl: https://x.example\nheaders: {\"a b\": c}", `"a b" is not the name of a header`},
		{"http with every bound", "", "type: http\nurl: https://x.example\nconcurrency: 8\nrate: {limit: 10, per: 1m, burst: 2, on_limit: error}\nbreaker: {failures: 3, window: 10s, wait: 1s, max_wait: 1m, floor: 5}\nmax_hold: 5m\nrecovery: 1m\npause: {failures: 50, after: 1d}", ""},
		{"http with no bound", "", "type: http\nurl: https://x.example\nbreaker: {failures: 0}\nmax_hold: 0s\nrecovery: 0s\npause: {failures: 0, after: 0s}", ""},
		{"no concurrency", "", "type: log\nconcurrency: 0", "coder.concurrency: must be at least 1"},
		{"a rate without a limit", "", "type: log\nrate: {per: 1m}", "coder.rate: limit is missing"},
		{"a rate in no time", "", "type: log\nrate: {limit: 1, per: 0s}", "coder.rate.per: 0s is not between 1ms and 1d"},
		{"a rate that does something else", "", "type: log\nrate: {limit: 1, on_limit: wait}", `coder.rate.on_limit: "wait" is not one of queue, drop, error`},
		{"drop and park", "", "type: log\nrate: {limit: 1, on_limit: drop}", "triage.actions[0].on_dead: must be continue: destination coder drops"},
		{"a breaker that waits less", "", "type: log\nbreaker: {wait: 10m}", "coder.breaker.wait: 10m is more than max_wait 30s"},
		{"a breaker that waits for more failures than count", "", "type: log\nbreaker: {failures: 201}", "coder.breaker.failures: 201 is more than 200"},
		{"a breaker without a window", "", "type: log\nbreaker: {window: 0s}", "coder.breaker.window: 0s is not between 1s and 1d"},
		{"a long hold", "", "type: log\nmax_hold: 7d", "coder.max_hold: 7d is not between 0s and 1d"},
		{"http with an empty url", "", "type: http\nurl: \"\"", "forebay.yaml:28: teams.acme.destinations.coder.url: is empty"},
		{"http with a slip", "", "type: http\nurll: https://x.example", "coder.urll: unknown key; did you mean url?"},
		{"a type behind its keys", "", "url: https://x.example\ntype: http", ""},
		{"a key of another type before the type", "", "command: [a]\nurl: https://x.example\ntype: http", "forebay.yaml:27: teams.acme.destinations.coder.command: has no meaning for type http"},
		{"a key of nobody's", "", "type: log\nzzzzzzzzzzzz: 1", "unknown key; known are type, timeout, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, problems := load(withDestination(t, tt.top, tt.destination), designEnv, designFiles, Options{})
			switch {
			case tt.want == "" && len(problems) > 0:
				t.Errorf("unexpected problems:\n%v", problems)
			case tt.want != "" && !strings.Contains(problems.Error(), tt.want):
				t.Errorf("no %q in\n%v", tt.want, problems)
			}
		})
	}
}

// The keys of a type are shown with their defaults, behind the type.
func TestKeysOfATypeAreShown(t *testing.T) {
	t.Parallel()
	text := withDestination(t, "", "params: {tool: t}\nurl: https://x.example\ntype: mcp\nheaders: {X-Key: \"${env:CODER_SECRET}\"}")
	c, problems := load(text, designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shown, err := c.YAML()
	want := "type: mcp\n        url: https://x.example\n        headers:\n          X-Key: ${env:CODER_SECRET}\n        tool_errors: dead\n        timeout: 10s\n"
	if err != nil || !strings.Contains(string(shown), want) {
		t.Errorf("no\n%s\nin\n%s%v", want, shown, err)
	}
}

// A rate's burst is its limit where nothing else is said, and an action that is dropped continues.
func TestRateOfADestination(t *testing.T) {
	t.Parallel()
	text := withDestination(t, "", "type: log\nrate: {limit: 7, on_limit: drop}")
	c, problems := load(strings.Replace(text, "on_dead: park", "on_dead: continue", 1), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got, want := *c.Teams["acme"].Destinations["coder"].Rate, (CallRate{Limit: 7, Per: Duration(time.Second), Burst: 7, OnLimit: "drop"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An empty beginning would be that of every topic.
func TestPublishIsNotEverywhere(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withDestination(t, "", "type: kafka\ntopic: shared.t"), "kafka:    {", `kafka:    {publish: {acme: [""]}, `, 1)
	if _, problems := load(text, designEnv, designFiles, Options{}); !strings.Contains(problems.Error(), "kafka.publish.acme[0]: is empty") {
		t.Errorf("%v", problems)
	}
}

// Each attempt at a destination of type postgres has a connection, so it takes fewer at once; those to the ledger's own
// database are bounded together, whosever they are.
func TestConcurrencyOfADestination(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		top, destination string
		want, statements int
	}{
		{"", "type: log", 64, 0},
		{"", "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1", 8, 0},
		{"", "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1\nconcurrency: 30", 30, 0},
		{"STATEMENTS", "type: postgres\nstatement: SELECT 1", 4, 4},
		{"STATEMENTS", "type: postgres\nstatement: SELECT 1\nconcurrency: 100", 100, 100},
	} {
		c, problems := load(withDestination(t, tt.top, tt.destination), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", tt.destination, problems)
		}
		if got := c.Teams["acme"].Destinations["coder"].Concurrency; got != tt.want || c.Statements() != tt.statements {
			t.Errorf("%s: concurrency %d, %d statements in the ledger's database", tt.destination, got, c.Statements())
		}
	}
	text := withDestination(t, "STATEMENTS", "type: postgres\nstatement: SELECT 1\nconcurrency: 97")
	text += "  other:\n    destinations:\n      own: {type: postgres, statement: SELECT 1}\n"
	_, problems := load(text, designEnv, designFiles, Options{})
	if want := "may have 101 statements under way at once"; len(problems) != 1 || !strings.Contains(problems.Error(), want) {
		t.Errorf("no %q in\n%v", want, problems)
	}
	if _, problems := load(text, designEnv, designFiles, Options{Roles: []Role{RoleIntake}}); len(problems) > 0 {
		t.Errorf("an intake: %v", problems)
	}
}

// Keys are kept for as long as an action may be attempted again, where the file does not say for how long.
func TestKeysOutliveDeadLetters(t *testing.T) {
	t.Parallel()
	const postgres = "type: postgres\ndatabase: postgres://u:p@db.example/y\nstatement: SELECT 1"
	for _, tt := range []struct{ destination, subscription, want string }{
		{postgres, "", "90d"},
		{postgres, "retention: {dead: 90d}", "91d"},
		{postgres + "\nretry: {within: 3d}", "retention: {dead: 90d}", "93d"},
		{postgres, "dedupe: {window: 100d}", "101d"},
		{"type: postgres\nstatement: SELECT 1", "retention: {dead: 90d}", "0s"}, // the ledger's
	} {
		top := ""
		if !strings.Contains(tt.destination, "database") {
			top = "STATEMENTS"
		}
		text := strings.Replace(withDestination(t, top, tt.destination), "        order: version", "        "+tt.subscription+"\n        order: version", 1)
		c, problems := load(text, designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Errorf("%s %s: %v", tt.destination, tt.subscription, problems)
			continue
		}
		if got := Duration(c.Teams["acme"].Destinations["coder"].Keys.(*postgressink.Config).KeyRetention); got != mustDuration(tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.destination, tt.subscription, got, tt.want)
		}
	}
	text := strings.Replace(withDestination(t, "", postgres+"\nkey_retention: 90d"), "        order: version", "        retention: {dead: 90d}\n        order: version", 1)
	_, problems := load(text, designEnv, designFiles, Options{})
	if want := "key_retention 90d of destination coder is too short: an action can be retried and replayed for 91d "; len(problems) != 1 || !strings.Contains(problems.Error(), want) {
		t.Errorf("no %q in\n%v", want, problems)
	}
}

// Without TLS a database is only reached in networks that are listed. Where none is, that is a note and no problem: a file that has loaded so far,
// with a destination that nothing uses, must not keep the process from starting.
func TestDatabaseWithoutTLSIsNoted(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"": true, "?sslmode=prefer": true, "?sslmode=disable": true, "?sslmode=allow": true, "?sslmode=require": false, "?sslmode=verify-full": false,
		"\nallow_networks: [10.0.0.0/8]": false, "?sslmode=disable\nallow_networks: [10.0.0.0/8]": false,
	} {
		for _, host := range []string{"db.example.com:5432", "postgres", "localhost", "93.184.215.14"} {
			text := withDestination(t, "", "type: postgres\nstatement: SELECT 1\ndatabase: postgres://u:canary@"+host+"/app"+query)
			c, problems := load(text, designEnv, designFiles, Options{})
			if len(problems) > 0 {
				t.Errorf("%s%s: %v", host, query, problems)
				continue
			}
			noted := slices.ContainsFunc(c.Notes(), func(n Problem) bool {
				return n.Path == "teams.acme.destinations.coder.database" && strings.Contains(n.Message, "write ?sslmode=require") &&
					!strings.Contains(n.Message, "canary")
			})
			if noted != want {
				t.Errorf("%s%s: noted %t: %v", host, query, noted, c.Notes())
			}
		}
	}
}

// The longest delay follows from the time that there is, where nobody has said it.
func TestLongestDelayOfADestination(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]string{
		"{}": "20h", "{within: 1h}": "45m16s", "{attempts: 3, within: 1m}": "50s", "{attempts: 20, within: 1h}": "4m50s", "{within: 30d}": "7d", "{min: 1h, within: 1m}": "1h", "{within: 24h, max: 1h}": "1h", "{max: 2d}": "2d",
	} {
		c, problems := load(withDestination(t, "", "type: log\nretry: "+retry), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := c.Teams["acme"].Destinations["coder"].Retry.Max; got != mustDuration(want) {
			t.Errorf("%s: %s, want %s", retry, got, want)
		}
	}
	if _, problems := load(withDestination(t, "", "type: log\nretry: {max: 0s}"), designEnv, designFiles, Options{}); !strings.Contains(problems.Error(), "coder.retry.max: 0s is not between 1ms and 7d") {
		t.Errorf("a written nothing: %v", problems)
	}
}

// A process that runs no destinations does not ask for what only they need.
func TestExecIsOfTheProcessThatRunsIt(t *testing.T) {
	t.Parallel()
	text := withDestination(t, "", "type: exec\ncommand: [agent]")
	if _, problems := load(text, designEnv, designFiles, Options{Roles: []Role{RoleIntake}}); len(problems) > 0 {
		t.Errorf("an intake: %v", problems)
	}
	if _, problems := load(text, designEnv, designFiles, Options{Roles: []Role{RoleStream}}); len(problems) != 1 {
		t.Errorf("a stream: %v", problems)
	}
}

// own is a destination of the design's team.
func own(c *Config, name string) NamedDestination {
	d, _ := c.Destination("acme", name)
	return d
}

// The page about long work names the keys of long as they are.
func TestLongWorkNamesItsKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../deploy/examples/long-work.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml")
	_, rest, _ = strings.Cut(rest, "```\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	for field := range reflect.TypeFor[Long]().Fields() {
		if key := "`" + field.Tag.Get("yaml") + "` is "; !strings.Contains(text, key) {
			t.Errorf("long-work.md does not say what %s:\n%s", key, text)
		}
	}
}
