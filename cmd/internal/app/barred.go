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

// barring is why a subscription does not run: it may not read one of its sources, another team's, or cannot be made as the file has it.
type barring struct {
	reason string // not_shared, or cannot_be_made
	why    string
	since  time.Time
}

// barred returns why a subscription does not run; empty if it may.
func (s *streams) barred(at nameInTeam) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bars[at].why
}

// countBarred returns how many subscriptions do not run, for whatever reason.
func (s *streams) countBarred() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bars)
}

// barAll bars the subscriptions of this process for which there is a reason, which why returns.
func (s *streams) barAll(why func(at nameInTeam) string) {
	for _, at := range s.runs() {
		if s.barred(at) != "" {
			continue
		}
		if why := why(at); why != "" {
			s.bar(at, "not_shared", why+"; or take it out of the subscription")
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
func (s *streams) bar(at nameInTeam, reason, why string) {
	s.mu.Lock()
	s.bars[at] = barring{reason, why, time.Now()}
	stop := s.stops[at]
	s.mu.Unlock()
	s.a.ready.set("subscription "+at.team+"."+at.name, nil)
	s.a.log.Warn("a subscription does not run; its positions stay, and what is open waits", "subscription", at.team+"."+at.name, "reason", why,
		"run", "forebay attention --kind "+api.KindBarred)
	if stop != nil {
		stop()
	}
}

// restart has a subscription begin, again if it runs, as the file has it then. It ends if the file has it no more or it is barred.
func (s *streams) restart(at nameInTeam) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop, runs := s.stops[at]
	switch {
	case runs:
		s.again[at] = true
		stop()
	case s.begin != nil:
		s.begin(at)
	case !s.a.file().Runs(at.team, at.name): // it has never begun: Postgres has not answered yet
		s.ended(at)
	}
}

// start runs a subscription in g, again and again as long as it is asked to begin again, until it may not run any more or ctx is done. The
// caller holds mu.
func (s *streams) start(ctx context.Context, g *errgroup.Group, l *ledger.Ledger, at nameInTeam) {
	mine, stop := s.stoppable(ctx, at)
	later := s.started
	g.Go(func() error {
		for ; ; later = true {
			var err error
			if s.mayRun(at) && s.awaitTopics(mine, at) {
				err = s.subscription(mine, l, at, later)
			}
			stop()
			s.mu.Lock()
			again := s.again[at]
			_, barred := s.bars[at]
			delete(s.again, at)
			if onPurpose := (again || barred) && (err == nil || errors.Is(err, context.Canceled)); err != nil && !onPurpose || ctx.Err() != nil || !again || barred || !s.a.file().Runs(at.team, at.name) {
				s.ended(at)
				s.mu.Unlock()
				if onPurpose {
					err = nil
				}
				return err
			}
			mine, stop = s.stoppable(ctx, at) //nolint:fatcontext // it is made of ctx, not of the one before
			s.mu.Unlock()
		}
	})
}

// stoppable returns a context for a subscription to run with until it is stopped. The caller holds mu.
func (s *streams) stoppable(ctx context.Context, at nameInTeam) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	s.stops[at] = stop
	return ctx, stop
}

// mayRun reports whether a subscription is in the file, is this process's, and is not barred.
func (s *streams) mayRun(at nameInTeam) bool {
	return s.barred(at) == "" && s.a.file().Runs(at.team, at.name)
}

// ended forgets a subscription that runs no more. One that is barred is ready, and one that is not in the file is nothing to wait for. The caller
// holds mu.
func (s *streams) ended(at nameInTeam) {
	delete(s.stops, at)
	s.pauses.wake() // for the gauge
	name := at.team + "." + at.name
	switch _, barred := s.bars[at]; {
	case !s.a.file().Runs(at.team, at.name):
		delete(s.bars, at)
		s.a.ready.forget("subscription " + name)
	case barred:
		s.a.ready.set("subscription "+name, nil) // it may have been set while it was being stopped
	default:
		return
	}
	delete(s.subs, at)
	delete(s.lanesOf, at)
	delete(s.spaces, at)
	s.a.log.Info("the subscription is stopped", "subscription", name)
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
	return api.AttentionItem{Kind: api.KindBarred, ID: at.team + "." + at.name, Team: at.team, Subscription: at.name, Reason: b.reason, Since: timeOrNull(b.since),
		Detail: b.why + ". It runs again within seconds", Command: "forebay config check -c " + quoted(file)}
}
