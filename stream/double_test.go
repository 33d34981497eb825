package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
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

// memory is a ledger in memory that holds its callers to the ledger's contract: fences, positions, ascending offsets.
type memory struct {
	watch
	quiet
	began   time.Time
	begin   map[ledger.Partition]int64
	fences  map[ledger.Partition]*fence
	counts  map[ledger.TopicID]int32 // partitions, as first seen
	claims  []*ledger.Claim          // as they were given
	given   []*ledger.Claim          // as they are
	lines   []string                 // "partition/offset id", in the order of Apply
	broken  []ledger.Record
	wrong   []string
	applies int
	// caughtUp is by partition.
	caughtUp map[int32]time.Time
	now      func() time.Time // the ledger's clock; nil: ours
	stops    []*ledger.Stop   // by report; those that stand have no outcome
	outcomes map[int64]string
	looks    int // claims that were told their standing
	// remembers is what claims are told of dedupe.
	remembers time.Time

	// A test's hooks, set before anything runs; called without the lock.
	onApply  func(ctx context.Context, batch []ledger.Slice) error
	refuse   func(s ledger.Slice) error // for good; see ledger.Applied
	onClaim  func(req ledger.ClaimRequest) error
	onReport func() error
	deadline func(c *ledger.Claim) (time.Duration, bool)
	onExpire func(c *ledger.Claim) (ledger.Applied, error)
	waiting  bool // Applied.Waiting
}

type fence struct {
	id       int32
	epoch    int64
	stored   *ledger.Position
	high     int64
	appended time.Time // of the last record
	released bool
	held     bool // a claim of it is being confirmed
}

func newMemory() *memory { return &memory{fences: map[ledger.Partition]*fence{}} }

func (m *memory) Began(context.Context) (time.Time, error) {
	defer m.lock()()
	if m.begin != nil && m.began.IsZero() {
		m.began = time.Now()
	}
	return m.began, nil
}

func (m *memory) Begin(_ context.Context, offsets map[ledger.Partition]int64) (map[ledger.Partition]int64, error) {
	defer m.lock()()
	if m.began.IsZero() {
		m.began = time.Now()
	}
	known := map[ledger.TopicID]bool{}
	for p := range m.begin {
		known[p.TopicID] = true
	}
	if m.begin == nil {
		m.begin = map[ledger.Partition]int64{}
	}
	for p, offset := range offsets {
		if !known[p.TopicID] {
			m.begin[p] = offset
		}
	}
	return maps.Clone(m.begin), nil
}

func (m *memory) fence(p ledger.Partition) *fence {
	f := m.fences[p]
	if f == nil {
		f = &fence{id: int32(len(m.fences) + 1)}
		m.fences[p] = f
	}
	return f
}

func (m *memory) Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error) {
	if err := ledgertest.CheckClaim(req); err != nil {
		return nil, err
	}
	if m.onClaim != nil {
		if err := m.onClaim(req); err != nil {
			return nil, err
		}
	}
	f, err := m.hold(ctx, req.Partition)
	if err != nil {
		return nil, err
	}
	defer m.letGo(f)
	m.mu.Lock()
	if m.counts == nil {
		m.counts = map[ledger.TopicID]int32{}
	}
	id := req.Partition.TopicID
	if m.counts[id] == 0 {
		m.counts[id] = req.Partitions
	}
	if had := m.counts[id]; had != req.Partitions {
		m.mu.Unlock()
		return nil, &schemas.Error{Kind: schemas.Conflict, Op: "claim", Err: &ledger.TopicError{
			Topic: req.Partition.Topic, ID: id, Known: id, Partitions: req.Partitions, KnownPartitions: had}}
	}
	var stored *ledger.Position
	if f.stored != nil {
		at := *f.stored
		stored = &at
	}
	standing := ledger.Standing{Epoch: f.epoch, Stop: m.standing(req.Partition), High: f.high, ProcessedAt: f.appended, Remembers: m.remembers}
	m.mu.Unlock()
	func() { defer m.lock()(); m.looks++ }()
	if req.Standing != nil {
		req.Standing(standing)
	}
	st, err := req.Confirm(ctx, stored)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := ledgertest.CheckStart(stored, standing.Stop, st); err != nil {
		return nil, err
	}
	defer m.lock()()
	f.epoch++
	if s := m.standing(req.Partition); s != nil {
		m.end(s.ID, map[bool]string{true: "accepted", false: "moved"}[s.ID == st.Accepted])
	}
	c := &ledger.Claim{ID: f.id, Partition: req.Partition, Epoch: f.epoch, Next: st.Position, Seek: st.Seek,
		Unclean: f.epoch > 1 && !f.released}
	f.stored, f.released, f.high = &st.Position, false, max(f.high, st.Position.Offset)
	m.given = append(m.given, c)
	m.claims = append(m.claims, &ledger.Claim{ID: c.ID, Partition: c.Partition, Epoch: c.Epoch, Next: c.Next, Seek: c.Seek, Unclean: c.Unclean})
	return c, nil
}

// hold locks a partition's fence, as a claim does while it is confirmed: other claims wait for it, and batches.
func (m *memory) hold(ctx context.Context, p ledger.Partition) (*fence, error) {
	for {
		m.mu.Lock()
		f := m.fence(p)
		if !f.held {
			f.held = true
			m.mu.Unlock()
			return f, nil
		}
		changed := m.wait()
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *memory) letGo(f *fence) {
	defer m.lock()()
	f.held = false
}

// standing is a copy of the stop that stands for a partition, whatever its topic's id.
func (m *memory) standing(p ledger.Partition) *ledger.Stop {
	for _, s := range m.stops {
		if m.outcomes[s.ID] == "" && s.Partition.Topic == p.Topic && s.Partition.Number == p.Number {
			return new(*s)
		}
	}
	return nil
}

func (m *memory) end(id int64, outcome string) {
	if m.outcomes == nil {
		m.outcomes = map[int64]string{}
	}
	m.outcomes[id] = outcome
}

func (m *memory) Report(_ context.Context, s ledger.Stop, epoch int64) (ledger.Stop, error) {
	if m.onReport != nil {
		if err := m.onReport(); err != nil {
			return s, err
		}
	}
	defer m.lock()()
	if f := m.fences[s.Partition]; f != nil && f.epoch != epoch || f == nil && epoch != 0 {
		return s, schemas.Errorf(schemas.Conflict, "report a stop", "the partition was claimed since")
	}
	if old := m.standing(s.Partition); old != nil {
		if old.Same(&s) {
			return *old, nil
		}
	}
	if err := ledgertest.CheckStop(s); err != nil {
		return s, err
	}
	if old := m.standing(s.Partition); old != nil {
		m.end(old.ID, "replaced")
	}
	s.ID, s.FoundAt = int64(len(m.stops)+1), time.Now()
	m.stops = append(m.stops, &s)
	return s, nil
}

// accept is what Accept of the real one does.
func (m *memory) accept(t *testing.T, number int32) {
	t.Helper()
	defer m.lock()()
	for _, s := range m.stops {
		if m.outcomes[s.ID] == "" && s.Partition.Number == number {
			s.Accepted = &ledger.Acceptance{At: time.Now(), By: "ann", Reason: "seen"}
			return
		}
	}
	t.Errorf("nothing stands for partition %d", number)
}

func (m *memory) Release(ctx context.Context, c *ledger.Claim) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f, err := m.hold(ctx, c.Partition)
	if err != nil {
		return err
	}
	defer m.letGo(f)
	defer m.lock()()
	if f.epoch == c.Epoch {
		f.released = true
	}
	return nil
}

func (m *memory) Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error) {
	if m.onApply != nil {
		if err := m.onApply(ctx, batch); err != nil {
			return nil, err
		}
	}
	claims := map[*ledger.Claim]bool{}
	for _, s := range batch {
		if s.Claim == nil || !m.gave(s.Claim) || claims[s.Claim] {
			return nil, schemas.Errorf(schemas.Invalid, "apply a batch", "a slice has no claim of this ledger, or one that another has")
		}
		claims[s.Claim] = true
	}
	for _, s := range slices.SortedFunc(slices.Values(batch), func(a, b ledger.Slice) int { return int(a.Claim.ID - b.Claim.ID) }) {
		f, err := m.hold(ctx, s.Claim.Partition)
		if err != nil {
			return nil, err
		}
		defer m.letGo(f)
	}
	defer m.lock()()
	m.applies++
	var out []ledger.Applied
	for _, s := range batch {
		out = append(out, m.apply(s))
	}
	return out, nil
}

// gave reports whether a claim is one of this ledger's.
func (m *memory) gave(c *ledger.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.given, c)
}

func (m *memory) apply(s ledger.Slice) ledger.Applied {
	f := m.fence(s.Claim.Partition)
	a := ledger.Applied{Claim: s.Claim, Waiting: m.waiting}
	if err := ledgertest.CheckSlice(s); err != nil {
		return m.refused(a, err)
	}
	if f.epoch != s.Claim.Epoch {
		a.Fenced = true
		return a
	}
	if m.refuse != nil {
		if a.Refused = m.refuse(s); a.Refused != nil {
			return a
		}
	}
	if s.From != f.stored.Offset {
		return m.refused(a, &ledger.ContinuityError{Partition: s.Claim.Partition, Stored: f.stored.Offset, From: s.From})
	}
	for i, r := range s.Records {
		if r.Broken != "" {
			m.broken = append(m.broken, r)
			a.Outcomes = append(a.Outcomes, gate.Outcome{Record: i, Decision: gate.Quarantined, Reason: r.Broken})
			continue
		}
		m.lines = append(m.lines, fmt.Sprintf("%d/%d %s", s.Claim.Partition.Number, r.Offset, r.ID))
		if r.Filtered {
			a.Outcomes = append(a.Outcomes, gate.Outcome{Record: i, Decision: gate.Filtered, Reason: gate.ReasonType})
			continue
		}
		a.Outcomes = append(a.Outcomes, gate.Outcome{Record: i, Decision: gate.Applied, Reason: gate.ReasonArrival})
		a.Actions = append(a.Actions, ledger.Action{Claim: s.Claim.ID, LaneSeq: r.Offset, EventID: r.ID, Record: i})
	}
	next := s.Next
	s.Claim.Next = next
	f.stored, f.high = &next, max(f.high, next.Offset)
	if n := len(s.Records); n > 0 {
		f.appended = s.Records[n-1].AppendTime
	}
	return a
}

// refused refuses a slice; check tells of it.
func (m *memory) refused(a ledger.Applied, err error) ledger.Applied {
	m.wrong = append(m.wrong, err.Error())
	a.Refused = err
	return a
}

func (m *memory) NextDeadline(_ context.Context, claims []*ledger.Claim) (map[int32]time.Duration, error) {
	left := map[int32]time.Duration{}
	for _, c := range claims {
		if m.deadline == nil {
			continue
		}
		if d, ok := m.deadline(c); ok {
			left[c.ID] = d
		}
	}
	return left, nil
}

func (m *memory) Expire(_ context.Context, c *ledger.Claim) (ledger.Applied, error) {
	if m.onExpire == nil {
		return ledger.Applied{}, errors.New("nothing was due")
	}
	return m.onExpire(c)
}

func (m *memory) Now(context.Context) (time.Time, error) {
	if m.now != nil {
		return m.now(), nil
	}
	return time.Now(), nil
}

func (m *memory) CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error {
	if now, _ := m.Now(ctx); at.After(now) {
		at = now
	}
	defer m.lock()()
	for _, c := range claims {
		if f := m.fences[c.Partition]; f == nil || f.epoch != c.Epoch {
			continue
		}
		if m.caughtUp == nil {
			m.caughtUp = map[int32]time.Time{}
		}
		m.caughtUp[c.Partition.Number] = at
	}
	return nil
}

// next is the stored position of a partition, -1 before the first claim.
func (m *memory) next(number int32) int64 {
	for p, f := range m.fences {
		if p.Number == number && f.stored != nil {
			return f.stored.Offset
		}
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
