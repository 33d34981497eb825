package config

import (
	"strings"
	"testing"
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
	return strings.Replace(design[:from]+block.String()+design[to:], "teams:\n", top+"\nteams:\n", 1)
}

// TestDestinations holds destinations of several types against what must be said of them; nothing where they are well.
func TestDestinations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, top, destination, want string }{
		{"exec", "exec: {enabled: true}", "type: exec\ncommand: [/usr/bin/agent, --once]\nenv: {HOME: /tmp, TOKEN: \"${env:CODER_SECRET}\"}\nidempotent: true", ""},
		{"exec is off", "", "type: exec\ncommand: [agent]", "forebay.yaml:27: teams.acme.destinations.coder.type: exec is off: it runs programs on this machine. Where that is wanted, write exec: {enabled: true}"},
		{"exec without a command", "exec: {enabled: true}", "type: exec", "coder.command: is missing: the program and its arguments"},
		{"exec of a line", "exec: {enabled: true}", "type: exec\ncommand: agent --once", `command: expected a list ([a, b]), found "agent --once"`},
		{"exec with a url", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nurl: https://x.example", "coder.url: has no meaning for type exec"},
		{"exec with params", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nparams: {a: b}", "has no meaning for type exec"},
		{"exec with our variable", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nenv: {FOREBAY_ACTION_ID: x}", "coder.env.FOREBAY_ACTION_ID: is set by forebay"},
		{"exec with a bad variable", "exec: {enabled: true}", "type: exec\ncommand: [agent]\nenv: {A-B: x}", `"A-B" is not the name of a variable`},
		{"kafka", "", "type: kafka\ntopic: acme.projection\nparams: {key: \"{{body.customer}}\"}\nidempotent: false", ""},
		{"kafka without a topic", "", "type: kafka", "coder.topic: is missing: the topic to write to"},
		{"kafka into a topic of events", "", "type: kafka\ntopic: events.acme.github", "events.acme.github is one of Forebay's own topics"},
		{"kafka into Kafka's own", "", "type: kafka\ntopic: __consumer_offsets", "one of Kafka's own topics"},
		{"kafka with a key that does not compile", "", "type: kafka\ntopic: t\nparams: {key: \"{{bodi.x}}\"}", "forebay.yaml:29: teams.acme.destinations.coder.params.key"},
		{"kafka with another parameter", "", "type: kafka\ntopic: t\nparams: {partition: 1}", "params.partition: is no parameter here"},
		{"http with a command", "", "type: http\nurl: https://x.example\ncommand: [a]", "coder.command: has no meaning for type http"},
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
