package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/sink"
)

// Ledger is what one process does with a ledger: [ledger.Namespace] and [Process] implement it.
type Ledger interface {
	owning
	idling
	deciding
	running
	keeping
}

// owning is what the owner of a partition needs.
type owning interface {
	Begin(ctx context.Context, offsets map[ledger.Partition]int64) (map[ledger.Partition]int64, error)
	Began(ctx context.Context) (time.Time, error)
	Claim(ctx context.Context, req ledger.ClaimRequest) (*ledger.Claim, error)
	Release(ctx context.Context, c *ledger.Claim) error
	Report(ctx context.Context, s ledger.Stop, epoch int64) (ledger.Stop, error)
	Enter(member string)
	Present(member string) bool
	Unknown(member string) bool
	Absent(tell func(members []string)) (stop func())
	Left(notify func()) (stop func())
	ForgetMember(ctx context.Context, member string) error
}

// idling is what an owner does while there is nothing else to do.
type idling interface {
	CaughtUp(ctx context.Context, at time.Time, claims []*ledger.Claim) error
	Now(ctx context.Context) (time.Time, error)
	Tidy(ctx context.Context, c *ledger.Claim) (old bool, err error)
	OldLines(ctx context.Context, c *ledger.Claim) (ledger.OldLines, error)
	ForgetLines(ctx context.Context, c *ledger.Claim, old ledger.OldLines) error
	Leave(ctx context.Context, topics []string) error
}

// deciding is what becomes of events.
type deciding interface {
	Apply(ctx context.Context, batch []ledger.Slice) ([]ledger.Applied, error)
	NextDeadline(ctx context.Context, claims []*ledger.Claim) (map[int32]time.Duration, error)
	Expire(ctx context.Context, c *ledger.Claim) (ledger.Applied, error)
	Commands(ctx context.Context, claims []*ledger.Claim, after int64) ([]ledger.Command, error)
	ApplyCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.Applied, error)
	Listen(notify func()) (stop func())
	Backfills(ctx context.Context, claims []*ledger.Claim, after int64, limit int) ([]ledger.Backfill, error)
	EndBackfill(ctx context.Context, c *ledger.Claim, id int64, end ledger.BackfillEnd) (fenced bool, err error)
}

// running is what lanes need.
type running interface {
	Open(ctx context.Context, c *ledger.Claim, after int64, limit int) (actions []ledger.Action, more bool, err error)
	Record(ctx context.Context, results []ledger.Result) (fenced map[int32]bool, err error)
	ApplyLaneCommand(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.CommandResult, error)
	Overtaken(ctx context.Context, c *ledger.Claim, a ledger.Action) (bool, error)
	EndStale(ctx context.Context, c *ledger.Claim, laneSeq int64) (fenced bool, err error)
	Commit(ctx context.Context, r ledger.Result, s sink.Statement) (tag string, err error)
	Committed(ctx context.Context, r ledger.Result) (done bool, err error)
	Reports(ctx context.Context, claims []*ledger.Claim) ([]ledger.OpenReport, error)
	EndReport(ctx context.Context, r ledger.OpenReport) (late bool, err error)
	SilenceLeft(ctx context.Context, c *ledger.Claim, laneSeqs []int64) (map[int64]time.Duration, error)
	Cancel(ctx context.Context, c *ledger.Claim, a ledger.AttemptRef, told bool) (fenced bool, err error)
}

// keeping is what must outlive the log.
type keeping interface {
	WithoutCopy(ctx context.Context, c *ledger.Claim, after, before int64, limit int) (ledger.WithoutCopyPage, error)
	Copy(ctx context.Context, c *ledger.Claim, copies []ledger.Copy) (stored int, fenced bool, err error)
	Unexported(ctx context.Context, claims []*ledger.Claim, limit int) ([]ledger.DeadLetter, error)
	DeadPayload(ctx context.Context, d ledger.DeadLetter) (packed []byte, p ledger.Pointer, err error)
	Exported(ctx context.Context, claims []*ledger.Claim, list []ledger.DeadLetter) error
}

var (
	_ Ledger = (*ledger.Namespace)(nil)
	_ Ledger = (*ledgertest.Process)(nil)
)

// subject is a ledger under test: a database that holds nothing yet, with operators and random events around it.
type subject interface {
	// Process starts a process. All of a test have one name and generation.
	Process(t testing.TB, spec ledger.Spec) Ledger
	// Pass makes what is stored so much older, by the database's clock.
	Pass(t testing.TB, d time.Duration)
	// Lose breaks the connection at the next COMMIT of a process: before the server has it, or before the process hears of it.
	// meanwhile, if not nil, runs before the process may look for the outcome. over ends that, and reports whether a COMMIT was hit.
	Lose(t testing.TB, of Ledger, written bool, meanwhile func()) (over func() bool)
	// Waits waits until a process waits for a lock that another holds.
	Waits(t testing.TB, of Ledger)
	// Entered waits until the database knows that a process is a member.
	Entered(t testing.TB, of Ledger, member string)
	// Stop is what ends a process in the midst of what it does: from here on it writes nothing.
	Stop(t testing.TB, of Ledger)

	Accept(ctx context.Context, f ledger.StopFilter, a ledger.Acceptance, dryRun bool) ([]ledger.Stop, error)
	Ask(ctx context.Context, source, id string, kind ledger.CommandKind, by, reason string) (int64, error)
	AskAction(ctx context.Context, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (int64, error)
	// Report is what a destination says later of an attempt.
	Report(ctx context.Context, r ledger.Report) error
	// AskSeek asks that a partition goes on at another offset, and SeekOutcome says what became of the last such request.
	AskSeek(ctx context.Context, fence int32, topic ledger.TopicID, to int64, by, reason string) (int64, error)
	SeekOutcome(ctx context.Context, fence int32) (outcome string, from int64)
}

// inMemory is a Memory as a subject.
type inMemory struct {
	*ledgertest.Memory
	mu     sync.Mutex
	losses map[string]*loss // by process
}

// loss is a connection that breaks at the next COMMIT.
type loss struct {
	written   bool
	meanwhile func()
	broken    bool // meanwhile is still to run
}

// inMemoryProcess is a process of it, with the name by which the hook knows it.
type inMemoryProcess struct {
	*ledgertest.Process
	name string
}

// ofMemory gives a new Memory to the suite. What it is named its first process says.
func ofMemory() subject { return &inMemory{losses: map[string]*loss{}} }

func (s *inMemory) Process(t testing.TB, spec ledger.Spec) Ledger {
	t.Helper()
	if s.Memory == nil {
		s.Memory = ledgertest.New(spec.Name, spec.Generation)
		s.SetHook(s.lose)
	}
	name := fmt.Sprintf("%s of memory", spec.Owner)
	p, err := s.Memory.Process(name, spec)
	if err != nil {
		t.Fatal(err)
	}
	return inMemoryProcess{p, name}
}

var errConnection = errors.New("the connection is lost")

// lose is the Memory's hook.
func (s *inMemory) lose(_ context.Context, c ledgertest.Call) error {
	s.mu.Lock()
	l := s.losses[c.Process]
	if l == nil || c.Reads {
		s.mu.Unlock()
		return nil
	}
	var run func()
	var err error
	switch {
	case l.broken && c.Point == ledgertest.Before:
		run = l.meanwhile
		delete(s.losses, c.Process)
	case !l.broken && l.written && c.Point == ledgertest.After:
		run, err = l.meanwhile, errConnection
		delete(s.losses, c.Process)
	case !l.broken && !l.written && c.Point == ledgertest.Within:
		l.broken, err = true, errConnection
	}
	s.mu.Unlock()
	if run != nil {
		run()
	}
	return err
}

func (s *inMemory) Lose(_ testing.TB, of Ledger, written bool, meanwhile func()) (over func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, l := of.(inMemoryProcess).name, &loss{written: written, meanwhile: meanwhile}
	s.losses[name] = l
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		armed := s.losses[name] == l && !l.broken
		delete(s.losses, name)
		return !armed
	}
}

func (s *inMemory) Waits(t testing.TB, of Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := of.(inMemoryProcess).Waits(ctx); err != nil {
		t.Fatal("nobody waits:", err)
	}
}

func (s *inMemory) Pass(_ testing.TB, d time.Duration) { s.Memory.Pass(d) }

func (s *inMemory) Entered(testing.TB, Ledger, string) {}

func (s *inMemory) Stop(_ testing.TB, of Ledger) { of.(inMemoryProcess).Kill() }

func (s *inMemory) Ask(_ context.Context, source, id string, kind ledger.CommandKind, by, reason string) (int64, error) {
	return s.Memory.Ask(source, id, kind, by, reason)
}

func (s *inMemory) AskAction(_ context.Context, id schemas.ActionID, kind ledger.CommandKind, d ledger.CommandDetail, by, reason string) (int64, error) {
	return s.Memory.AskAction(id, kind, d, by, reason)
}

func (s *inMemory) Report(_ context.Context, r ledger.Report) error {
	return s.Memory.Report(r)
}

func (s *inMemory) AskSeek(_ context.Context, fence int32, topic ledger.TopicID, to int64, by, reason string) (int64, error) {
	return s.Memory.AskSeek(fence, topic, to, by, reason)
}

func (s *inMemory) SeekOutcome(_ context.Context, fence int32) (outcome string, from int64) {
	return s.Memory.SeekOutcome(fence)
}
