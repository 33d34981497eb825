package config

import (
	"strings"
	"testing"
)

// Two listeners of one address are refused, with both keys.
func TestListenersOfOneAddress(t *testing.T) {
	t.Parallel()
	const agents = "\nagents: {public_url: \"https://a.example.com\", secrets: [0123456789abcdef0123456789abcdef]}"
	for name, tt := range map[string]struct{ listen, want string }{
		"each its own":       {"{intake: 0.0.0.0:18080, operator: 127.0.0.1:19090, health: 0.0.0.0:19091, agents: 0.0.0.0:18091}", ""},
		"intake, operator":   {"{intake: 127.0.0.1:18080, operator: 127.0.0.1:18080}", "listen.operator: 127.0.0.1:18080 cannot be listened on: listen.intake is 127.0.0.1:18080; write another port in one of the two"},
		"operator, health":   {"{operator: 127.0.0.1:19090, health: 0.0.0.0:19090}", "listen.health: 0.0.0.0:19090 cannot be listened on: listen.operator is 127.0.0.1:19090"},
		"a default":          {"{intake: 127.0.0.1:9090}", "listen.operator: 127.0.0.1:9090 cannot be listened on: listen.intake is 127.0.0.1:9090"},
		"by name":            {"{intake: localhost:18080, operator: 127.0.0.1:18080}", "listen.operator: 127.0.0.1:18080 cannot be listened on"},
		"IPv4, and a name":   {"{intake: 0.0.0.0:18080, health: \"intake.example:18080\"}", ""},
		"IPv4, by name":      {"{intake: 0.0.0.0:18080, health: LocalHost:18080}", "listen.health: LocalHost:18080 cannot be listened on"},
		"in a longer name":   {"{intake: localhost.example:18080, health: 127.0.0.1.example:18080}", ""},
		"IPv4 and IPv6":      {"{intake: 0.0.0.0:18080, operator: \"[::1]:18080\"}", ""},
		"any free ports":     {"{intake: 127.0.0.1:0, operator: 127.0.0.1:0}", ""},
		"all of IPv6 is all": {"{intake: \"[::]:18080\", operator: 127.0.0.1:18080}", "listen.operator: 127.0.0.1:18080 cannot be listened on"},
	} {
		text := "version: 1\nkafka: {brokers: [127.0.0.1:9092]}\npostgres: {url: postgres://127.0.0.1/forebay}\nlisten: " + tt.listen
		if strings.Contains(tt.listen, "agents") {
			text += agents
		}
		_, problems := load(text+"\n", nil, nil, Options{})
		if tt.want == "" && len(problems) > 0 || tt.want != "" && (len(problems) != 1 || !strings.Contains(problems.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, problems, tt.want)
		}
	}
	// A process that listens on one of them alone runs.
	text := "version: 1\nkafka: {brokers: [127.0.0.1:9092]}\nlisten: {intake: 0.0.0.0:18080, agents: 0.0.0.0:18080}" + agents + "\n"
	if _, problems := load(text, nil, nil, Options{Roles: []Role{RoleIntake}}); len(problems) > 0 {
		t.Error(problems)
	}
}
