package app

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

const (
	questionsAgain  = time.Second      // until the ledger is asked again that did not answer
	questionsAtOnce = 20               // how many are told at once
	questionTimeout = 30 * time.Second // of one try, where the destination's is not shorter
	questionHeld    = time.Minute      // after which another process tries, if this one is killed meanwhile
	questionTurn    = 2 * time.Second  // how long one waits for its turn at the destination
	questionLater   = 10 * time.Second // until a destination is asked again that takes no calls now
	questionAway    = 20 * time.Second // until one is asked again that takes none until somebody resumes it, or its breaker closes
	questionMost    = 5 * time.Minute  // between tries
)

// tellQuestions tells destinations which actions wait for a person's word, as approval.ask has it, and that they do no more, until ctx is done. The ledger has whom is still to be
// told of what: a process that is killed leaves it to the others. No lane waits for it, and an approval may be given before.
func (s *streams) tellQuestions(ctx context.Context, l *ledger.Ledger) {
	wakes := make(chan struct{}, 1) // never closed
	defer l.WatchUntold(func() {
		select {
		case wakes <- struct{}{}:
		default:
		}
	})()
	failing := false
	for ctx.Err() == nil {
		due, err := l.TakeUntold(ctx, questionHeld, questionsAtOnce)
		if err != nil && !failing && ctx.Err() == nil {
			s.a.log.Warn("which destinations are to be told of approvals that wait cannot be read; trying again", "error", err)
		}
		failing = err != nil
		var all sync.WaitGroup
		for i := range due {
			all.Go(func() { s.tellQuestion(ctx, l, &due[i]) })
		}
		all.Wait()
		var again <-chan time.Time
		if failing {
			again = time.After(questionsAgain)
		}
		select {
		case <-ctx.Done():
		case <-wakes:
		case <-again:
		}
	}
}

// tellQuestion tries once to tell of a question, or that it has ended, and keeps what came of it.
func (s *streams) tellQuestion(ctx context.Context, l *ledger.Ledger, a *ledger.Approval) {
	log := s.a.log.With("approval", a.ID, "destination", a.Asks)
	how := s.tryQuestion(ctx, log, a)
	how.End = a.State != ledger.ApprovalWaiting
	switch {
	case how.End && how.Told:
		log.Debug("the destination was told that a question for approval has ended", "state", a.State)
	case how.End && how.Again > 0:
		log.Warn("the destination could not be told that a question for approval has ended; trying again", "in", how.Again, "error", how.Error)
	case how.End && !how.NotMade:
		log.Warn("the destination does not take it that a question for approval has ended: close by hand what the question has opened there", "error", how.Error)
	case how.Told:
		log.Info("the destination was told that an action waits for approval")
	case how.NotMade:
		log.Debug("the destination is told later that an action waits for approval", "why", how.Error)
	case how.Again > 0:
		log.Warn("the destination could not be told that an action waits for approval; trying again", "in", how.Again, "error", how.Error)
	default:
		log.Error("the destination does not take the question for an approval, and is not told: mend it; `forebay approvals list` has the question", "error", how.Error)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := l.EndTelling(ending, a.ID, how); err != nil {
		log.Warn("the ledger does not know whether the destination was told of a question: it is told again under the same key", "error", err)
	}
}

// tryQuestion makes one attempt, in the destination's turn: not while it is paused, on hold or out of tokens, nor while the subscription is paused.
func (s *streams) tryQuestion(ctx context.Context, log *slog.Logger, a *ledger.Approval) ledger.Telling {
	file := s.a.file()
	d, ok := file.Destination(a.Team, a.Asks)
	made := s.destination(d.FullName())
	tells := d
	if ended := a.State != ledger.ApprovalWaiting; ok && ended {
		tells = d.ForEnds()
	} else if ok {
		tells = d.ForQuestions()
	}
	switch {
	case !ok || made.Shared == nil:
		return ledger.Telling{Error: "team " + a.Team + " has no destination " + a.Asks + " any more", Again: questionMost}
	case s.pauses.of(nameInTeam{a.Team, a.Subscription}).Paused != nil:
		return ledger.Telling{NotMade: true, Error: "its subscription is paused", Again: questionLater}
	}
	switch made.Shared.Status().State { // no turn is waited for, in which the questions of others would wait
	case destination.StatePaused, destination.StateOnHold, destination.StateOpen:
		return ledger.Telling{NotMade: true, Error: takesNone(d.FullName()), Again: questionAway}
	}
	act, err := alerts.NewQuestion(a, s.a.consoleURL()).Do(d.FullName(), d.Type)
	if err != nil {
		return ledger.Telling{Error: err.Error()}
	}
	if act.Attempt = a.TellTries; a.TellFirst != nil {
		act.FirstAt = *a.TellFirst
	}
	act.Made = a.Made
	its, err := newSink(file, tells, nil, log)
	if err != nil {
		return ledger.Telling{Error: err.Error()}
	}
	defer func() {
		if err := its.Close(context.WithoutCancel(ctx)); err != nil {
			log.Warn("close what told a question", "error", err)
		}
	}()
	turn := make(chan struct{}, 1)
	user := made.Shared.Join(a.Team, func() {
		select {
		case turn <- struct{}{}:
		default:
		}
	})
	defer user.Leave()
	answer, permit := user.Take()
	if answer == destination.Wait {
		waiting, cancel := context.WithTimeout(ctx, questionTurn)
		select {
		case <-turn:
			answer, permit = user.Take()
		case <-waiting.Done():
		}
		cancel()
	}
	if answer != destination.Go {
		return ledger.Telling{NotMade: true, Error: takesNone(d.FullName()), Again: questionLater}
	}
	attempt, cancel := context.WithTimeout(ctx, min(made.Timeout, questionTimeout))
	defer cancel()
	out, err := its.Do(attempt, act)
	class := sink.ClassOf(err)
	if err == nil {
		user.End(permit, &destination.Outcome{Class: class, Code: out.Code})
		return ledger.Telling{Told: true, Made: out.Made}
	}
	if ctx.Err() != nil { // the process stops: that says nothing about the destination
		user.End(permit, nil)
		return ledger.Telling{Error: "the process that told it was stopped", Again: cmp.Or(made.Settle, time.Second)}
	}
	user.End(permit, &destination.Outcome{Class: class, Code: out.Code, RetryAfter: out.RetryAfter, Error: err.Error()})
	how := ledger.Telling{Error: err.Error()}
	if class.Retried() {
		how.Again = max(min(time.Second<<min(a.TellTries, 10), questionMost), made.Settle, min(out.RetryAfter, time.Hour))
	}
	return how
}

func takesNone(name string) string {
	return "it takes no calls now: `forebay destinations get " + name + "` says why"
}

// consoleURL is where the console is.
func (a *App) consoleURL() string {
	at := a.file().Operator.PublicURL
	if at == "" {
		at = "http://" + a.operator.Addr().String()
	}
	return at + "/console"
}
