package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/jackc/pgx/v5"
)

// world is one random history: processes that own partitions of one subscription through a Postgres that they reach over
// proxies, what the ledger must hold, and what it told.
type world struct {
	t            testing.TB
	rng          *rand.Rand
	seed         uint64
	cfg          Config
	eye          *pgx.Conn // looks on, past the proxies
	name         string
	subscription int32

	author *Author
	model  *modelLedger
	filter map[string]bool
	spec   Spec
	lag    int64 // of the lines' rows

	procs   []*process
	owner   map[int32]*holding
	zombies []*holding     // claims that somebody else has taken since; their processes go on
	longest map[string]int // how many statements an operation has had, undisturbed
	trace   []string
	stats   *stats
	witness *witness
	given   map[schemas.ActionID]bool // Apply or Expire has given it
}

// process is one of Forebay's: a ledger behind a proxy of its own.
type process struct {
	id     int
	proxy  *proxy
	f      *fixture
	filter map[string]bool
	dead   bool
}

// holding is a claim in a process.
type holding struct {
	part  int32
	proc  *process
	claim *Claim
	asked int // when it last asked for deadlines, by the machine's clock; 0: never heard of one
}

// stats counts over histories how often what came about.
type stats struct {
	mu        sync.Mutex
	histories int
	ops, came map[string]int
	cuts      map[string]map[int]int // by operation and statement
}

func newStats() *stats {
	return &stats{ops: map[string]int{}, came: map[string]int{}, cuts: map[string]map[int]int{}}
}

func (s *stats) cut(kind string, f fault, at int) {
	if s.cuts[kind] == nil {
		s.cuts[kind] = map[int]int{}
	}
	s.cuts[kind][at]++
	s.came[map[fault]string{cutOff: "connection lost", crashed: "crash"}[f]]++
}

const partitions = 3

func newWorld(t testing.TB, cfg Config, seed uint64, s *stats) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, cfg: cfg, name: fmt.Sprintf("acme.s%d", seed), stats: s,
		model: newModelLedger(partitions), filter: map[string]bool{}, owner: map[int32]*holding{},
		witness: newWitness(),
		given:   map[schemas.ActionID]bool{}, longest: map[string]int{}}
	w.author = NewAuthor(w.rng, partitions, func(r *Record) {
		if w.rng.IntN(2) == 0 {
			r.Type = poison
		}
	}, false)
	w.respec()
	w.eye = (&fixture{t: t, cfg: cfg}).connect()
	w.exec(`SET jit = off`) // of many windows a view is compiled for longer than it runs
	w.start()
	if err := w.eye.QueryRow(t.Context(), `SELECT id FROM subscriptions WHERE name = $1`, w.name).Scan(&w.subscription); err != nil {
		t.Fatal(err)
	}
	w.model.window = w.windows()[0]
	return w
}

// close ends what is left.
func (w *world) close() {
	for _, p := range w.procs {
		p.stop()
	}
	w.eye.Close(context.WithoutCancel(w.t.Context()))
}

func (p *process) stop() {
	if !p.dead {
		p.dead = true
		p.proxy.Kill()
	}
	p.f.l.Close()
	p.proxy.Wait()
}

// respec is a change of the subscription's configuration; processes that start from now on have it.
func (w *world) respec() {
	r := w.rng
	p := gate.Policy{Order: gate.OrderVersion, GapWait: wait, BackfillWait: wait}
	p.Start = pick(r, gate.StartAny, gate.StartAny, gate.StartFirst, gate.StartBackfill)
	p.Equal = pick(r, gate.EqualApply, gate.EqualApply, gate.EqualFirst, gate.EqualLast, gate.EqualHold)
	p.Then = pick(r, gate.ThenSkip, gate.ThenSkip, gate.ThenPark, gate.ThenBackfill, gate.ThenBackfill, gate.ThenDeadLetter)
	p.Otherwise = pick(r, gate.ThenSkip, gate.ThenPark, gate.ThenDeadLetter)
	if r.IntN(6) == 0 {
		p.GapWait = 0
	}
	if r.IntN(8) == 0 {
		p.Order = gate.OrderArrival
	}
	if r.IntN(3) == 0 {
		p.MaxPerEntity, p.MaxBuffered = 1+r.IntN(3), partitions*(1+r.IntN(6))
	}
	if r.IntN(4) == 0 { // a payload has 11 bytes or so
		p.MaxBytesPerEntity, p.MaxBytes = 10+r.Int64N(30), partitions*(12+r.Int64N(60))
	}
	p.Stale = pick(r, gate.OnStale{}, gate.OnStale{}, gate.OnStale{Snapshot: gate.StaleDeliver, Delta: gate.StaleDrop},
		gate.OnStale{Snapshot: gate.StaleHold}, gate.OnStale{Delta: gate.StaleHold})
	if len(w.procs) == 0 { // few histories are enough to come to each of these
		p.Order = gate.OrderVersion
		switch w.seed % 4 {
		case 0:
			p.Then, p.GapWait = gate.ThenBackfill, 0
		case 1:
			p.Then = gate.ThenDeadLetter
		case 2:
			p.Equal, p.Stale = gate.EqualHold, gate.OnStale{Snapshot: gate.StaleHold, Delta: gate.StaleHold}
		case 3:
			p.Start = gate.StartBackfill
		}
	}
	run, tell := ActionSpec{"run", "acme/coder", Park}, ActionSpec{"tell", "acme/slack", Continue}
	w.spec = Spec{Name: w.name, Owner: "test", Policy: p, Window: dedupeWindow, CacheLines: pick(r, 0, 2, 5),
		MaxAge:  pick(r, 0, 2*wait),
		Actions: pick(r, []ActionSpec{run}, []ActionSpec{run, tell}, []ActionSpec{tell, {"run", "acme/coder", Continue}}, nil)}
	w.lag = pick[int64](r, 0, 1, 3, 10, MaxLag)
	w.filter = map[string]bool{}
	for i := range 4 {
		w.filter[fmt.Sprintf("t.%d", i)] = r.IntN(5) == 0
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// start is a new process.
func (w *world) start() *process {
	p := &process{id: len(w.procs) + 1, filter: w.filter}
	p.proxy, p.f = throughProxy(w.t, &fixture{t: w.t, cfg: w.cfg}, func(s *Spec) { *s = w.spec })
	own := rand.New(rand.NewPCG(w.seed, uint64(p.id))) // the history's goes on as it did
	p.f.n.maxLag, p.f.n.recent = w.lag, newRecentKeys(pick(own, 1, 16, maxRecent), pick(own, 1, 4, maxRecent))
	w.procs = append(w.procs, p)
	w.log("process %d starts", p.id)
	return p
}

// alive are the processes that go on.
func (w *world) alive() []*process {
	return slices.DeleteFunc(slices.Clone(w.procs), func(p *process) bool { return p.dead })
}

// die ends a process: its claims are nobody's until they are taken.
func (w *world) die(p *process) {
	w.log("process %d is dead", p.id)
	p.stop()
	maps.DeleteFunc(w.owner, func(_ int32, h *holding) bool { return h.proc == p })
	w.zombies = slices.DeleteFunc(w.zombies, func(h *holding) bool { return h.proc == p })
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n\nhistory of seed %d (go test -run '%s' -history.seed %d), %d steps; the last of them:\n%s",
		fmt.Sprintf(format, args...), w.seed, strings.SplitN(w.t.Name(), "/", 2)[0], w.seed, len(w.trace),
		strings.Join(w.trace[max(0, len(w.trace)-40):], "\n"))
}

// came notes that something has come about, if it has.
func (w *world) came(what string, it bool) {
	if it {
		w.stats.came[what]++
	}
}

// check compares the ledger with the models that it may agree with, and takes the one that it does.
func (w *world) check(what string, may ...*modelLedger) int {
	w.t.Helper()
	got := w.view()
	for i, m := range slices.Backward(may) {
		w.unsure(m, got)
		if slices.Equal(m.view(), got) {
			w.model = m
			w.promises(what)
			return i
		}
	}
	for i, m := range may {
		w.log("%s: not as if %d of %d had happened:\n%s", what, i, len(may)-1, diff(m.view(), got))
	}
	w.fatalf("%s left the ledger in a state that it must not be in", what)
	return 0
}

// unsure settles in a model what only the ledger knows: which actions of a bisected batch have a copy.
func (w *world) unsure(m *modelLedger, got []string) {
	for _, p := range m.parts {
		for lane, a := range p.actions {
			if !a.unsure {
				continue
			}
			e := m.events[a.key]
			for _, packed := range []string{"", string(e.Packed())} {
				line := strings.TrimSpace(fmt.Sprintf("%d action %d %s %s %s %s %s attempts %d copy %s", p.number, lane, e.ID, a.effect.Name, a.effect.Destination,
					a.effect.OnDead, a.status, a.attempts, packed))
				if _, ok := slices.BinarySearch(got, line); ok {
					a.packed, a.unsure = packed, false
				}
			}
		}
	}
}

// windows are the live ones, newest first.
func (w *world) windows() []int32 {
	rows, err := w.eye.Query(w.t.Context(), `SELECT id FROM windows WHERE subscription = $1 AND state <> 'ahead' ORDER BY id DESC`, w.subscription)
	if err != nil {
		w.fatalf("windows: %v", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		w.fatalf("windows: %v", err)
	}
	return ids
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.eye.Exec(w.t.Context(), sql, args...); err != nil {
		w.fatalf("%s: %v", sql, err)
	}
}

// fault is how an operation is disturbed.
type fault int

const (
	noFault fault = iota
	cutOff        // a connection breaks, the process goes on
	crashed       // the process ends
)

// run runs an operation of a process, disturbed as f says between any two of its statements, if it has as many. meanwhile, if not
// nil, happens while a connection is lost. It reports which of them came about.
func (w *world) run(p *process, kind string, f fault, meanwhile func(), op func(ctx context.Context) error) (happened fault, err error) {
	ctx, cancel := context.WithCancelCause(w.t.Context())
	defer cancel(nil)
	passed := p.proxy.Passed.Load()
	hit, end := make(chan chan struct{}), make(chan struct{})
	defer close(end)
	at := w.rng.IntN(w.longest[kind] + 2)
	if f != noFault {
		p.proxy.Cut.Store(&cut{Skip: at, Then: func() {
			ack := make(chan struct{})
			select {
			case hit <- ack:
				<-ack
			case <-end:
			}
		}})
	}
	ended := make(chan error, 1)
	go func() { ended <- op(ctx) }()
	select {
	case ack := <-hit:
		happened = f
		w.stats.cut(kind, f, at)
		if f == crashed {
			p.proxy.Kill()
			cancel(errCrashed)
		} else if meanwhile != nil {
			meanwhile()
		}
		close(ack)
		err = <-ended
	case err = <-ended:
		p.proxy.Cut.Store(nil)
		w.longest[kind] = max(w.longest[kind], int(p.proxy.Passed.Load()-passed))
	}
	w.stats.ops[kind]++
	if happened == crashed {
		w.die(p)
	}
	return happened, err
}

var errCrashed = errors.New("the process has ended")
