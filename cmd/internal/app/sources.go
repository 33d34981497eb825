package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
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
// that it has in before, if its rate is the same, and counts on with the same secrets. around returns where the keys of issuers and agents are; nil: they
// are not needed.
func compileSources(c *config.Config, before map[nameInTeam]*ingest.Source, around func(team, source string) verify.Around) (map[nameInTeam]*ingest.Source, config.Problems) {
	compiled, problems := map[nameInTeam]*ingest.Source{}, config.Problems(nil)
	for _, team := range sortedKeys(c.Teams) { // problems are told in the order of the names
		ofTeam, of := limiter(c.Quota(team).Rate, teamLimiter(team, before)), c.Teams[team].Sources
		for _, name := range sortedKeys(of) {
			s := of[name]
			cfg := c.Source(team, name)
			if around != nil {
				cfg.Around = around(team, name)
			}
			at := nameInTeam{team, name}
			cfg.Around.Used = used(before[at])
			source, err := provider.Compile(cfg)
			if err != nil {
				problems = append(problems, sourceProblem(c, "teams."+team+".sources."+name, err))
				continue
			}
			compiled[at] = &ingest.Source{Source: source, Topic: s.Topic, PublicURL: s.PublicURL,
				QuarantineTopic: topics.Quarantine(team, name), Limiter: limiter(s.Rate, sourceLimiter(before[at])), TeamLimiter: ofTeam, Keys: ingest.KeysOf(s.Values(), before[at]), Refused: keptRefused(s, before[at]), Used: cfg.Around.Used}
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

// used returns what is remembered of a source's tokens: by the source of before, if there was one.
func used(before *ingest.Source) *verify.Used {
	if before == nil {
		return new(verify.Used)
	}
	return before.Used
}

// sourceLimiter returns the limiter of a source; nil if it has none, or there is no source.
func sourceLimiter(s *ingest.Source) *rate.Limiter {
	if s == nil {
		return nil
	}
	return s.Limiter
}

// teamLimiter returns the limiter of a team's sources; nil if they have none.
func teamLimiter(team string, sources map[nameInTeam]*ingest.Source) *rate.Limiter {
	for at, s := range sources {
		if at.team == team {
			return s.TeamLimiter
		}
	}
	return nil
}

// limiter returns the limiter for a rate; nil if there is no rate. It is the one of before if that has the same rate: a reload must not
// fill the bucket.
func limiter(r *config.Rate, before *rate.Limiter) *rate.Limiter {
	if r == nil {
		return nil
	}
	if before != nil && before.Limit() == rate.Limit(r.PerSecond()) && before.Burst() == r.Burst {
		return before
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond()), r.Burst)
}

// sourceItems lists the sources for the API. A process with the intake role adds what their secrets have verified.
func (a *App) sourceItems() []api.SourceItem {
	file := a.file()
	items := sourceItems(file)
	if a.intake == nil {
		return items
	}
	for i := range items {
		if s, ok := a.intake.sources.find(items[i].Team, items[i].Source); ok {
			n := s.Keys.Counts()
			items[i].Seen = seenItem(&n, file.Teams[items[i].Team].Sources[items[i].Source].Secrets)
		}
	}
	return items
}

// seenItem returns what a source's secrets have verified as the API has it. Those of the file are the same, unless it has just changed.
func seenItem(n *ingest.KeyCounts, secrets []config.SourceSecret) *api.SeenItem {
	seen := &api.SeenItem{Verified: n.Verified, Refused: n.Refused, VerifiedAt: timeOrNull(n.VerifiedAt), Mismatches: n.Mismatches, MismatchedAt: timeOrNull(n.MismatchedAt)}
	for i, s := range n.Secrets {
		seen.Secrets = append(seen.Secrets, api.SecretItem{Since: s.Since, Verified: s.Verified, LastUsed: timeOrNull(s.LastUsed)})
		if len(secrets) == len(n.Secrets) {
			seen.Secrets[i].Until = timeOrNull(secrets[i].Until())
		}
	}
	if s := n.Skew; s.Of > 0 {
		seen.Skew = &api.SkewItem{Deliveries: s.Of, Least: s.Least.Seconds(), Most: s.Most.Seconds()}
	}
	return seen
}

// unmatchedAfter is how many signatures in a row no secret of a source must match for that to wait for an operator.
const unmatchedAfter = 5

// unmatched lists the sources none of whose secrets verifies what comes.
func (a *App) unmatched() (rows []api.AttentionItem) {
	for _, i := range a.sourceItems() {
		if i.Seen != nil && i.Seen.Mismatches >= unmatchedAfter {
			row := unmatchedRow(i, a.cfg.Path)
			row.Detail += refusedAreKept(a.file(), i.Team, i.Source)
			rows = append(rows, row)
		}
	}
	return rows
}

// peopleOf returns who answers for a subscription, or for a team.
func peopleOf(c *config.Config, team, subscription string) (p api.People) {
	p.Owners, p.Contact = c.People(team, subscription)
	return p
}

// untimely lists the sources whose deliveries are signed right and at a wrong time: a clock is wrong, here or there, and everything that
// is signed with a time is refused.
func (a *App) untimely() (rows []api.AttentionItem) {
	off := map[nameInTeam]ingest.Untimely{}
	for at, s := range *a.intake.sources.current.Load() {
		if u := s.Keys.Counts().Untimely; u.Count >= ingest.ClockAfter {
			off[at] = u
		}
	}
	for at, u := range off {
		rows = append(rows, untimelyRow(at, u, len(off)))
	}
	return rows
}

// untimelyRow returns a source whose deliveries have a wrong time, one of so many, as the list has it.
func untimelyRow(at nameInTeam, u ingest.Untimely, sources int) api.AttentionItem {
	reason := verify.TooOld
	if u.Most < 0 {
		reason = verify.TooNew
	}
	return api.AttentionItem{Kind: api.KindClock, ID: at.team + "/" + at.name, Team: at.team, Source: at.name, Reason: string(reason), Since: new(u.Since.UTC()),
		Detail: fmt.Sprintf("%d deliveries with a right signature, each signed later than the one before, were refused: by their time of signing the last %d are %s; %s", u.Count, min(u.Count, ingest.ClockAfter), behindText(u), lookAt(u, sources)), Command: "forebay sources list"}
}

// behindText says how far times of signing are from this machine's clock.
func behindText(u ingest.Untimely) string {
	side := func(d time.Duration) string {
		if d < 0 {
			return d.Abs().Round(time.Second).String() + " ahead of"
		}
		return d.Round(time.Second).String() + " behind"
	}
	if side(u.Least) == side(u.Most) {
		return side(u.Least) + " this machine's clock"
	}
	return side(u.Least) + " to " + side(u.Most) + " this machine's clock"
}

// sameClock is how far apart times may be that are wrong by one clock: deliveries take their time on the way.
const sameClock = time.Minute

// lookAt says what to look at, by how the times of so many sources differ.
func lookAt(u ingest.Untimely, sources int) string {
	switch {
	case u.Most-u.Least > sameClock:
		return "they differ, so no clock alone is wrong: look at what keeps deliveries back on the way, or whether somebody sends old ones again; `date -u` shows this machine's time"
	case sources > 1:
		return fmt.Sprintf("%d sources show the same: check this machine's clock first (`date -u`, and whether NTP runs)", sources)
	}
	return "look at this machine's clock (`date -u`, and whether NTP runs) and the sender's; if both are right, deliveries are kept back for so long on the way"
}

// sourceItems lists the sources of a configuration.
func sourceItems(c *config.Config) []api.SourceItem {
	var items []api.SourceItem
	for _, team := range slices.Sorted(maps.Keys(c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(c.Teams[team].Sources)) {
			s := c.Teams[team].Sources[name]
			taken := slices.DeleteFunc(slices.Clone(s.Secrets), func(s config.SourceSecret) bool { return !s.Until().IsZero() && !time.Now().Before(s.Until()) })
			items = append(items, api.SourceItem{People: peopleOf(c, team, ""), Team: team, Source: name, Preset: s.Preset, Path: "/v1/in/" + team + "/" + name, URL: s.PublicURL,
				Topic: s.Topic, MaxBody: c.MaxBody(team, name), Keys: len(taken), Sequence: s.Sequence(), Share: s.Share})
		}
	}
	return items
}
