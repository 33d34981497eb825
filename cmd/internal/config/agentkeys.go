package config

import (
	"maps"
	"slices"

	"github.com/forebay-io/forebay/ingest/verify"
)

// AgentSources lists the sources of a team that take keys of `forebay agents`: those of preset agent, unless the file has the keys itself, or
// another scheme.
func (c *Config) AgentSources(team string) (names []string) {
	t := c.Teams[team]
	if t == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.Sources)) {
		if s := t.Sources[name]; len(s.Secrets) == 0 && s.scheme() == verify.SchemeAgentKey {
			names = append(names, name)
		}
	}
	return names
}

// AgentTeams lists the teams that have such sources.
func (c *Config) AgentTeams() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Teams)), func(team string) bool { return len(c.AgentSources(team)) == 0 })
}
