package alerts

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Config makes an [Evaluator].
type Config struct {
	Rules     []Rule
	Every     time.Duration // between evaluations
	Repeat    time.Duration // between messages about one alert that goes on
	Receivers []*Receiver
	Gatherer  prometheus.Gatherer
	// Board returns what is shared with other processes. While it fails, or where it is nil, this process goes by what it has told itself.
	Board func() (Board, error)
	// Instance names this process, also after a restart. Where Board is nil it is in the labels and the text of what is told: others tell the same alert.
	Instance   string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Evaluator evaluates rules and tells receivers. States and Silences may be asked while it runs.
type Evaluator struct {
	cfg          Config
	tries        *prometheus.CounterVec
	history      *History
	states       *states
	own          *memory
	began        time.Time
	answers      time.Time                     // since when the board answers; zero: it failed the last time
	boardFailing bool                          // the log has it that the board fails
	alone        map[string]ledger.FiringAlert // told by this process while the board failed, and not on the board yet; by key

	mu       sync.Mutex
	alerts   []Alert // of the last evaluation
	silences []ledger.Silence
}

// New returns an evaluator. It does nothing before [Evaluator.Run].
func New(cfg Config) (*Evaluator, error) {
	e := &Evaluator{cfg: cfg, history: NewHistory(cfg.Rules), states: newStates(cfg.Rules), own: newMemory(), alone: map[string]ledger.FiringAlert{}, tries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forebay_alert_messages_total", Help: "Attempts to tell a receiver of an alert, by result: done or failed."}, []string{"receiver", "result"})}
	for _, r := range cfg.Receivers {
		r.waiting = make(chan Message, waitingMessages)
		e.tries.WithLabelValues(r.Name, "done")
		e.tries.WithLabelValues(r.Name, "failed")
	}
	return e, cfg.Registerer.Register(e.tries)
}

// boardWithin bounds what an evaluation asks of the board.
const boardWithin = 5 * time.Second

// Run evaluates until ctx is done, and then closes the receivers' sinks. Messages that were not told by then are lost: an alert that goes on
// is told again by the next process, after Repeat.
func (e *Evaluator) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range e.cfg.Receivers {
		running.Go(func() { r.run(ctx, e.cfg.Logger, e.tries) })
	}
	e.began = time.Now()
	tick := time.NewTicker(e.cfg.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		e.step(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	running.Wait()
	for _, r := range e.cfg.Receivers {
		if err := r.Sink.Close(context.WithoutCancel(ctx)); err != nil {
			e.cfg.Logger.Warn("close receiver of alerts", "receiver", r.Name, "error", err)
		}
	}
}

// unseenFor is how long nobody must have seen an alert fire for it to have ended.
func (e *Evaluator) unseenFor() time.Duration { return max(4*e.cfg.Every, 5*time.Second) }

// boardGrace is how long the board must have answered a process before the process ends what nobody has touched: others that see it fire come back
// to the board meanwhile, and a process that has just begun sees what there is to see.
const boardGrace = 30 * time.Second

// step evaluates the alerts once, sends what is due, and notes since when the ledger has answered.
func (e *Evaluator) step(ctx context.Context, now time.Time) {
	families, err := e.cfg.Gatherer.Gather()
	if err != nil { // of what could be gathered there are families all the same
		e.cfg.Logger.Warn("metrics for alerts", "error", err)
	}
	e.history.Record(families, now)
	e.states.evaluate(e.history, now)
	asking, cancel := context.WithTimeout(ctx, boardWithin)
	defer cancel()
	err = e.notify(asking, now)
	switch {
	case err != nil:
		e.answers = time.Time{}
	case e.answers.IsZero():
		e.answers = now
	}
	if ctx.Err() == nil && (err == nil || now.Sub(e.began) >= boardGrace) {
		e.logBoardFailing(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alerts = nil
	for _, a := range e.states.list(func(*Alert) bool { return true }) {
		e.alerts = append(e.alerts, *a)
	}
}

// logBoardFailing logs when the board begins to fail, and when it no longer does.
func (e *Evaluator) logBoardFailing(err error) {
	switch {
	case err != nil && !e.boardFailing:
		e.cfg.Logger.Warn("the ledger does not answer: this process sends alerts on its own, so receivers may get them twice, "+
			"and it knows only the silences that it had read before", "error", err)
	case err == nil && e.boardFailing:
		e.cfg.Logger.Info("the ledger answers again: of all processes, one sends each alert")
	}
	e.boardFailing = err != nil
}

// board returns where it is known what was told, and whether others know it, too.
func (e *Evaluator) board() (Board, error) {
	if e.cfg.Board == nil {
		return e.own, nil
	}
	return e.cfg.Board()
}

// notify sends what has begun and what has ended. If the board fails, it sends what has begun by what this process knows, and returns why;
// what has ended is sent once the board answers.
func (e *Evaluator) notify(ctx context.Context, now time.Time) error {
	board, err := e.board()
	if err == nil {
		var found []ledger.Silence
		if found, err = board.Silences(ctx); err == nil {
			e.mu.Lock()
			e.silences = found
			e.mu.Unlock()
			err = e.share(ctx, board)
		}
	}
	if err != nil && now.Sub(e.began) < boardGrace {
		return err // the ledger is not open yet; it knows what others told
	}
	held := e.states.unsure(e.history, now) // and what goes on without being told: those of it that were told have not ended
	for _, a := range e.states.list(func(*Alert) bool { return true }) {
		a = e.seenHere(a)
		t := &ledger.FiringAlert{Key: a.Key(), Name: a.Rule.Name, Severity: a.Rule.Severity, Labels: a.Labels, Summary: a.Summary, Since: a.Since}
		if !a.Firing || Silenced(a, e.Silences(now)) != nil {
			held = append(held, t.Key)
			continue
		}
		var due bool
		if err == nil {
			due, err = board.NotifyAlert(ctx, t, e.cfg.Repeat)
		}
		if board != e.own || err != nil { // what the board had told is known here, too, for when it fails
			here, _ := e.own.NotifyAlert(ctx, t, e.cfg.Repeat)
			if err != nil && here {
				due, e.alone[t.Key] = true, *t
			}
		}
		if due {
			e.send(firingMessage(a, t, now))
		}
	}
	if board != e.own {
		_ = e.own.SeenAlerts(ctx, held) // never fails, nor does EndedAlerts
	}
	if err == nil && len(held) > 0 {
		err = board.SeenAlerts(ctx, held)
	}
	if err != nil || e.answers.IsZero() || now.Sub(e.answers) < max(boardGrace, e.unseenFor()) {
		return err
	}
	ended, err := board.EndedAlerts(ctx, e.unseenFor())
	for i := range ended {
		e.send(resolvedMessage(&ended[i], now))
	}
	if board != e.own {
		_, _ = e.own.EndedAlerts(ctx, e.unseenFor())
	}
	return err
}

// share puts on the board what this process told while the board failed. So it is not told once more, and its end is found and told as any
// other's, by one process.
func (e *Evaluator) share(ctx context.Context, board Board) error {
	for _, key := range sortedKeys(e.alone) {
		t := e.alone[key]
		if _, err := board.NotifyAlert(ctx, &t, e.cfg.Repeat); err != nil {
			return err
		}
		delete(e.alone, key)
	}
	return nil
}

// seenHere returns an alert as it is told: where no board says what others see, as that of this process.
func (e *Evaluator) seenHere(a *Alert) *Alert {
	if e.cfg.Board != nil {
		return a
	}
	own := *a
	own.Labels = maps.Clone(a.Labels)
	own.Labels["instance"] = e.cfg.Instance
	own.Summary = strings.TrimSuffix(a.Summary, ".") + ", as " + e.cfg.Instance + " sees it."
	return &own
}

// send puts a message behind those that wait for each receiver that wants it.
func (e *Evaluator) send(m Message) {
	e.cfg.Logger.Warn("alert "+m.Status, "alert", m.key, "severity", m.Severity, "summary", m.Summary, "runbook", m.RunbookURL)
	for _, r := range e.cfg.Receivers {
		if !r.Wants(m.Severity) {
			continue
		}
		select {
		case r.waiting <- m:
		default:
			e.tries.WithLabelValues(r.Name, "failed").Inc()
			e.cfg.Logger.Error("an alert was not sent: too many messages wait for its receiver; check the receiver in alerts.receivers", "receiver", r.Name, "alert", m.key)
		}
	}
}

// Alerts returns what has a sample since the last evaluation.
func (e *Evaluator) Alerts() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Alert(nil), e.alerts...)
}

// Silences returns the silences that were known last, without those whose time is over.
func (e *Evaluator) Silences(now time.Time) (list []ledger.Silence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.silences {
		if s.Until.After(now) {
			list = append(list, s)
		}
	}
	return list
}
