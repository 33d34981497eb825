package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestFirstFilter: the window is bounded, what is wrong with the URL is said without its password, and a team's file has none.
func TestFirstFilter(t *testing.T) {
	t.Parallel()
	env := map[string]string{"REDIS_URL": "rediss://u:canary@redis:6380/1"}
	maps.Copy(env, designEnv)
	with := func(text string, o Options) (*Config, Problems) {
		return load(strings.Replace(design, "        preset: github", "        preset: github\n        first_filter: "+text, 1), env, designFiles, o)
	}
	c, problems := with(`{redis: {url: "${env:REDIS_URL}"}}`, Options{})
	if len(problems) > 0 || c.FirstFilters()["/acme/github"].Window.String() != "2d" || c.FirstFilters()["/acme/github"].URL.Reveal() != env["REDIS_URL"] || len(c.FirstFilters()) != 1 {
		t.Errorf("%v", problems)
	}
	for text, want := range map[string]string{
		"{}":                                      "first_filter: redis is missing",
		"{redis: {}}":                             "first_filter.redis: url is missing",
		"{redis: {url: redis://h, window: 8d}}":   "first_filter.redis.window: 8d is not between 1m and 7d",
		"{redis: {url: redis://h, window: 10s}}":  "is not between 1m and 7d",
		"{redis: {url: redis://h, ca_file: no}}":  "first_filter.redis.ca_file: open ",
		"{redis: {url: 'http://u:canary@h'}}":     "first_filter.redis.url: is not a URL such as redis://user:password@host:6379/0",
		"{redis: {url: 'redis://:can ary@h'}}":    "first_filter.redis.url: is not a URL",
		"{redis: {url: redis://h}, memory: 1MiB}": "first_filter.memory: unknown key",
	} {
		_, problems := with(text, Options{})
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), want) }) || strings.Contains(problems.Error(), "canary") || strings.Contains(problems.Error(), "can ary") {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
	delete(env, "REDIS_URL") // the stream does not ask it
	if _, problems := with(`{redis: {url: "${env:REDIS_URL}"}}`, Options{Roles: []Role{RoleStream}}); len(problems) > 0 {
		t.Errorf("the stream: %v", problems)
	}
	if _, problems := with(`{redis: {url: "${env:REDIS_URL}"}}`, Options{Roles: []Role{RoleIntake}}); len(problems) != 1 {
		t.Errorf("the intake: %v", problems)
	}
	v := newVillage(t, "")
	v.write("teams/acme.yaml", "teams:\n  acme:\n    sources:\n      s: {preset: github, secrets: [s], first_filter: {redis: {url: redis://127.0.0.1}}}\n")
	if _, wrong := v.load(); !strings.Contains(wrong, "teams.acme.sources.s.first_filter: stands in the main file only") {
		t.Errorf("a team's file: %s", wrong)
	}
}

// TestKeepRefused: `keep_refused: {}` keeps all of them within its defaults, and what has no meaning is a problem.
func TestKeepRefused(t *testing.T) {
	t.Parallel()
	with := func(text string) (*Config, Problems) {
		return load(strings.Replace(design, "        preset: github", "        preset: github\n        keep_refused: "+text, 1), designEnv, designFiles, Options{})
	}
	for text, want := range map[string]KeepRefused{
		"{}":                                   {1, 10000, 1 << 30},
		"{share: 1, most: 10000}":              {1, 10000, 1 << 30},
		"{share: 0.25, most: 7, bytes: 10MiB}": {0.25, 7, 10 << 20},
	} {
		c, problems := with(text)
		if len(problems) > 0 || *c.Teams["acme"].Sources["github"].KeepRefused != want {
			t.Errorf("%s: %v %+v", text, problems, c)
		}
	}
	for text, want := range map[string]string{
		"{share: 0}":        `keep_refused.share: "0" is no number above 0, and 1 at most`,
		"{share: 1.01}":     `keep_refused.share: "1.01" is no number`,
		"{share: NaN}":      `keep_refused.share: "NaN" is no number`,
		"{share: half}":     `keep_refused.share: "half" is no number`,
		"{share: [1]}":      "keep_refused.share: expected a number",
		"{most: 0}":         "keep_refused.most: must be at least 1",
		"{most: 1000001}":   "keep_refused.most: 1000001 is more than 1000000",
		"{bytes: 0}":        "keep_refused.bytes: must be at least 1",
		"{window: 1d}":      "keep_refused.window: unknown key",
		"true":              "keep_refused: expected a mapping",
		`{share: "1", a: }`: "keep_refused.a: unknown key",
	} {
		if _, problems := with(text); !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), want) }) {
			t.Errorf("%s: %v, want %s", text, problems, want)
		}
	}
	c, problems := load(strings.Replace(design, "        preset: github", "        preset: github\n        verify: {scheme: token, header: X-Token}\n        keep_refused: {}", 1), designEnv, designFiles, Options{})
	if len(problems) > 0 || !slices.ContainsFunc(c.Notes(), func(p Problem) bool {
		return p.Path == "teams.acme.sources.github.keep_refused" && strings.Contains(p.Message, "keeps only what is over a quota")
	}) {
		t.Errorf("%v, %v", problems, c.Notes())
	}
}
