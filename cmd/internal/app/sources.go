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

// sourceName is a source's place: team and name.
type sourceName struct{ team, name string }

// sources are the compiled sources of one configuration, swapped as a whole when it is read again.
type sources struct {
	current atomic.Pointer[map[sourceName]*ingest.Source]
}

// find returns ingest's lookup.
func (s *sources) find(team, name string) (*ingest.Source, bool) {
	src, ok := (*s.current.Load())[sourceName{team, name}]
	return src, ok
}

// compileSources builds every source of c. A source that was there before keeps its limiter while its rate stays.
func compileSources(c *config.Config, before map[sourceName]*ingest.Source) (map[sourceName]*ingest.Source, config.Problems) {
	compiled, problems := map[sourceName]*ingest.Source{}, config.Problems(nil)
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			source, err := provider.Compile(c.Source(team, name))
			if err != nil {
				problems = append(problems, sourceProblem(c, "teams."+team+".sources."+name, err))
				continue
			}
			at := sourceName{team, name}
			compiled[at] = &ingest.Source{Source: source, Topic: s.Topic,
				QuarantineTopic: topics.Quarantine(team, name), Limiter: limiter(s.Rate, before[at])}
		}
	}
	return compiled, problems
}

// sourceProblem returns what is wrong with a source at the line of the key where it is, where the catalogue names one.
func sourceProblem(c *config.Config, path string, err error) config.Problem {
	if key, ok := errors.AsType[*provider.KeyError](err); ok {
		return c.Problem(path+"."+key.Key, key.Err.Error())
	}
	return c.Problem(path, err.Error())
}

func limiter(r *config.Rate, before *ingest.Source) *rate.Limiter {
	if r == nil {
		return nil
	}
	if before != nil && before.Limiter != nil && before.Limiter.Limit() == rate.Limit(r.PerSecond) && before.Limiter.Burst() == r.Burst {
		return before.Limiter
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
}

// largestBody returns the limit of all sources, for what is read of a stranger and for the clients' record size.
func largestBody(c *config.Config) int64 {
	largest := int64(1 << 20)
	for team, t := range c.Teams {
		for name := range t.Sources {
			largest = max(largest, c.MaxBody(team, name))
		}
	}
	return largest
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
