package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// watch lets a test wait for a state instead of sleeping: every change wakes those who wait.
type watch struct {
	mu      sync.Mutex
	changed chan struct{}
}

func (w *watch) lock() func() {
	w.mu.Lock()
	return func() {
		if w.changed != nil {
			close(w.changed)
			w.changed = nil
		}
		w.mu.Unlock()
	}
}

// wait is closed with the next change. The caller holds mu.
func (w *watch) wait() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

func (w *watch) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		if ok() {
			w.mu.Unlock()
			return
		}
		changed := w.wait()
		w.mu.Unlock()
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("never came: %s", what)
		}
	}
}

// memory is a ledger in memory that notes what it is told, and takes it as the ledger does.
type memory struct {
	watch
	*ledgertest.Process
	db       *ledgertest.Memory
	policy   gate.Policy
	claims   []*given
	read     map[int32]int64 // the next offset, by partition
	lines    []string        // "partition/offset id", in the order of Apply
	broken   []ledger.Record
	wrong    []string
	caughtUp map[int32]time.Time // by partition
	looks    int                 // claims that were told their standing
	overdue  atomic.Bool         // it was asked for deadlines
	// remembers is what claims are told of dedupe.
	remembers time.Time

	// A test's hooks, set before anything runs. Their errors are what a ledger says that has given up.
	onClaim func(req ledger.ClaimRequest) error
	onApply func(ctx context.Context, batch []ledger.Slice) error
}

// given is a claim as it was given.
type given struct {
	ledger.Claim
	partitions int32
	accepted   int64 // the stop that it rests on; 0: none
}

func newMemory(policy ...gate.Policy) *memory {
	m := &memory{policy: append(policy, arrival)[0], read: map[int32]int64{}, caughtUp: map[int32]time.Time{}}
	m.empty()
	return m
}

// empty puts a ledger in its place that knows of nothing.
func (m *memory) empty() {
	m.db = ledgertest.New(testGroup, 0)
	m.Process = m.process("one")
}

func (m *memory) process(name string) *ledgertest.Process {
	p, err := m.db.Process(name, spec("", m.policy))
	if err != nil {
		panic(err)
	}
	return p
}

func (m *memory) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	if m.onClaim != nil {
		if err := m.onClaim(req); err != nil {
			return nil, err
		}
	}
	standing, confirm := req.Standing, req.Confirm
	req.Standing = func(s ledger.Standing) {
		func() { defer m.lock()(); m.looks++ }()
		s.Remembers = m.remembers
		standing(s)
	}
	var accepted int64
	req.Confirm = func(ctx context.Context, stored *ledger.Position) (ledger.Start, error) {
		st, err := confirm(ctx, stored)
		accepted = st.Accepted
		return st, err
	}
	c, err := m.Process.Claim(ctx, req)
	if err != nil {
		return nil, err
	}
	defer m.lock()()
	m.read[c.Partition.Number] = c.Next.Offset
	m.claims = append(m.claims, &given{ledger.Claim{ID: c.ID, Partition: c.Partition, Epoch: c.Epoch, Next: c.Next, Seek: c.Seek, Unclean: c.Unclean}, req.Partitions, accepted})
	return c, nil
}

func (m *memory) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	if m.onApply != nil {
		if err := m.onApply(ctx, batch); err != nil {
			return nil, err
		}
	}
	all, err := m.Process.Apply(ctx, batch)
	defer m.lock()()
	for i, a := range all {
		switch {
		case a.Refused != nil:
			m.wrong = append(m.wrong, a.Refused.Error())
		case !a.Fenced:
			m.note(batch[i])
		}
	}
	return all, err
}

// note notes what a slice has written. The caller holds mu.
func (m *memory) note(s ledger.Slice) {
	number := s.Claim.Partition.Number
	for _, r := range s.Records {
		if r.Broken != "" {
			m.broken = append(m.broken, r)
			continue
		}
		m.lines = append(m.lines, fmt.Sprintf("%d/%d %s", number, r.Offset, r.ID))
	}
	m.read[number] = s.Next.Offset
}

func (m *memory) NextDeadline(ctx context.Context, claims []*ledger.Claim) (map[int32]time.Duration, error) {
	m.overdue.Store(true)
	return m.Process.NextDeadline(ctx, claims)
}

func (m *memory) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	if err := m.Process.CaughtUp(ctx, at, claims); err != nil {
		return err
	}
	defer m.lock()()
	for _, c := range claims {
		m.caughtUp[c.Partition.Number] = at
	}
	return nil
}

// take claims a partition again for another process, at an offset or, with -1, where the ledger stands. Whether it is clean says
// whether the owner before has released it.
func (m *memory) take(number int32, at int64) *ledger.Claim {
	m.mu.Lock()
	was := m.claims[slices.IndexFunc(m.claims, func(c *given) bool { return c.Partition.Number == number })]
	m.mu.Unlock()
	c, err := m.process("other").Claim(context.Background(), ledger.ClaimRequest{Partition: was.Partition, Partitions: was.partitions,
		Confirm: func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
			if at < 0 {
				return ledger.Start{Position: *stored}, nil
			}
			st := ledger.Start{Position: ledger.Position{Offset: at, LeaderEpoch: -1}}
			if stored != nil {
				st.Seek = &ledger.Seek{From: stored.Offset, To: at}
			}
			return st, nil
		}})
	if err != nil {
		panic(err)
	}
	return c
}

// place moves a partition to an offset and releases it.
func (m *memory) place(t *testing.T, number int32, at int64) {
	t.Helper()
	if err := m.Release(t.Context(), m.take(number, at)); err != nil {
		t.Fatal(err)
	}
}

// restore puts another ledger in the place of one that nothing runs on: all that it knows is how far partitions were read, of
// partition 0 that it was to an offset.
func (m *memory) restore(t *testing.T, at int64) {
	t.Helper()
	m.empty()
	m.read[0] = at
	for number, next := range m.read {
		m.place(t, number, next)
	}
}

// accept accepts what is stopped.
func (m *memory) accept(t *testing.T) {
	t.Helper()
	if _, err := m.db.Accept(t.Context(), ledger.StopFilter{Subscription: testGroup}, ledger.Acceptance{By: "ann", Reason: "seen"}, false); err != nil {
		t.Error(err)
	}
}

// onExpire sets what is called before waits end.
func (m *memory) onExpire(do func()) {
	m.db.SetHook(func(_ context.Context, c ledgertest.Call) error {
		if c.Op == "expire" && c.Point == ledgertest.Before {
			do()
		}
		return nil
	})
}

// next is where a partition is read on, -1 before the first claim.
func (m *memory) next(number int32) int64 {
	if at, ok := m.read[number]; ok {
		return at
	}
	return -1
}

// at is next, for a test that does not hold the lock.
func (m *memory) at(number int32) int64 {
	defer m.lock()()
	return m.next(number)
}

// claimed is how many claims were made.
func (m *memory) claimed() int {
	defer m.lock()()
	return len(m.claims)
}

func (m *memory) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 {
		t.Errorf("the ledger's contract was broken: %q", m.wrong)
	}
}

// lanesDouble notes what the owner does with it.
type lanesDouble struct {
	watch
	calls []string // "open 0", "close 0", "drop 0"
	items []string // event ids, those without an event marked
	open  map[*ledger.Claim]bool
	wrong []string

	onClose   func(ctx context.Context)
	onOpen    func() error
	opened    func(c *ledger.Claim)
	closeErr  error
	onCommand func(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (string, error)
}

func newLanes() *lanesDouble { return &lanesDouble{open: map[*ledger.Claim]bool{}} }

func (l *lanesDouble) note(what string, c *ledger.Claim) {
	l.calls = append(l.calls, fmt.Sprintf("%s %d", what, c.Partition.Number))
}

func (l *lanesDouble) Open(_ context.Context, c *ledger.Claim) error {
	if l.opened != nil {
		defer l.opened(c)
	}
	if l.onOpen != nil {
		if err := l.onOpen(); err != nil {
			return err
		}
	}
	defer l.lock()()
	l.note("open", c)
	l.open[c] = true
	return nil
}

func (l *lanesDouble) Add(c *ledger.Claim, items []lane.Item) {
	defer l.lock()()
	if !l.open[c] {
		l.wrong = append(l.wrong, "add to a claim that is not open")
	}
	for _, i := range items {
		id := i.EventID
		if i.Event == nil || i.Event.ID != id {
			id += " without its event"
		}
		l.items = append(l.items, id)
	}
}

func (l *lanesDouble) Close(ctx context.Context, c *ledger.Claim) error {
	if l.onClose != nil {
		l.onClose(ctx)
	}
	defer l.lock()()
	l.note("close", c)
	delete(l.open, c)
	return l.closeErr
}

func (l *lanesDouble) Drop(c *ledger.Claim) {
	defer l.lock()()
	l.note("drop", c)
	delete(l.open, c)
}

func (l *lanesDouble) ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (string, error) {
	l.mu.Lock()
	open, on := l.open[c], l.onCommand
	l.mu.Unlock()
	if !open || on == nil {
		return "", nil
	}
	return on(ctx, c, cmd)
}

func (l *lanesDouble) Full(*ledger.Claim) bool { return false }

func (l *lanesDouble) has(call string) bool { return slices.Contains(l.calls, call) }
