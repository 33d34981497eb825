package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told is a sink that keeps what it is told, and fails as fail says.
type told struct {
	mu    sync.Mutex
	got   []string // "status alert{labels} at a time since the beginning"
	keys  map[schemas.ActionID]bool
	last  Message
	began time.Time
	fail  func(n int) error // of the nth attempt
	tries int
}

func (s *told) Do(_ context.Context, a sink.Action) (sink.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.fail != nil {
		if err := s.fail(s.tries); err != nil {
			return sink.Outcome{}, err
		}
	}
	var m Message
	if err := json.Unmarshal(a.Event.Data, &m); err != nil {
		return sink.Outcome{}, err
	}
	if s.keys[a.ID] || a.Event.Source != source || string(a.Event.Entity) == "" || a.Event.Type != "forebay.alert."+m.Status || m.RunbookURL == "" {
		return sink.Outcome{}, fmt.Errorf("%+v %+v", a, m)
	}
	s.keys[a.ID], s.last = true, m
	s.got = append(s.got, fmt.Sprintf("%s %s %s", m.Status, a.Event.Entity, time.Since(s.began)))
	return sink.Outcome{Code: 200}, nil
}
func (s *told) Close(context.Context) error   { return nil }
func (s *told) Idempotency() sink.Idempotency { return sink.Idempotent }

func (s *told) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

// board is a ledger as notifiers know it, which fails when it is told to.
type board struct {
	mu       sync.Mutex
	firing   map[string]*row
	fails    bool
	silences []ledger.Silence
}

// row is an alert of the ledger.
type row struct {
	ledger.FiringAlert
	seen, told, ended time.Time
}

func (b *board) set(fails bool, silences ...ledger.Silence) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.silences = fails, silences
}

func (b *board) NotifyAlert(_ context.Context, t *ledger.FiringAlert, silenced bool, repeat, hold time.Duration) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.firing[t.Key]
	if f == nil {
		f = &row{FiringAlert: *t}
		b.firing[t.Key] = f
	}
	t.Since, f.Summary, f.seen = f.Since, t.Summary, time.Now()
	if !f.ended.IsZero() && time.Since(f.ended) < hold {
		return false, nil
	}
	again := !f.ended.IsZero()
	if f.ended = (time.Time{}); silenced || !again && time.Since(f.told) < repeat {
		return false, nil
	}
	f.told = time.Now().Add(hold - repeat)
	return true, nil
}

func (b *board) SeenAlerts(_ context.Context, keys []string) error {
	b.each(keys, false, func(f *row) { f.seen = time.Now() })
	return nil
}

func (b *board) TellingAlerts(_ context.Context, firing, ended []string, repeat, hold time.Duration) error {
	b.each(firing, false, func(f *row) { f.told = time.Now().Add(hold - repeat) })
	b.each(ended, true, func(f *row) { f.ended = time.Now() })
	return nil
}

func (b *board) ToldAlerts(_ context.Context, firing, ended []string) error {
	b.each(firing, false, func(f *row) { f.told = time.Now() })
	b.each(ended, true, func(f *row) { delete(b.firing, f.Key) })
	return nil
}

// each changes those of the keys that have ended, or have not.
func (b *board) each(keys []string, ended bool, change func(*row)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if f := b.firing[key]; f != nil && f.ended.IsZero() != ended {
			change(f)
		}
	}
}

func (b *board) EndedAlerts(_ context.Context, after, hold time.Duration) (ended []ledger.FiringAlert, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, f := range b.firing {
		switch {
		case time.Since(f.seen) <= after:
		case f.told.IsZero():
			delete(b.firing, key)
		case time.Since(f.ended) > hold:
			f.ended, ended = time.Now(), append(ended, f.FiringAlert)
		}
	}
	return ended, nil
}

func (b *board) Silences(context.Context) ([]ledger.Silence, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails {
		return nil, errors.New("no Postgres")
	}
	return append([]ledger.Silence(nil), b.silences...), nil
}

// newBoard returns a board, and how a notifier asks for it.
func newBoard() (*board, func() (Board, error)) {
	b := &board{firing: map[string]*row{}}
	return b, func() (Board, error) { return b, nil }
}

// world is a notifier with one rule over one gauge.
type world struct {
	sink  *told
	gauge *prometheus.GaugeVec
	stop  func() // as the end of the process; may be called twice
}

func newWorld(t *testing.T, board func() (Board, error), change func(*Config)) *world {
	t.Helper()
	reg := prometheus.NewRegistry()
	w := &world{sink: &told{began: time.Now(), keys: map[schemas.ActionID]bool{}}, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "forebay_test_parked", Help: "x"}, []string{"subscription"})}
	reg.MustRegister(w.gauge)
	cfg := Config{
		Rules: []Rule{{Name: "ForebayTest", Severity: Warning, For: 30 * time.Second, Summary: "{{ $labels.subscription }} has {{ $value }}.",
			By: []string{"subscription"}, find: func(s *seen) counts { return s.of("forebay_test_parked").by(sum, "subscription").above(0) }}},
		Every: 10 * time.Second, Repeat: time.Hour, Gatherer: reg, Registerer: reg, Logger: slog.New(slog.DiscardHandler), Board: board, Instance: "a:1",
		Receivers: []*Receiver{{Name: "room", Sink: w.sink, Wants: func(string) bool { return true }, Timeout: time.Second}},
	}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	w.stop = func() { stop(); running.Wait() }
	t.Cleanup(w.stop)
	synctest.Wait() // what a test sets is seen by the second look, not by chance by the first
	return w
}

func is(t *testing.T, what string, have []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// An alert is told once it has held for as long as its rule wants, again once Repeat has passed, and when it has ended; one that passes
// before is not.
func TestToldRepeatedResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, nil)
		time.Sleep(5 * time.Second)
		w.gauge.WithLabelValues("acme.short").Set(1)
		w.gauge.WithLabelValues("acme.fulfil").Set(2)
		time.Sleep(20 * time.Second)
		w.gauge.WithLabelValues("acme.short").Set(0)
		time.Sleep(100 * time.Minute)
		w.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(5 * time.Minute)
		const key = `ForebayTest{instance="a:1",subscription="acme.fulfil"}`
		is(t, "told", w.sink.all(), "firing "+key+" 40s", "firing "+key+" 1h0m40s", "resolved "+key+" 1h41m10s")
	})
}

// Two processes that share a board tell what begins and what ends once, also where only one of them sees it, and one that dies while it
// fires leaves its end to the other.
func TestTwoProcessesTellOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, board := newBoard()
		a, b := newWorld(t, board, nil), newWorld(t, board, nil)
		for _, w := range []*world{a, b} {
			w.gauge.WithLabelValues("acme.both").Set(1)
		}
		a.gauge.WithLabelValues("acme.one").Set(1)
		time.Sleep(5 * time.Minute)
		for _, w := range []*world{a, b} {
			w.gauge.WithLabelValues("acme.both").Set(0)
		}
		time.Sleep(5 * time.Minute)
		all := append(a.sink.all(), b.sink.all()...)
		count := map[string]int{}
		for _, line := range all {
			status, rest, _ := strings.Cut(line, " ")
			key, _, _ := strings.Cut(rest, " ")
			count[status+" "+key]++
		}
		want := map[string]int{`firing ForebayTest{subscription="acme.both"}`: 1, `resolved ForebayTest{subscription="acme.both"}`: 1, `firing ForebayTest{subscription="acme.one"}`: 1}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Error(diff, all)
		}
	})
}

// While the ledger does not answer, a process tells what begins by itself, once, and what ends when it answers again. What was told before or
// meanwhile is not told again.
func TestToldWithoutTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board, ask := newBoard()
		w := newWorld(t, ask, nil)
		w.gauge.WithLabelValues("acme.before").Set(1)
		time.Sleep(5*time.Minute + time.Second)
		board.set(true)
		w.gauge.WithLabelValues("acme.meanwhile").Set(1)
		time.Sleep(5 * time.Minute)
		w.gauge.WithLabelValues("acme.before").Set(0)
		time.Sleep(5 * time.Minute)
		is(t, "without the ledger", w.sink.all(), `firing ForebayTest{subscription="acme.before"} 40s`, `firing ForebayTest{subscription="acme.meanwhile"} 5m40s`)
		board.set(false)
		time.Sleep(time.Minute)
		is(t, "with it again", w.sink.all()[2:], `resolved ForebayTest{subscription="acme.before"} 15m50s`)
	})
}

// What was told while the ledger did not answer, and was over before it did, is told to be over by each process that told it.
func TestOverBeforeTheLedgerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board, ask := newBoard()
		a, b := newWorld(t, ask, nil), newWorld(t, ask, nil)
		time.Sleep(5*time.Minute + time.Second)
		board.set(true)
		for _, w := range []*world{a, b} {
			w.gauge.WithLabelValues("acme.fulfil").Set(1)
		}
		time.Sleep(5 * time.Minute)
		for _, w := range []*world{a, b} {
			w.gauge.WithLabelValues("acme.fulfil").Set(0)
		}
		time.Sleep(5 * time.Minute)
		board.set(false)
		time.Sleep(5 * time.Minute)
		for _, w := range []*world{a, b} {
			is(t, "told", w.sink.all(), `firing ForebayTest{subscription="acme.fulfil"} 5m40s`, `resolved ForebayTest{subscription="acme.fulfil"} 10m50s`)
		}
	})
}

// roadTo is one process's way to a board.
type roadTo struct {
	board *board
	cut   atomic.Bool
}

func (r *roadTo) ask() (Board, error) {
	if r.cut.Load() {
		return nil, errors.New("no route")
	}
	return r.board, nil
}

// The first process that the ledger answers again ends nothing of what another still sees, which is answered later.
func TestBackBeforeTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, _ := newBoard()
		ofA, ofB := &roadTo{board: shared}, &roadTo{board: shared}
		a, b := newWorld(t, ofA.ask, nil), newWorld(t, ofB.ask, nil)
		time.Sleep(5 * time.Second)
		b.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(5 * time.Minute)
		ofA.cut.Store(true)
		ofB.cut.Store(true)
		time.Sleep(5 * time.Minute)
		ofA.cut.Store(false)
		time.Sleep(20 * time.Second)
		ofB.cut.Store(false)
		time.Sleep(5 * time.Minute)
		is(t, "told", append(a.sink.all(), b.sink.all()...), `firing ForebayTest{subscription="acme.fulfil"} 40s`)
	})
}

// A process that has just begun knows nothing of how long an alert has held, and of one that compares with the past not even that it does. What
// was told goes on all the same, until it is over.
func TestToldAlertOutlivesItsProcess(t *testing.T) {
	rules := Rules(Defaults())
	growth := rules[slices.IndexFunc(rules, func(r Rule) bool { return r.may != nil })]
	growth.For = 5 * time.Minute
	for name, rule := range map[string]Rule{"growth": growth, "a threshold": {Name: "ForebayTest", Severity: Warning, For: 5 * time.Minute, By: growth.By,
		find: func(s *seen) counts { return s.waiting(inbox.AttentionDead).above(0) }}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, board := newBoard()
				told := func(grows bool) []string {
					waiting := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "forebay_attention_waiting", Help: "x"}, []string{"kind", "team", "of"})
					value := waiting.WithLabelValues("dead_letter", "acme", "acme.fulfil")
					value.Set(1)
					w := newWorld(t, board, func(c *Config) {
						c.Registerer.MustRegister(waiting)
						c.Rules, c.Repeat = []Rule{rule}, 24*time.Hour
					})
					for range 30 {
						time.Sleep(time.Minute)
						if grows {
							value.Inc()
						}
					}
					if !grows {
						value.Set(0)
						time.Sleep(time.Minute + time.Second)
					}
					w.stop()
					var statuses []string
					for _, line := range w.sink.all() {
						status, _, _ := strings.Cut(line, " ")
						statuses = append(statuses, status)
					}
					return statuses
				}
				is(t, "at first", told(true), "firing")
				is(t, "after a restart", told(true))
				is(t, "after another, until it is over", told(false), "resolved")
			})
		})
	}
}

// Processes that share nothing tell the same alert as one of their own each: the end that one sees ends nothing of the other's.
func TestWithoutABoardAProcessTellsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newWorld(t, nil, nil), newWorld(t, nil, func(c *Config) { c.Instance = "b:1" })
		time.Sleep(5 * time.Second)
		for _, w := range []*world{a, b} {
			w.gauge.WithLabelValues("acme.fulfil").Set(1)
		}
		time.Sleep(5 * time.Minute)
		a.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(5 * time.Minute)
		is(t, "told", append(a.sink.all(), b.sink.all()...), `firing ForebayTest{instance="a:1",subscription="acme.fulfil"} 40s`,
			`resolved ForebayTest{instance="a:1",subscription="acme.fulfil"} 5m50s`, `firing ForebayTest{instance="b:1",subscription="acme.fulfil"} 40s`)
		if m := b.sink.last; m.Summary != "acme.fulfil has 1, as b:1 sees it." || m.Labels["instance"] != "b:1" || m.Team != "acme" {
			t.Errorf("%+v", m)
		}
	})
}

// A silenced alert is not told, of its team alone, until the silence ends; one that was told before has not ended meanwhile, and its end is told.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board, ask := newBoard()
		w := newWorld(t, ask, nil)
		silence := ledger.Silence{Alert: "ForebayTest", Team: "acme", Until: time.Now().Add(20 * time.Minute)}
		other := ledger.Silence{Alert: "ForebayTest", Team: "pay", Until: time.Now().Add(time.Hour)}
		board.set(false, silence, other)
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		w.gauge.WithLabelValues("beta.fulfil").Set(1)
		time.Sleep(10*time.Minute + time.Second)
		is(t, "silenced", w.sink.all(), `firing ForebayTest{subscription="beta.fulfil"} 40s`)
		board.set(false, ledger.Silence{Alert: "ForebayTest", Until: time.Now().Add(10 * time.Minute)})
		time.Sleep(5 * time.Minute)
		w.gauge.WithLabelValues("beta.fulfil").Set(0)
		time.Sleep(4 * time.Minute)
		is(t, "all are silenced, and one ends", w.sink.all()[1:], `resolved ForebayTest{subscription="beta.fulfil"} 15m50s`)
		time.Sleep(2 * time.Minute)
		is(t, "the silence is over", w.sink.all()[2:], `firing ForebayTest{subscription="acme.fulfil"} 20m10s`)
	})
}

// A receiver that fails is tried again under the same key, one that refuses gets a new message a little later, and one that wants other
// severities hears nothing.
func TestReceivers(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(n int) error
		want []string
	}{
		"fails twice":    {func(n int) error { return failure(n <= 2, sink.ClassBusy) }, []string{`firing ForebayTest{instance="a:1",subscription="acme.fulfil"} 43s`}},
		"refuses once":   {func(n int) error { return failure(n == 1, sink.ClassRejected) }, []string{`firing ForebayTest{instance="a:1",subscription="acme.fulfil"} 1m20s`}},
		"fails for long": {func(n int) error { return failure(n < 100, sink.ClassNetwork) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, nil)
				w.sink.fail = c.fail
				w.gauge.WithLabelValues("acme.fulfil").Set(1)
				time.Sleep(30 * time.Minute)
				is(t, "told", w.sink.all(), c.want...)
				w.sink.mu.Lock()
				defer w.sink.mu.Unlock()
				if w.sink.tries > 40 {
					t.Errorf("%d attempts", w.sink.tries)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(c *Config) { c.Receivers[0].Wants = func(severity string) bool { return severity == Critical } })
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(10 * time.Minute)
		is(t, "of warnings", w.sink.all())
		w.sink.mu.Lock()
		defer w.sink.mu.Unlock()
		if w.sink.tries != 0 {
			t.Errorf("%d attempts", w.sink.tries)
		}
	})
}

// down has a receiver fail until a time from now on.
func (s *told) down(until time.Duration) {
	back := time.Now().Add(until)
	s.fail = func(int) error { return failure(time.Now().Before(back), sink.ClassNetwork) }
}

// short cuts a line of what was told down to its status and when, and returns whether there is one.
func short(lines []string) (out []string) {
	for _, line := range lines {
		word := strings.Fields(line)
		out = append(out, word[0]+" "+word[len(word)-1])
	}
	return out
}

// What no receiver takes for as long as it is tried is told once one takes it again, long before Repeat: that an alert fires, and that it has
// ended; with a board and without.
func TestToldOnceTheReceiverIsBack(t *testing.T) {
	for name, shared := range map[string]bool{"with a board": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ask func() (Board, error)
				if shared {
					_, ask = newBoard()
				}
				w := newWorld(t, ask, func(c *Config) { c.Repeat = 4 * time.Hour })
				w.sink.down(16*time.Minute + 40*time.Second)
				w.gauge.WithLabelValues("acme.fulfil").Set(1)
				time.Sleep(time.Hour)
				w.sink.mu.Lock()
				w.sink.down(20 * time.Minute)
				w.sink.mu.Unlock()
				w.gauge.WithLabelValues("acme.fulfil").Set(0)
				time.Sleep(time.Hour)
				got := short(w.sink.all())
				if len(got) != 2 || !within(got[0], "firing", 16*time.Minute+40*time.Second) || !within(got[1], "resolved", 80*time.Minute) {
					t.Error(got)
				}
				time.Sleep(3 * time.Hour)
				is(t, "told once each", short(w.sink.all()), got...)
			})
		})
	}
}

// within returns whether a line has a status and a time of at most a minute and a half behind since.
func within(line, status string, since time.Duration) bool {
	was, text, _ := strings.Cut(line, " ")
	at, err := time.ParseDuration(text)
	return err == nil && was == status && at >= since && at <= since+90*time.Second
}

// What a process has not told before it ends, the next one tells.
func TestTheNextProcessTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ask := newBoard()
		begin := func(set float64, down time.Duration) *world {
			w := newWorld(t, ask, func(c *Config) { c.Repeat = 4 * time.Hour })
			w.sink.down(down)
			w.gauge.WithLabelValues("acme.fulfil").Set(set)
			return w
		}
		first := begin(1, time.Hour)
		time.Sleep(45 * time.Second)
		first.stop()
		second := begin(1, 0)
		time.Sleep(5 * time.Minute)
		got := short(second.sink.all())
		if len(got) != 1 || !within(got[0], "firing", 30*time.Second) {
			t.Error(got)
		}
		second.sink.mu.Lock()
		second.sink.down(time.Hour)
		second.sink.mu.Unlock()
		second.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(90 * time.Second)
		second.stop()
		third := begin(0, 0)
		time.Sleep(5 * time.Minute)
		if got := short(third.sink.all()); len(got) != 1 || !within(got[0], "resolved", 40*time.Second) {
			t.Error(got)
		}
	})
}

// What a process has sent without the ledger, and nobody has taken, does not count as told when the ledger answers again.
func TestMissedWithoutTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board, ask := newBoard()
		w := newWorld(t, ask, nil)
		time.Sleep(5*time.Minute + time.Second)
		board.set(true)
		w.sink.down(14*time.Minute + 45*time.Second) // it was given up just before
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(14*time.Minute + 45*time.Second)
		board.set(false)
		time.Sleep(30 * time.Minute)
		is(t, "told", short(w.sink.all()), "firing 19m50s")
	})
}

// What is on its way when the ledger answers again is not sent a second time.
func TestOnItsWayWhenTheLedgerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board, ask := newBoard()
		w := newWorld(t, ask, nil)
		time.Sleep(5*time.Minute + time.Second)
		board.set(true)
		w.sink.down(12 * time.Minute)
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(5 * time.Minute)
		board.set(false)
		time.Sleep(30 * time.Minute)
		if got := short(w.sink.all()); len(got) != 1 || !within(got[0], "firing", 17*time.Minute) {
			t.Error(got)
		}
	})
}

// A message that was taken just before its process ends is not told again by the next.
func TestTakenBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ask := newBoard()
		first := newWorld(t, ask, nil)
		first.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(41 * time.Second)
		first.stop()
		is(t, "told", short(first.sink.all()), "firing 40s")
		second := newWorld(t, ask, nil)
		second.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(50 * time.Minute)
		is(t, "told again", second.sink.all())
	})
}

// receiver adds a receiver of everything to a configuration.
func (c *Config) receiver(name string) *told {
	s := &told{began: time.Now(), keys: map[schemas.ActionID]bool{}}
	c.Receivers = append(c.Receivers, &Receiver{Name: name, Sink: s, Wants: func(string) bool { return true }, Timeout: time.Second})
	return s
}

// Where one receiver takes a message and another does not, the other is sent it until it takes it, and the first is not sent it again;
// nor is one that refuses it.
func TestOneReceiverMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ask := newBoard()
		var pager, refuses *told
		w := newWorld(t, ask, func(c *Config) {
			c.Repeat = 4 * time.Hour
			pager, refuses = c.receiver("pager"), c.receiver("refuses")
			refuses.fail = func(int) error { return failure(true, sink.ClassRejected) }
		})
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(5*time.Minute + time.Second)
		pager.mu.Lock()
		pager.down(40 * time.Minute)
		pager.mu.Unlock()
		w.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(3 * time.Hour)
		is(t, "one", short(w.sink.all()), "firing 40s", "resolved 5m50s")
		if got := short(pager.all()); len(got) != 2 || got[0] != "firing 40s" || !within(got[1], "resolved", 45*time.Minute) {
			t.Error(got)
		}
		refuses.mu.Lock()
		defer refuses.mu.Unlock()
		if refuses.tries != 2 {
			t.Errorf("%d attempts", refuses.tries)
		}
	})
}

// A silence that came since holds for a receiver that has missed the message, too.
func TestMissedAndSilenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ask := newBoard()
		var pager *told
		w := newWorld(t, ask, func(c *Config) {
			c.Repeat = 4 * time.Hour
			pager = c.receiver("pager")
			pager.down(40 * time.Minute)
		})
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(5 * time.Minute)
		b.set(false, ledger.Silence{Alert: "ForebayTest", Until: time.Now().Add(8 * time.Hour)})
		time.Sleep(3 * time.Hour)
		is(t, "what took it", short(w.sink.all()), "firing 40s")
		is(t, "what missed it", pager.all())
	})
}

// What one receiver has missed it is not sent any more once the alert has ended, which another process has told.
func TestMissedAndOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ask := newBoard()
		other := newWorld(t, ask, nil)
		time.Sleep(5 * time.Second) // it looks before this one
		var pager *told
		w := newWorld(t, ask, func(c *Config) {
			pager = c.receiver("pager")
			pager.down(15 * time.Minute)
		})
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(13*time.Minute + 55*time.Second) // it is given up at 14m43s, and over by then
		w.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(30 * time.Minute)
		is(t, "the other process", short(other.sink.all()), "resolved 14m40s")
		is(t, "what missed it", pager.all())
	})
}

func failure(is bool, class sink.Class) error {
	if !is {
		return nil
	}
	return &sink.AttemptError{Class: class, Err: errors.New("no")}
}

// Whose an alert is follows from its labels.
func TestTeam(t *testing.T) {
	t.Parallel()
	for want, labels := range map[string]map[string]string{
		"acme": {"team": "acme", "of": "acme.fulfil"}, "beta": {"subscription": "beta.fulfil"}, "pay": {"destination": "pay/shop"}, "": {"destination": "pagers"},
	} {
		if got := TeamOf(labels); got != want {
			t.Errorf("%v is %q's, want %q", labels, got, want)
		}
	}
}

// A process that still tries to tell that an alert fires, once it has passed and another process has told so, does not tell it any more.
func TestNoBeginningBehindTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ask := newBoard()
		other := newWorld(t, ask, nil)
		time.Sleep(5 * time.Second) // it looks before this one
		w := newWorld(t, ask, nil)
		w.sink.mu.Lock()
		w.sink.down(5 * time.Minute)
		w.sink.mu.Unlock()
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(2 * time.Minute)
		w.gauge.WithLabelValues("acme.fulfil").Set(0)
		time.Sleep(30 * time.Minute)
		is(t, "the end", short(other.sink.all()), "resolved 2m40s")
		is(t, "the beginning, behind it", w.sink.all())
		w.gauge.WithLabelValues("acme.fulfil").Set(1)
		time.Sleep(time.Minute)
		if got := short(w.sink.all()); len(got) != 1 || !within(got[0], "firing", 32*time.Minute) {
			t.Error(got)
		}
	})
}
