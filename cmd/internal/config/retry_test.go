package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// noted returns the notes on the retry of a destination.
func noted(t *testing.T, keys string) (notes []string) {
	t.Helper()
	c, problems := load(withDestination(t, "", "type: log\n"+keys), designEnv, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, n := range c.Notes() {
		if key, ok := strings.CutPrefix(n.Path, "teams.acme.destinations.coder.retry"); ok {
			notes = append(notes, key+": "+n.Message)
		}
	}
	return notes
}

func TestRetriesThatMissTheirTime(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"{}":                                            "",
		"retry: {attempts: 3, within: 1m}":              "",
		"retry: {attempts: 3}":                          "",
		"retry: {attempts: 30, within: 1h}":             "",
		"retry: {within: 14d, attempts: 12}":            "",
		"retry: {attempts: 1}":                          "",
		"retry: {attempts: 1, within: 1h}":              ".within: 1h is never used: there is one attempt",
		"retry: {attempts: 2}":                          ".within: 1d is never used: the last of 2 attempts begins 11s after the first at the latest",
		"retry: {attempts: 2, min: 20h}":                "",
		"retry: {max: 10s}":                             ".within: 1d is never used: the last of 7 attempts begins 1m35s after the first",
		"retry: {attempts: 5, max: 1h, within: 10m}":    ".attempts: 5 attempts do not fit into within 10m: attempt 5 would begin 48m8s after the first on average",
		"retry: {min: 10m, within: 30m}":                ".attempts: 7 attempts do not fit into within 30m: attempt 6 would begin 37m30s after the first on average",
		"retry: {within: 30d}":                          ".within: 30d is never used: the last of 7 attempts begins 7d12h37m after",
		"retry: {within: 5s}":                           ".within: 5s is no more than timeout 10s: an attempt that hangs is not repeated",
		"timeout: 1s\nretry: {within: 5s, attempts: 3}": "",
		"timeout: 10m\nretry: {attempts: 6, min: 1m, max: 5m, within: 2h}":   "",
		"timeout: 10m\nretry: {attempts: 7, max: 10s, within: 2h}":           "",
		"timeout: 10m\nretry: {attempts: 12, min: 1m, max: 2m, within: 50m}": ".within: 50m is enough for 5 of 12 attempts, if each takes as long as it may (timeout 10m)",
		"timeout: 10m\nretry: {attempts: 3, min: 1s, max: 10s, within: 10m}": ".within: 10m is no more than timeout 10m: an attempt that hangs is not repeated",
	} {
		if keys == "{}" {
			keys = "timeout: 10s"
		}
		got := strings.Join(noted(t, keys), "\n")
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: noted %q, want %q", keys, got, want)
		}
	}
}

// An attempt at a destination that finishes later takes until its deadline, where no result comes: that is of the time that there is, too.
func TestRetriesOfLongWorkThatMissTheirTime(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"long: {deadline: 30m}":                                           "",
		"long: {deadline: 8h}":                                            ".within: 1d is enough for 3 of 7 attempts, if each takes as long as it may (timeout 10s and long.deadline 8h)",
		"long: {deadline: 2d}":                                            ".within: 1d is no more than timeout 10s and long.deadline 2d: an attempt that hangs is not repeated",
		"long: {deadline: 6h}\nretry: {attempts: 3, max: 10s}":            "", // long work itself uses within up
		"long: {deadline: 1m}\nretry: {attempts: 3, max: 10s}":            ".within: 1d is never used: the last of 3 attempts begins 2m31s after the first at the latest",
		"long: {deadline: 2h}\nretry: {attempts: 10, within: 2d}":         "",
		"long: {deadline: 2h}\nretry: {attempts: 4, within: 2h}":          ".within: 2h is no more than timeout 10s and long.deadline 2h",
		"long: {deadline: \"${env:NOPE}\"}\nretry: {within: 1m, max: 9s}": "",
	} {
		text := strings.Replace(withDestination(t, `agents: {public_url: "https://a.example", secrets: ["`+agentsSecret+`"]}`, "type: http\nurl: https://x.example\n"+keys),
			"  operator: 127.0.0.1:9090", "  agents: 127.0.0.1:8081\n  operator: 127.0.0.1:9090", 1)
		c, problems := load(text, designEnv, designFiles, Options{Roles: []Role{RoleIntake}})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", keys, problems)
		}
		var got []string
		for _, n := range c.Notes() {
			if key, ok := strings.CutPrefix(n.Path, "teams.acme.destinations.coder.retry"); ok {
				got = append(got, key+": "+n.Message)
			}
		}
		if all := strings.Join(got, "\n"); !strings.HasPrefix(all, want) || (want == "") != (all == "") {
			t.Errorf("%s: noted %q, want %q", keys, all, want)
		}
	}
}

func TestTimesOfARetryAreShown(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"{attempts: 3, within: 1m}": `
          # when attempts begin, after the first, if each fails at once:
          # attempt   2      3
          # earliest  500ms  25.5s
          # average   750ms  38.3s
          # latest    1s     51s
`,
		"{attempts: 20, within: 1h}": `
          # when attempts begin, after the first, if each fails at once:
          # attempt   2      3     4     5      6      ...  20
          # earliest  500ms  1.5s  3.5s  7.5s   15.5s  ...  28m26s
          # average   750ms  2.3s  5.3s  11.3s  23.3s  ...  42m38s
          # latest    1s     3s    7s    15s    31s    ...  56m51s
`,
		"{attempts: 5, min: 10m, within: 20m}": `
          # when attempts begin, after the first, if each fails at once:
          # attempt   2      3    4    5
          # earliest  5m     10m  15m  20m
          # average   7m30s  15m  20m  20m
          # latest    10m    20m  20m  20m
`,
		"{attempts: 1}":                       "\n",
		`{attempts: "${env:RETRY_ATTEMPTS}"}`: "\n", // of another role: not resolved, so nothing is known
	} {
		c, problems := load(withDestination(t, "", "type: log\nretry: "+keys), designEnv, designFiles, Options{Roles: []Role{RoleIntake}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(shown), "        retry:")
		comment, _, _ := strings.Cut(rest, "          attempts:")
		if diff := cmp.Diff(want, comment); diff != "" {
			t.Errorf("%s: %s", keys, diff)
		}
	}
}
