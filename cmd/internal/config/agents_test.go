package config

import (
	"maps"
	"strings"
	"testing"
	"time"
)

const agentsSecret = "0123456789abcdef0123456789abcdef"

// TestAgents holds what is said of destinations that finish later against what must be said of it; nothing where it is well.
func TestAgents(t *testing.T) {
	t.Parallel()
	const (
		listen = "  operator: 127.0.0.1:9090\n  agents: 0.0.0.0:8081\n"
		keys   = "agents: {public_url: \"https://agents.example.com\", secrets: [\"${env:AGENTS_SECRET}\"]}"
		coder  = "type: http\nurl: https://x.example\n"
		long   = coder + "long: {deadline: 30m, heartbeat: 60s}"
	)
	env := maps.Clone(designEnv)
	env["AGENTS_SECRET"] = agentsSecret
	for _, tt := range []struct{ name, listen, top, destination, want string }{
		{"all of it", listen, keys, long, ""},
		{"without heartbeats", listen, keys, coder + "long: {deadline: 1s, concurrency: 1}", ""},
		{"two secrets", listen, "agents: {public_url: \"http://127.0.0.1:8081\", secrets: [\"" + agentsSecret + "\", \"${env:AGENTS_SECRET}\"]}", long, ""},
		{"without long work", listen, "agents: {secrets: [\"${env:AGENTS_SECRET}\"]}", coder, ""},
		{"no listener", "", "agents: {secrets: [\"${env:AGENTS_SECRET}\"]}", long, "coder.long: needs listen.agents and agents.public_url"},
		{"no public URL", listen, "agents: {secrets: [\"${env:AGENTS_SECRET}\"]}", long, "coder.long: needs listen.agents and agents.public_url"},
		{"no secret", listen, "agents: {public_url: \"https://agents.example.com\"}", long, "agents.secrets: is missing"},
		{"a short secret", listen, "agents: {public_url: \"https://agents.example.com\", secrets: [short]}", long, "agents.secrets[0]: is shorter than 32 characters"},
		{"a URL that leads nowhere", "", keys, coder, "agents.public_url: leads nowhere"},
		{"a URL with a slash", listen, strings.Replace(keys, ".com", ".com/", 1), long, "agents.public_url: is not a URL"},
		{"a URL with a token", listen, strings.Replace(keys, ".com", ".com?token=x", 1), long, "agents.public_url: is not a URL"},
		{"no address", "  operator: 127.0.0.1:9090\n  agents: here\n", keys, long, `listen.agents: "here" is not host:port`},
		{"no deadline", listen, keys, coder + "long: {heartbeat: 60s}", "coder.long: deadline is missing"},
		{"a deadline of nothing", listen, keys, coder + "long: {deadline: 0s}", "long.deadline"},
		{"a deadline too far", listen, keys, coder + "long: {deadline: 31d}", "31d is not between 1s and 30d"},
		{"a silence beyond the deadline", listen, keys, coder + "long: {deadline: 30m, heartbeat: 1h}", "long.heartbeat: 1h is not between 1s and 30m"},
		{"nothing at once", listen, keys, coder + "long: {deadline: 30m, concurrency: 0}", "long.concurrency"},
		{"another key", listen, keys, coder + "long: {deadline: 30m, result: x}", "result"},
		{"another type", listen, keys, "type: log\nlong: {deadline: 30m}", "coder.long: has no meaning for type log"},
		{"another type, and no listener", "", "", "type: log\nlong: {deadline: 30m}", "coder.long: has no meaning for type log\n"},
		{"a type that answers at once", listen, keys, "type: mcp\nurl: https://x.example\nparams: {tool: t}\nlong: {deadline: 30m}", "coder.long: has no meaning for type mcp"},
	} {
		text := withDestination(t, tt.top, tt.destination)
		if tt.listen != "" {
			const plain = "  operator: 127.0.0.1:9090"
			i := strings.Index(text, plain)
			if i < 0 {
				t.Fatal("the design's file is another one now")
			}
			end := i + strings.IndexByte(text[i:], '\n') + 1
			text = text[:i] + tt.listen + text[end:]
		}
		c, problems := load(text, env, designFiles, Options{})
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.String() + "\n")
		}
		if tt.want == "" && len(problems) > 0 || tt.want != "" && !strings.Contains(all.String(), tt.want) {
			t.Errorf("%s: %s, want %q", tt.name, all.String(), tt.want)
		}
		if tt.name == "all of it" && c != nil {
			if l := c.Teams["acme"].Destinations["coder"].Long; l.Deadline.Std() != 30*time.Minute || l.Heartbeat.Std() != time.Minute || l.Concurrency != 1000 {
				t.Errorf("%+v", l)
			}
			if shown, err := c.YAML(); err != nil || strings.Contains(string(shown), agentsSecret) {
				t.Errorf("config show: %v\n%s", err, shown)
			}
		}
	}
}

// TestAgentsByRole: the intake makes tokens too, and needs no address for it; topics need neither.
func TestAgentsByRole(t *testing.T) {
	t.Parallel()
	text := strings.Replace(design, "  operator: 127.0.0.1:9090", "  agents: \"${env:AGENTS}\"\n  operator: 127.0.0.1:9090", 1)
	text = strings.Replace(text, "teams:\n", "agents: {public_url: \"https://a.example\", secrets: [\"${env:AGENTS_SECRET}\"]}\nteams:\n", 1)
	for role, missing := range map[Role][]string{RoleIntake: {"AGENTS_SECRET"}, RoleStream: {"AGENTS", "AGENTS_SECRET"}, RoleTopics: nil} {
		_, problems := load(text, designEnv, designFiles, Options{Roles: []Role{role}})
		got := 0
		for _, p := range problems {
			for _, name := range missing {
				if strings.Contains(p.Message, "environment variable "+name+" is not set") {
					got++
				}
			}
		}
		if got != len(missing) || len(problems) != got {
			t.Errorf("%s: %v, want %v", role, problems, missing)
		}
	}
}

// TestOnNewer: what can be told to cancel is told by its action's word; what has no versions never can.
func TestOnNewer(t *testing.T) {
	t.Parallel()
	env := maps.Clone(designEnv)
	env["AGENTS_SECRET"] = agentsSecret
	text := withDestination(t, `agents: {public_url: "https://agents.example.com", secrets: ["${env:AGENTS_SECRET}"]}`, "type: http\nurl: https://x.example\nlong: {deadline: 30m}")
	for _, edit := range [][2]string{{"  operator: 127.0.0.1:9090", "  agents: 0.0.0.0:8081\n  operator: 127.0.0.1:9090"}, {"on_dead: park", "on_newer: cancel"}} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("the design's file has no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	c, problems := load(text, env, designFiles, Options{})
	if len(problems) > 0 || c.Teams["acme"].Subscriptions["triage"].Actions[0].OnNewer != OnNewerCancel {
		t.Error(problems)
	}
	_, problems = load(strings.Replace(text, "order: version", "order: arrival", 1), env, designFiles, Options{})
	if len(problems) != 1 || !strings.Contains(problems[0].String(), "actions[0].on_newer: cancel needs order: version") {
		t.Error(problems)
	}
}
