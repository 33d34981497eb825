package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
)

// barring is why a subscription does not run: it may not read one of its sources, another team's.
type barring struct {
	why   string
	since time.Time
}

// barred returns why a subscription does not run; empty if it may.
func (s *streams) barred(at nameInTeam) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bars[at].why
}

// barAll bars the subscriptions of this process for which there is a reason, which why returns.
func (s *streams) barAll(why func(at nameInTeam) string) {
	for _, at := range s.runs() {
		if s.barred(at) != "" {
			continue
		}
		if why := why(at); why != "" {
			s.bar(at, why)
		}
	}
}

// Unshare bars the subscriptions of this process that run with a source which its team shares with them no more: they are stopped, as with the
// process, and keep their positions. It goes by the sources that run, and not by those in the subscription's file of now: whoever takes a
// source out, renames the subscription or deletes it has still to restart, and reads on until then. The process goes on, and is ready: no
// team can hold it up for the others by what it takes back or writes.
func (a *App) Unshare(read config.Shares) {
	if a.stream == nil {
		return
	}
	a.stream.barAll(func(at nameInTeam) string { return read.Withdrawn(at.team, a.file().SourcesOf(at.team, at.name)) })
}

// bar stops a subscription, or keeps it from being started.
func (s *streams) bar(at nameInTeam, why string) {
	s.mu.Lock()
	s.bars[at] = barring{why, time.Now()}
	stop := s.stops[at]
	s.mu.Unlock()
	s.a.ready.set("subscription "+at.team+"."+at.name, nil)
	s.a.log.Warn("a subscription may not read one of its sources and does not run; its positions stay, and what is open waits", "subscription", at.team+"."+at.name, "reason", why,
		"run", "forebay attention --kind "+api.KindBarred)
	if stop != nil {
		stop()
	}
}

// start runs a subscription in g, unless it is barred, until it is.
func (s *streams) start(ctx context.Context, g *errgroup.Group, l *ledger.Ledger, at nameInTeam) {
	g.Go(func() error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		s.mu.Lock()
		s.stops[at] = stop
		_, barred := s.bars[at]
		s.mu.Unlock()
		if barred || !s.awaitTopics(ctx, at) {
			return nil
		}
		err := s.subscription(ctx, l, at)
		if s.barred(at) != "" && (err == nil || errors.Is(err, context.Canceled)) {
			s.a.ready.set("subscription "+at.team+"."+at.name, nil) // it may have been set while it was being stopped
			s.a.log.Info("the subscription is stopped", "subscription", at.team+"."+at.name)
			return nil
		}
		return err
	})
}

// noLongerBarred returns which barred subscriptions a configuration would let run: they need a restart.
func (s *streams) noLongerBarred(c *config.Config) (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.bars {
		if c.Barred(at.team, at.name) == "" {
			paths = append(paths, "teams."+at.team+".subscriptions."+at.name+".sources")
		}
	}
	slices.Sort(paths)
	return paths
}

// barredRows lists the subscriptions that do not run because of a source. The process has the stream role.
func (t *attention) barredRows() (rows []api.AttentionItem) {
	s := t.a.stream
	rows = t.withoutTopicsRows()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, b := range s.bars {
		rows = append(rows, barredRow(at, b, t.a.cfg.Path))
	}
	slices.SortFunc(rows, func(a, b api.AttentionItem) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// barredRow returns a barred subscription as the list has it. file is the configuration's.
func barredRow(at nameInTeam, b barring, file string) api.AttentionItem {
	return api.AttentionItem{Kind: api.KindBarred, ID: at.team + "." + at.name, Team: at.team, Subscription: at.name, Reason: "not_shared", Since: timeOrNull(b.since),
		Detail: b.why + "; or take it out of the subscription's sources. It runs again after a restart", Command: "forebay config check -c " + quoted(file)}
}
