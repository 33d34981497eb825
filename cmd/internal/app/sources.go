package app

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
)

// nameInTeam names a source or a subscription.
type nameInTeam struct{ team, name string }

// sources are the compiled sources of the configuration. A reload replaces all of them at once.
type sources struct {
	current atomic.Pointer[map[nameInTeam]*ingest.Source]
}

// find returns a source by its name. It is ingest.Config.Sources.
func (s *sources) find(team, name string) (*ingest.Source, bool) {
	src, ok := (*s.current.Load())[nameInTeam{team, name}]
	return src, ok
}

// compileSources compiles the sources of c. What does not compile is among the problems, and not in the map. A source keeps the limiter
// that it has in before, if its rate is the same.
func compileSources(c *config.Config, before map[nameInTeam]*ingest.Source) (map[nameInTeam]*ingest.Source, config.Problems) {
	compiled, problems := map[nameInTeam]*ingest.Source{}, config.Problems(nil)
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			source, err := provider.Compile(c.Source(team, name))
			if err != nil {
				problems = append(problems, sourceProblem(c, "teams."+team+".sources."+name, err))
				continue
			}
			at := nameInTeam{team, name}
			compiled[at] = &ingest.Source{Source: source, Topic: s.Topic, PublicURL: s.PublicURL,
				QuarantineTopic: topics.Quarantine(team, name), Limiter: limiter(s.Rate, before[at])}
		}
	}
	return compiled, problems
}

// sourceProblem returns the problem of a source, whose path is given. If the catalogue says which key is wrong, it is at that key.
func sourceProblem(c *config.Config, path string, err error) config.Problem {
	if key, ok := errors.AsType[*provider.KeyError](err); ok {
		return c.Problem(path+"."+key.Key, key.Err.Error())
	}
	return c.Problem(path, err.Error())
}

// limiter returns the limiter for a source's rate; nil if it has no rate. It is the one of before, the source until now, if that has
// the same rate: a reload must not fill the bucket.
func limiter(r *config.Rate, before *ingest.Source) *rate.Limiter {
	if r == nil {
		return nil
	}
	if before != nil && before.Limiter != nil && before.Limiter.Limit() == rate.Limit(r.PerSecond) && before.Limiter.Burst() == r.Burst {
		return before.Limiter
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
}

// sourceItems lists the sources for the API.
func sourceItems(c *config.Config) []api.SourceItem {
	var items []api.SourceItem
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Sources)) {
			s := c.Teams[team].Sources[name]
			items = append(items, api.SourceItem{Team: team, Source: name, Preset: s.Preset, Path: "/v1/in/" + team + "/" + name,
				Topic: s.Topic, MaxBody: c.MaxBody(team, name), Keys: len(s.Secrets), Sequence: s.Sequence()})
		}
	}
	return items
}
