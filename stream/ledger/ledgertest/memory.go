package ledgertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Memory is one subscription's data, as a database would hold it. Safe for concurrent use.
type Memory struct {
	name       string
	generation int32

	mu     sync.Mutex
	locks  locks
	skew   time.Duration // of the database's clock
	hook   Hook
	change chan struct{} // closed when a process is frozen, thawed or killed; never nil
	waited chan struct{} // closed when a call begins to wait for a lock; nil: nobody asks

	began      time.Time
	begins     map[ledger.Partition]int64
	topics     map[string]topic
	fences     []*fence // by ID, from 1; those that were never claimed have epoch 0
	events     map[schemas.EventKey]*event
	also       map[gate.Also]said
	stops      []*stop
	commands   []*command
	seekIDs    int64 // the last id of a seek request
	backfills  []*backfill
	reports    []*report // oldest first
	claims     map[*ledger.Claim]*claim
	listeners  map[int]func()
	listener   int
	members    map[string]*member
	toldOfLeft map[int]func()   // who is told when one is forgotten
	topicLocks map[string]int32 // of topics that no claim has recorded yet
	tokens     uint64
}

// New makes an empty ledger of one subscription.
func New(name string, generation int32) *Memory {
	return &Memory{
		name: name, generation: generation, change: make(chan struct{}),
		begins: map[ledger.Partition]int64{}, topics: map[string]topic{}, events: map[schemas.EventKey]*event{}, also: map[gate.Also]said{},
		claims: map[*ledger.Claim]*claim{}, listeners: map[int]func(){}, members: map[string]*member{}, toldOfLeft: map[int]func(){},
	}
}

// said is the event that came first with a second key.
type said struct {
	gate.Said
	decided time.Time
}

// topic is a topic as the subscription knows it.
type topic struct {
	id         ledger.TopicID
	partitions int32
}

// fence is one partition's row, with all that belongs to it.
type fence struct {
	id        int32
	partition ledger.Partition
	epoch     int64
	token     [16]byte
	owner     string
	released  bool
	doubtTo   int64
	doubtAt   time.Time // by the database's clock; zero: never

	former    ledger.TopicID // of a topic that was created again, what it was before
	lanesFrom int64
	places    int64

	stored    bool // the position below was ever written
	next      ledger.Position
	high      int64
	revision  int64
	processed time.Time
	laneSeq   int64 // next to give
	seeks     []ledger.Seek
	seek      *askedSeek // the last seek that was asked for; nil: none was

	lines    map[gate.VersionLineKey]*gate.VersionLine
	waits    map[int64]*wait          // the gap buffer, by offset
	rejected map[int64]rejectedRecord // by offset
	actions  map[int64]*action
}

// event is an event that was decided and is remembered.
type event struct {
	ledger.Record
	fence      int32
	decision   gate.Decision
	reason     gate.Reason
	version    schemas.Version
	payload    schemas.PayloadKind // empty: not written down
	laneSeq    int64
	effects    []ledger.ActionSpec // those of its actions
	duplicates int
}

// wait is a row of the gap buffer.
type wait struct {
	gate.Waiting           // as it waits; of a held one, as it waited before
	held         bool      // held for an operator
	deadline     time.Time // zero where it has none
	since        time.Time // when it was first buffered
	leaderEpoch  int32
	source, id   string
	eventType    string
	packed       []byte
}

func (w *wait) line() gate.VersionLineKey {
	return gate.VersionLineKey{Entity: w.Entity, Clock: w.Version.Clock}
}

// rejectedRecord is a record that was rejected, by its offset.
type rejectedRecord struct {
	decision gate.Decision
	reason   gate.Reason
	id       string
	raw      []byte
}

// action is an action's row, or the state of an action that has none.
type action struct {
	laneSeq     int64
	event       *event
	effect      ledger.ActionSpec
	withRow     bool // it has a row of its own
	completed   bool // a completion says that it has ended
	status      ledger.Status
	attempts    int
	epoch       int64     // of the owner that made the last attempt
	made        time.Time // its event was decided or released
	first       time.Time
	next        time.Time
	finished    time.Time
	class       string
	code        int
	err         string
	response    []byte
	packed      []byte
	identified  bool // its row has the action's id
	doubtEnd    time.Time
	replayed    time.Time
	spent       int
	forced      bool
	twice       bool
	deaths      int32
	guarded     bool
	exported    int32
	resultBy    time.Time
	beat        time.Time
	silence     time.Duration
	cancelURL   string
	newer       bool
	attemptRows []attemptRow
}

// attemptRow is an attempt's row.
type attemptRow struct {
	attempt int
	status  ledger.Status
	class   string
	anew    bool // it has ended since the action was last asked to run again
}

// now is the database's clock, as exact as Postgres keeps it. The caller holds mu, or does not mind the skew.
func (m *Memory) now() time.Time { return time.Now().Add(m.skew).Truncate(time.Microsecond) }

// past is a time that is not to come.
func (m *Memory) past(t time.Time) time.Time {
	if now := m.now(); t.After(now) {
		return now
	}
	return t.Truncate(time.Microsecond)
}

// Pass moves the database's clock on, as seen from what is stored: deadlines come closer, what was is longer ago.
func (m *Memory) Pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew += d
}

// Next is where a partition is read on, for a world that cuts what was read off its log; false where it was never claimed.
func (m *Memory) Next(at ledger.Partition) (next ledger.Position, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.fences {
		if f.partition == at && f.stored {
			next, ok = f.next, true
		}
	}
	return next, ok
}

// fenceOf is the fence of a claim that holds it; nil where it is fenced. The caller holds mu.
func (m *Memory) fenceOf(c *ledger.Claim) *fence {
	if c.ID < 1 || int(c.ID) > len(m.fences) {
		return nil
	}
	f := m.fences[c.ID-1]
	if f.epoch != c.Epoch || f.token != c.Token {
		return nil
	}
	return f
}

// claim is what a claim carries besides its exported fields. Guarded by mu.
type claim struct {
	policy    gate.Policy // the partition's share
	laneSeq   int64       // next to give: no action of the claim has it, or one above
	revision  int64
	overdueAt time.Time // the database's clock when NextDeadline last found a deadline
	former    ledger.TopicID
	lanesFrom int64

	// What the claim knows of its actions: which have a row or have ended, as it read and wrote them.
	recorded   map[int64]bool
	ended      map[int64]bool // of those, by a completion
	maybeEnded map[int64]bool // a completion was written, and nobody knows whether it is there
	rowTried   map[int64]bool // a row was to be written: no completion is written any more
}

func (c *claim) topicOf(at ledger.Partition, laneSeq int64) ledger.TopicID {
	if laneSeq < c.lanesFrom && c.former != (ledger.TopicID{}) {
		return c.former
	}
	return at.TopicID
}

var errNoClaim = errors.New("no claim of this ledger")

// Process is one process's handle on the ledger: what a *ledger.Namespace is. Safe for concurrent use, except that a Claim
// belongs to one goroutine at a time.
type Process struct {
	m    *Memory
	name string
	spec ledger.Spec

	// Guarded by Memory.mu.
	killed, frozen bool
	entered        map[string]bool // the members that it was
	away           time.Time       // since when the connection is lost by which others know that it lives; zero: it is not
	waits          int             // calls that wait for a lock
}

// Process gives a process its handle. name is what hooks know it by. It refuses what [ledger.Ledger.Namespace] refuses.
func (m *Memory) Process(name string, spec ledger.Spec) (*Process, error) {
	op := "register subscription " + spec.Name
	if err := spec.Validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	if spec.Name != m.name || spec.Generation != m.generation {
		return nil, schemas.Errorf(schemas.Invalid, op, "this memory is of %s, generation %d", m.name, m.generation)
	}
	return &Process{m: m, name: name, spec: spec}, nil
}

// Kill ends a process: whatever its handle is called for, or is called for already, writes nothing from here on and comes back
// with an error when its context ends. What it had locked is free.
func (p *Process) Kill() {
	p.set(func() {
		if p.killed = true; p.away.IsZero() {
			p.away = time.Now()
		}
	})
}

// Freeze stops a process where it is: its calls wait, with what they have locked, until it is thawed, killed, or their context
// ends.
func (p *Process) Freeze() { p.set(func() { p.frozen = true }) }

// Thaw lets a process go on.
func (p *Process) Thaw() { p.set(func() { p.frozen = false }) }

func (p *Process) set(how func()) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	how()
	close(p.m.change)
	p.m.change = make(chan struct{})
}

// errKilled is what calls of a killed process come to.
var errKilled = errors.New("the process has been killed")

// awake waits while the process is frozen. With errKilled or the end of ctx nothing more may be written.
func (p *Process) awake(ctx context.Context) error {
	for {
		p.m.mu.Lock()
		killed, frozen, change := p.killed, p.frozen, p.m.change
		p.m.mu.Unlock()
		switch {
		case killed:
			return errKilled
		case !frozen:
			return ctx.Err()
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
