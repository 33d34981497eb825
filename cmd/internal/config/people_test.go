package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peopled is a file with who answers for what.
func peopled(team, subscription string) string {
	return fmt.Sprintf(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://h/d"}
teams:
  acme: {%s
    sources: {s: {preset: github, secrets: [x]}}, destinations: {log: {type: log}},
    subscriptions: {sub: {%s
      sources: [s], actions: [{name: a, to: log}]}}}
`, team, subscription)
}

func TestPeople(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		team, subscription, ofTeam, ofSubscription string
	}{
		{"", "", "[] ", "[] "},
		{"owners: [ann, bob], contact: \"#acme\",", "", "[ann bob] #acme", "[ann bob] #acme"},
		{"owners: [ann], contact: \"#acme\",", "owners: [\"${env:WHO}\"],", "[ann] #acme", "[carl] #acme"},
		{"owners: [ann],", "contact: \"mailto:sub@example.com\",", "[ann] ", "[ann] mailto:sub@example.com"},
	} {
		c, problems := load(peopled(tt.team, tt.subscription), map[string]string{"WHO": "carl"}, nil, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		text := func(owners []string, contact string) string { return fmt.Sprint(owners, " ", contact) }
		got := []string{text(c.People("acme", "")), text(c.People("acme", "sub")), text(c.People("other", "sub"))}
		if diff := cmp.Diff([]string{tt.ofTeam, tt.ofSubscription, "[] "}, got); diff != "" {
			t.Errorf("%s / %s: %s", tt.team, tt.subscription, diff)
		}
	}
	c, _ := load(peopled("contact: \"#acme\",", ""), nil, nil, Options{})
	if shown, err := c.YAML(); err != nil || strings.Count(string(shown), "contact: '#acme'") != 2 {
		t.Errorf("config show has not both contacts: %v\n%s", err, shown)
	}
}

func TestPeopleAreBounded(t *testing.T) {
	t.Parallel()
	for team, want := range map[string]string{
		"owners: [" + strings.Repeat("a, ", 17) + "],": "teams.acme.owners: 17 are more than 16: name a group",
		"owners: [ann, ann],":                          "teams.acme.owners[1]: \"ann\" is listed twice",
		"owners: [\"\"],":                              "teams.acme.owners[0]: is not 1 to 200 characters",
		"contact: " + strings.Repeat("x", 201) + ",":   "teams.acme.contact: is not 1 to 200 characters",
		"contact: \"a\\e[31mb\",":                      "teams.acme.contact: is not 1 to 200 characters",
		"owners: ann,":                                 "teams.acme.owners: expected a list",
	} {
		if _, problems := load(peopled(team, ""), nil, nil, Options{}); problems == nil || !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: no %q in %v", team, want, problems)
		}
		in := strings.Replace(want, "teams.acme.", "teams.acme.subscriptions.sub.", 1)
		if _, problems := load(peopled("", team), nil, nil, Options{}); problems == nil || !strings.Contains(problems.Error(), in) {
			t.Errorf("%s of a subscription: no %q in %v", team, in, problems)
		}
	}
}
