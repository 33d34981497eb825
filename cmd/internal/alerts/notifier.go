package alerts

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Board is what processes know together: which alerts were told, and which are silenced. *[ledger.Ledger] is one.
type Board interface {
	NotifyAlert(ctx context.Context, t *ledger.FiringAlert, silenced bool, repeat, hold time.Duration) (notify bool, err error)
	SeenAlerts(ctx context.Context, keys []string) error
	TellingAlerts(ctx context.Context, firing, ended []string, repeat, hold time.Duration) error
	ToldAlerts(ctx context.Context, firing, ended []string) error
	EndedAlerts(ctx context.Context, after, hold time.Duration) ([]ledger.FiringAlert, error)
	Silences(ctx context.Context) ([]ledger.Silence, error)
}

// Silenced returns the silence of an alert with these labels that ends last, of all those that have not ended; nil if it has none. A silence
// without a team covers every team.
func Silenced(name string, labels map[string]string, all []ledger.Silence) *ledger.Silence {
	var last *ledger.Silence
	for i := range all {
		s := &all[i]
		if s.Alert == name && (s.Team == "" || s.Team == TeamOf(labels)) && s.Until.After(time.Now()) && (last == nil || s.Until.After(last.Until)) {
			last = s
		}
	}
	return last
}

// Config makes a [Notifier].
type Config struct {
	Rules     []Rule
	Every     time.Duration // between looks
	Repeat    time.Duration // between messages about one alert that goes on
	Receivers []*Receiver
	Gatherer  prometheus.Gatherer
	// Board returns what is shared with other processes. While it fails, or where it is nil, this process tells what it sees by itself.
	Board func() (Board, error)
	// Instance names this process, also after a restart. Where Board is nil it is in the labels and the text of what is told: others tell the same alert.
	Instance   string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Notifier asks rules and tells receivers.
type Notifier struct {
	cfg      Config
	tries    *prometheus.CounterVec
	seen     seen
	alerts   map[string]*Alert    // of the last look, by key
	fires    map[string]*fires    // by key
	sending  map[string]*delivery // the newest message, by key, until there is no more to do about it
	silences []ledger.Silence     // that were known last
	began    time.Time
	answers  time.Time // since when the board answers; zero: it failed the last time
	failing  bool      // the log has it that the board fails
}

// fires is an alert that fires, as this process knows it.
type fires struct {
	ledger.FiringAlert
	seen, told time.Time
	alone      bool // this process told it by itself, and the board has not been asked since
	missed     bool // nobody has taken what was sent last
}

// New returns a notifier. It does nothing before [Notifier.Run].
func New(cfg Config) (*Notifier, error) {
	n := &Notifier{cfg: cfg, fires: map[string]*fires{}, sending: map[string]*delivery{}, tries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forebay_alert_messages_total", Help: "Attempts to tell a receiver of an alert, by result: done or failed."}, []string{"receiver", "result"})}
	for _, r := range cfg.Receivers {
		r.waiting = make(chan *delivery, waitingMessages)
		n.tries.WithLabelValues(r.Name, "done")
		n.tries.WithLabelValues(r.Name, "failed")
	}
	return n, cfg.Registerer.Register(n.tries)
}

// boardWithin bounds what a look asks of the board.
const boardWithin = 5 * time.Second

// boardGrace is how long the board must have answered a process before the process ends what nobody has touched: others that see it fire come back
// to the board meanwhile, and a process that has just begun sees what there is to see.
const boardGrace = 30 * time.Second

// unseenFor is how long nobody must have seen an alert fire for it to have ended.
func (n *Notifier) unseenFor() time.Duration { return max(4*n.cfg.Every, 5*time.Second) }

// Run looks until ctx is done, and then closes the receivers' sinks. What was not told by then another process tells, that asks the same board.
func (n *Notifier) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range n.cfg.Receivers {
		running.Go(func() { r.run(ctx, n.cfg.Logger, n.tries) })
	}
	n.began = time.Now()
	tick := time.NewTicker(n.cfg.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		n.step(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	running.Wait()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), boardWithin)
	defer cancel()
	if board, err := n.board(asking); err == nil {
		_ = n.settle(asking, board) // what is not noted is told once more
	}
	for _, r := range n.cfg.Receivers {
		if err := r.Sink.Close(context.WithoutCancel(ctx)); err != nil {
			n.cfg.Logger.Warn("close receiver of alerts", "receiver", r.Name, "error", err)
		}
	}
}

// step looks once, sends what is due, and notes since when the ledger has answered.
func (n *Notifier) step(ctx context.Context, now time.Time) {
	families, err := n.cfg.Gatherer.Gather()
	if err != nil { // of what could be gathered there are families all the same
		n.cfg.Logger.Warn("metrics for alerts", "error", err)
	}
	n.find(families, now)
	n.markOver()
	asking, cancel := context.WithTimeout(ctx, boardWithin)
	defer cancel()
	switch err = n.notify(asking, now); {
	case err == nil && n.answers.IsZero():
		n.answers = now
		if n.failing {
			n.failing = false
			n.cfg.Logger.Info("the ledger answers again: of all processes, one sends each alert")
		}
	case err != nil:
		n.answers = time.Time{}
		if !n.failing && ctx.Err() == nil && now.Sub(n.began) >= boardGrace {
			n.failing = true
			n.cfg.Logger.Warn("the ledger does not answer: this process sends alerts on its own, so receivers may get them twice, "+
				"and it knows only the silences that it had read before", "error", err)
		}
	}
}

// find asks all rules what there is.
func (n *Notifier) find(families []*dto.MetricFamily, now time.Time) {
	n.seen.take(families, now)
	found := map[string]*Alert{}
	for i := range n.cfg.Rules {
		r := &n.cfg.Rules[i]
		for of, value := range r.find(&n.seen) {
			a := n.about(r, of, value)
			key := a.Key()
			if a.Since = now; n.alerts[key] != nil {
				a.Since = n.alerts[key].Since
			}
			a.Firing, found[key] = now.Sub(a.Since) >= r.For, a
		}
	}
	n.alerts = found
}

// about returns a rule's alert: where no board says what others see, as that of this process.
func (n *Notifier) about(r *Rule, of [2]string, value float64) *Alert {
	a := newAlert(r, of, value)
	if n.cfg.Board == nil {
		a.Labels["instance"], a.instance = n.cfg.Instance, n.cfg.Instance
	}
	return a
}

// goesOn returns the keys of what has not ended without firing: it has not been there for long again, or this process cannot tell yet.
func (n *Notifier) goesOn() (keys []string) {
	for key, a := range n.alerts {
		if !a.Firing {
			keys = append(keys, key)
		}
	}
	for i := range n.cfg.Rules {
		if r := &n.cfg.Rules[i]; r.may != nil {
			for of, value := range r.may(&n.seen) {
				keys = append(keys, n.about(r, of, value).Key())
			}
		}
	}
	return keys
}

// board returns what is known together, and reads the silences of it; nil if there is none.
func (n *Notifier) board(ctx context.Context) (Board, error) {
	if n.cfg.Board == nil {
		return nil, nil
	}
	b, err := n.cfg.Board()
	if err != nil {
		return nil, err
	}
	found, err := b.Silences(ctx)
	if err != nil {
		return nil, err
	}
	n.silences = found
	return b, nil
}

// notify sends what has begun, what is still there after Repeat, and what has ended. If the board fails, this process does so for what it sees
// itself, and the error says why; of what others know, too, it sends the end once the board answers.
func (n *Notifier) notify(ctx context.Context, now time.Time) error {
	board, err := n.board(ctx)
	if err != nil && now.Sub(n.began) < boardGrace {
		return err // the ledger is not open yet; it knows what others told
	}
	if failed := n.settle(ctx, board); failed != nil {
		board, err = nil, failed
	}
	for _, key := range slices.Sorted(maps.Keys(n.alerts)) {
		if !n.alerts[key].Firing {
			continue
		}
		if failed := n.tell(ctx, board, key, now); failed != nil {
			board, err = nil, failed
			_ = n.tell(ctx, nil, key, now) // never fails
		}
	}
	held := n.goesOn()
	n.forget(held, now)
	if board == nil {
		return err
	}
	if err := board.SeenAlerts(ctx, held); err != nil || n.answers.IsZero() || now.Sub(n.answers) < max(boardGrace, n.unseenFor()) {
		return err
	}
	ended, err := board.EndedAlerts(ctx, n.unseenFor(), n.hold())
	for i := range ended {
		n.send(message(resolved, &ended[i], nil, now), false)
	}
	return err
}

// tell sends that an alert fires, if that is due by what the board knows; without one, by what this process knows.
func (n *Notifier) tell(ctx context.Context, board Board, key string, now time.Time) error {
	a, f := n.alerts[key], n.fires[key]
	if f == nil {
		f = &fires{FiringAlert: ledger.FiringAlert{Key: key, Name: a.Rule.Name, Severity: a.Rule.Severity, Labels: a.Labels, Since: a.Since}}
		n.fires[key] = f
	}
	f.Summary, f.seen = a.summary(), now
	silenced := Silenced(f.Name, f.Labels, n.silences) != nil
	due := !silenced && now.Sub(f.told) >= n.cfg.Repeat
	alone := f.alone || due
	if board != nil {
		notify, err := board.NotifyAlert(ctx, &f.FiringAlert, silenced, n.cfg.Repeat, n.hold())
		if err != nil {
			return err
		}
		due, alone = notify && (!f.alone || f.missed), false
		if notify && !due { // this process has told it, or is about to
			n.known(&f.FiringAlert, now)
		}
	}
	f.alone = alone
	if due || f.told.IsZero() && !silenced { // else another has told it
		f.told = now
	}
	if due {
		f.missed = false
		n.send(message(firing, &f.FiringAlert, &a.Value, now), board == nil)
	}
	return nil
}

// forget drops what has ended here, and sends the end of what nobody else knows.
func (n *Notifier) forget(held []string, now time.Time) {
	for _, key := range held {
		if f := n.fires[key]; f != nil {
			f.seen = now
		}
	}
	for _, key := range slices.Sorted(maps.Keys(n.fires)) {
		if f := n.fires[key]; now.Sub(f.seen) > n.unseenFor() {
			if delete(n.fires, key); f.alone {
				n.send(message(resolved, &f.FiringAlert, nil, now), true)
			}
		}
	}
}
