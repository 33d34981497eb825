package lane

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	told "github.com/forebay-io/forebay/stream/inbox/reports"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// ask asks something of an event's action and has the lanes apply it; it gives the outcomes.
func (r *real) ask(kind ledger.CommandKind, d ledger.CommandDetail, events ...string) (out []string) {
	r.t.Helper()
	for _, event := range events {
		id := schemas.NewActionID("acme.triage", 0, "/acme/orders", event, "run")
		if _, err := inbox.New(r.l).AskAction(r.t.Context(), id, kind, d, "jo", "mended"); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.applyCommands()
}

// applyCommands has the lanes apply the commands until none is left.
func (r *real) applyCommands() (out []string) {
	r.t.Helper()
	for {
		asked, err := r.ns.Commands(r.t.Context(), []*ledger.Claim{r.claim}, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(asked) == 0 {
			return out
		}
		for _, cmd := range asked {
			outcome, err := r.ApplyCommand(r.t.Context(), r.claim, cmd)
			if err != nil {
				r.t.Fatal(err)
			}
			if outcome != "" {
				out = append(out, outcome)
			}
		}
	}
}

// waitIdle waits until so many lanes are parked and nothing is under way.
func (r *real) waitIdle(parked int) {
	r.t.Helper()
	for limit := time.Now().Add(patience); ; {
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		still := p != nil && p.busy == 0 && !p.more && len(p.rerun) == 0 && len(p.parked) == parked && len(p.needsRefill) == 0 && len(r.s.q.timers.heap) == 0 && r.s.q.dispatch.ready == 0 && len(r.s.q.results.pending) == 0
		if still && parked == 0 { // parked lanes leave their actions in the ledger; others may be being read from there
			for _, la := range p.lanes {
				still = still && !la.overflow()
			}
		}
		r.s.mu.Unlock()
		if still {
			return
		}
		if time.Now().After(limit) {
			r.t.Fatalf("not idle: %+v", p)
		}
		<-time.After(time.Millisecond)
	}
}

// newNamespace goes on with another namespace, with the lane's on_dead and an order by version. change changes its policy.
func (r *real) newNamespace(onDead ledger.OnDead, change ...func(*gate.Policy)) {
	r.t.Helper()
	r.closeClaim()
	if err := r.ns.Release(r.t.Context(), r.claim); err != nil {
		r.t.Fatal(err)
	}
	r.stop()
	policy := gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, Then: gate.ThenSkip,
		MaxPerEntity: 100, MaxBuffered: 1000}
	for _, c := range change {
		c(&policy)
	}
	ns, err := r.l.Namespace(r.t.Context(), ledger.Spec{
		Name: "acme.triage", Owner: "test", Actions: []ledger.ActionSpec{{Name: "run", Destination: destName, OnDead: onDead}},
		Policy: policy,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.ns = ns
	r.shape = func(e *schemas.Event) { e.Version = schemas.Version{Kind: schemas.Monotonic, Value: r.offset + 1} }
	r.start()
}

// A parked lane is run again with its head: everything behind it goes on in order, each once, also what had stayed in the
// ledger, and what came meanwhile.
func TestRedriveOfAParkedLane(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	broken := true
	r.ends(func(a sink.Action) sink.Class {
		if broken && a.Event.Entity == "bad" {
			return sink.ClassRejected
		}
		return sink.ClassOK
	})
	r.feed("bad", "good", "bad", "bad")
	r.until(2)
	for range 40 { // more than a lane's window
		r.feed("bad")
	}
	r.waitIdle(1)
	same(t, "dead again", r.ask(ledger.Replay, ledger.CommandDetail{}, "bad#1"), []string{"runs again"})
	r.until(1)
	r.waitIdle(1)
	r.sink.mu.Lock()
	broken = false
	r.sink.mu.Unlock()
	r.ask(ledger.Replay, ledger.CommandDetail{}, "bad#1")
	r.feed("bad", "good")
	r.until(45)
	r.waitIdle(0)
	want := []string{"bad#1/1", "bad#1/2", "bad#1/3", "bad#3/1", "bad#4/1"}
	for i := range 41 {
		want = append(want, fmt.Sprintf("bad#%d/1", 5+i))
	}
	same(t, "calls of bad", calls(r, "bad"), want)
	same(t, "open", len(r.openActions()), 0)
}

// What was done before its death was known is not done again by a replay (P1): the replay takes what was reported.
func TestRedriveOfWhatIsDone(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.ends(func(a sink.Action) sink.Class {
		if a.Event.ID == "a#1" {
			return sink.ClassRejected
		}
		return sink.ClassOK
	})
	r.feed("a", "a")
	r.until(1)
	r.waitIdle(1)
	said := ledger.Report{AttemptRef: ledger.AttemptRef{Fence: r.claim.ID, LaneSeq: 1, Attempt: 1, Epoch: r.claim.Epoch}, Status: ledger.Done}
	state, err := told.New(r.l).Report(t.Context(), said)
	if err != nil || state != told.Late {
		t.Fatal(state, err)
	}
	r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1")
	r.until(1)
	r.waitIdle(0)
	same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#2/1"})
	s, err := told.New(r.l).ActionState(t.Context(), said.AttemptRef)
	if err != nil || s.Status != ledger.Done || s.Outcome != "applied" {
		t.Errorf("%+v %v", s, err)
	}
}

// What is given up or resolved as done makes way; only the head of its lane holds it.
func TestDiscardOfAHead(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.ends(func(a sink.Action) sink.Class {
		if a.Event.ID == "bad#1" || a.Event.ID == "odd#2" {
			return sink.ClassRejected
		}
		return sink.ClassOK
	})
	r.feed("bad", "odd", "bad", "odd", "odd")
	r.until(2)
	r.waitIdle(2)
	same(t, "given up", r.ask(ledger.Discard, ledger.CommandDetail{}, "bad#1"), []string{"given up"})
	r.until(1)
	r.waitIdle(1)
	same(t, "told", r.ask(ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, "odd#2"), []string{"resolved as done"})
	r.until(2)
	r.waitIdle(0)
	same(t, "calls of bad", calls(r, "bad"), []string{"bad#1/1", "bad#3/1"})
	same(t, "calls of odd", calls(r, "odd"), []string{"odd#2/1", "odd#4/1", "odd#5/1"})
}

// What is given up or resolved as done while it stands behind another one that runs, makes way too: an operator has had the first
// run again, so that both are in memory.
func TestDiscardBehindTheHead(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.newNamespace(ledger.Continue)
	r.shape = nil // no versions: nothing is newer than anything
	r.sink.kind = sink.Unsafe
	hold := make(chan struct{})
	r.ends(func(a sink.Action) sink.Class {
		switch {
		case a.Event.ID == "a#1" && a.Attempt == 1:
			return sink.ClassRejected
		case a.Event.ID == "a#1":
			<-hold
		case a.Event.ID == "a#2" || a.Event.ID == "a#3":
			return sink.ClassTimeout // nobody knows what came of it
		}
		return sink.ClassOK
	})
	r.feed("a", "a", "a", "a")
	r.until(2)
	r.waitIdle(1)
	r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1")
	r.untilCalled("a", 3)
	same(t, "while the first runs", r.ask(ledger.Discard, ledger.CommandDetail{}, "a#2"), []string{"given up"})
	close(hold)
	r.until(2)
	r.waitIdle(1)
	same(t, "told", r.ask(ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, "a#3"), []string{"resolved as done"})
	r.until(1)
	r.waitIdle(0)
	same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#2/1", "a#1/2", "a#3/1", "a#4/1"})
}

// slowPages is a ledger whose pages of open actions behind the first are held back once they are read.
type slowPages struct {
	*ledger.Namespace
	read chan struct{} // one for each
	give chan struct{}
}

func (s *slowPages) Open(ctx context.Context, c *ledger.Claim, after int64, limit int) ([]ledger.Action, bool, error) {
	list, more, err := s.Namespace.Open(ctx, c, after, limit)
	if after > 0 {
		s.read <- struct{}{}
		<-s.give
	}
	return list, more, err
}

// A page that was read before an operator gave its dead action up parks nothing.
func TestDiscardOfWhatIsBeingRead(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	var mended atomic.Bool
	r.ends(func(sink.Action) sink.Class {
		if mended.Load() {
			return sink.ClassOK
		}
		return sink.ClassRejected
	})
	for i := range 65 { // a page, and one more
		r.feed(fmt.Sprint("e", i))
	}
	r.until(65)
	r.waitIdle(65)
	mended.Store(true)
	slow := &slowPages{Namespace: r.ns, read: make(chan struct{}, 100), give: make(chan struct{})}
	r.wrap = func(*ledger.Namespace) Ledger { return slow }
	r.reopenClaim()
	<-slow.read
	same(t, "given up", r.ask(ledger.Discard, ledger.CommandDetail{}, "e64#65"), []string{"given up"})
	close(slow.give)
	r.waitIdle(64)
	r.feed("e64")
	r.until(1)
	r.waitIdle(64)
	same(t, "calls", calls(r, "e64"), []string{"e64#65/1", "e64#66/1"})
}

// An operator who runs an action again grants all attempts again, of which the first begins a run.
func TestRedriveGrantsAttemptsAgain(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.ends(func(a sink.Action) sink.Class {
		if a.Attempt < 10 {
			return sink.ClassBusy
		}
		return sink.ClassOK
	})
	r.feed("a", "a")
	r.until(7)
	r.waitIdle(1)
	r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1")
	r.until(3 + 7) // the one behind it has its own to make
	r.waitIdle(1)
	same(t, "of the first", len(calls(r, "a")), 7+3+7)
	var runs []string
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, a := range r.sink.calls {
		if a.Attempt-a.Unmade == 1 {
			runs = append(runs, fmt.Sprintf("%s/%d", a.Event.ID, a.Attempt))
		}
	}
	same(t, "begin a run", runs, []string{"a#1/1", "a#1/8", "a#2/1"})
	same(t, "open", r.openActions(), []string{"a#2 dead_letter 7"})
}

// P4: after on_dead: continue a snapshot whose entity has a newer version is stale, a delta runs marked late, and what
// is forced runs; what has no newer version runs as it is.
func TestRedriveOutOfOrder(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.newNamespace(ledger.Continue)
	dead := map[string]bool{"snap#1": true, "forced#2": true, "delta#3": true, "last#4": true}
	late := map[string]bool{}
	r.sink.do = func(_ context.Context, a sink.Action) (sink.Outcome, error) {
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		late[fmt.Sprintf("%s/%d", a.Event.ID, a.Attempt)] = a.Late
		defer func() { r.result <- a.Event.ID }()
		if dead[a.Event.ID] {
			return sink.Outcome{Code: 400}, &sink.AttemptError{Class: sink.ClassRejected, Err: fmt.Errorf("no")}
		}
		return sink.Outcome{Code: 200}, nil
	}
	shape := r.shape
	r.shape = func(e *schemas.Event) {
		shape(e)
		if strings.HasPrefix(e.ID, "delta") {
			e.Payload = schemas.Delta
		}
	}
	r.feed("snap", "forced", "delta", "last", "snap", "forced", "delta")
	r.until(7)
	r.waitIdle(0)
	r.sink.mu.Lock()
	clear(dead)
	r.sink.mu.Unlock()
	r.ask(ledger.Replay, ledger.CommandDetail{}, "snap#1", "delta#3", "last#4")
	r.ask(ledger.Replay, ledger.CommandDetail{Force: true}, "forced#2")
	r.until(3)
	r.feed("snap")
	r.until(1)
	r.waitIdle(0)
	same(t, "snap", calls(r, "snap"), []string{"snap#1/1", "snap#5/1", "snap#8/1"})
	same(t, "forced", calls(r, "forced"), []string{"forced#2/1", "forced#6/1", "forced#2/2"})
	same(t, "delta", calls(r, "delta"), []string{"delta#3/1", "delta#7/1", "delta#3/2"})
	same(t, "last", calls(r, "last"), []string{"last#4/1", "last#4/2"})
	same(t, "late", late["delta#3/2"], true)
	same(t, "not late", late["last#4/2"] || late["forced#2/2"], false)
	ref, err := inbox.New(r.l).FindAction(t.Context(), schemas.NewActionID("acme.triage", 0, "/acme/orders", "snap#1", "run"))
	if err != nil || ref.Status != ledger.Stale {
		t.Error(ref, err)
	}
}

// What no claim reads of its own runs when it is replayed: what an owner before let die with on_dead: continue, what died with its gap, and
// what was stale when it was to run again.
func TestRedriveOfWhatNoClaimReads(t *testing.T) {
	t.Parallel()
	t.Run("on_dead: continue", func(t *testing.T) {
		t.Parallel()
		r := onPostgres(t)
		r.newNamespace(ledger.Continue)
		r.ends(func(a sink.Action) sink.Class {
			if a.Event.ID != "a#3" && a.Event.Entity != "b" && a.Attempt == 1 {
				return sink.ClassRejected
			}
			return sink.ClassOK
		})
		r.feed("a", "a", "a", "idle")
		r.until(4)
		r.waitIdle(0)
		r.reopenClaim()
		same(t, "on an idle partition", r.ask(ledger.Replay, ledger.CommandDetail{}, "idle#4"), []string{"runs again"})
		r.until(1)
		r.waitIdle(0)
		same(t, "what is overtaken", r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1", "a#2"), []string{"runs again", "runs again"})
		r.feed("b")
		r.until(1)
		r.waitIdle(0)
		r.reopenClaim()
		same(t, "forced", r.ask(ledger.Replay, ledger.CommandDetail{Force: true}, "a#1"), []string{"runs again"})
		if again := r.claim.TakeRevived(); again != 1 {
			t.Errorf("the copier is told of %d", again)
		}
		r.feed("b")
		r.until(2)
		r.waitIdle(0)
		same(t, "calls of idle", calls(r, "idle"), []string{"idle#4/1", "idle#4/2"})
		same(t, "calls of a", calls(r, "a"), []string{"a#1/1", "a#2/1", "a#3/1", "a#1/2"})
		same(t, "open", len(r.openActions()), 0)
	})
	t.Run("gap: then: dead_letter", func(t *testing.T) {
		t.Parallel()
		r := onPostgres(t)
		r.newNamespace(ledger.Park, func(p *gate.Policy) { p.Then = gate.ThenDeadLetter })
		value := int64(0)
		r.shape = func(e *schemas.Event) {
			e.Payload, e.Version = schemas.Delta, schemas.Version{Kind: schemas.Sequence, Value: value}
			value += 2
		}
		r.ends(func(sink.Action) sink.Class { return sink.ClassOK })
		r.feed("a")
		r.until(1)
		died := r.apply("a")
		same(t, "actions of what died with its gap", len(died), 0)
		same(t, "without a restart", r.ask(ledger.Replay, ledger.CommandDetail{}, "a#2"), []string{"runs again"})
		r.until(1)
		r.waitIdle(0)
		same(t, "actions of what died with its gap", len(r.apply("a")), 0)
		r.reopenClaim()
		same(t, "after one", r.ask(ledger.Replay, ledger.CommandDetail{}, "a#3"), []string{"runs again"})
		r.until(1)
		r.waitIdle(0)
		same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#2/1", "a#3/1"})
		same(t, "open", len(r.openActions()), 0)
	})
}

// farBehind is a ledger of which nobody can tell what has overtaken anything.
type farBehind struct{ *ledger.Namespace }

func (farBehind) Overtaken(context.Context, *ledger.Claim, ledger.Action) (bool, error) {
	return false, &schemas.Error{Kind: schemas.Unavailable, Op: "look", Err: ledger.ErrTooFar}
}

// An action of which nobody can tell whether it is overtaken makes way, dead again, and runs when it is forced, as its error says.
func TestRedriveThatCannotBeToldIsDead(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.wrap = func(n *ledger.Namespace) Ledger { return farBehind{n} }
	r.newNamespace(ledger.Continue)
	r.ends(func(a sink.Action) sink.Class {
		if a.Event.ID == "a#1" && a.Attempt == 1 {
			return sink.ClassRejected
		}
		return sink.ClassOK
	})
	r.feed("a", "a")
	r.until(2)
	r.waitIdle(0)
	r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1")
	r.feed("a")
	r.until(1)
	r.waitIdle(0)
	id := schemas.NewActionID("acme.triage", 0, "/acme/orders", "a#1", "run")
	dead, err := inbox.New(r.l).FindDeadLetter(t.Context(), id)
	if err != nil || dead.Status != ledger.Dead || dead.Class != string(sink.ClassOrder) || dead.Attempts != 1 || dead.Deaths != 2 ||
		!strings.Contains(dead.Error, "--force") {
		t.Errorf("%+v %v", dead, err)
	}
	r.ask(ledger.Replay, ledger.CommandDetail{Force: true}, "a#1")
	r.until(1)
	r.waitIdle(0)
	same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#2/1", "a#3/1", "a#1/2"})
}

// An action whose lane is busy with another goes into its place: it runs next, before those behind it.
func TestRedriveIntoABusyLane(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.newNamespace(ledger.Continue)
	r.shape = nil // no versions: nothing is newer than anything
	hold := make(chan struct{})
	tries := 0
	r.ends(func(a sink.Action) sink.Class {
		switch a.Event.ID {
		case "a#1":
			if tries++; tries == 1 {
				return sink.ClassRejected
			}
		case "a#2":
			<-hold
		}
		return sink.ClassOK
	})
	r.feed("a", "a", "a", "a")
	r.until(1)
	r.untilCalled("a", 2)
	same(t, "asked", r.ask(ledger.Replay, ledger.CommandDetail{}, "a#1"), []string{"runs again"})
	close(hold)
	r.until(4)
	r.waitIdle(0)
	same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#2/1", "a#1/2", "a#3/1", "a#4/1"})
}

// While an action's attempt is under way nothing is done about it; a claim that is not served here, or is fenced, leaves
// the command to its next owner, and then it is done once.
func TestCommandWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	r := onPostgres(t)
	r.sink.kind = sink.Unsafe
	hold := make(chan struct{})
	r.ends(func(a sink.Action) sink.Class {
		if a.Attempt == 1 {
			<-hold
			return sink.ClassRejected
		}
		return sink.ClassOK
	})
	r.feed("a", "a")
	r.untilCalled("a", 1)
	// The mark of the attempt says unknown for as long as it lasts.
	id := schemas.NewActionID("acme.triage", 0, "/acme/orders", "a#1", "run")
	if _, err := inbox.New(r.l).AskAction(t.Context(), id, ledger.Replay, ledger.CommandDetail{OutcomeUnknown: true}, "jo", "it hangs"); err != nil {
		t.Fatal(err)
	}
	asked, err := r.ns.Commands(t.Context(), []*ledger.Claim{r.claim}, 0)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	if outcome, err := r.ApplyCommand(t.Context(), r.claim, asked[0]); outcome != "" || err != nil {
		t.Errorf("%q %v", outcome, err)
	}
	close(hold)
	r.until(1)
	r.waitIdle(1)
	old := r.claim
	r.closeClaim()
	if outcome, err := r.ApplyCommand(t.Context(), old, asked[0]); outcome != "" || err != nil {
		t.Errorf("after Close: %q %v", outcome, err)
	}
	// Somebody else claims; these lanes do not know yet.
	if err := r.Open(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if r.claim, err = r.nextClaim(); err != nil {
		t.Fatal(err)
	}
	if outcome, err := r.ApplyCommand(t.Context(), old, asked[0]); outcome != "" || err == nil || len(r.fenced) != 1 {
		t.Errorf("fenced: %q %v %d", outcome, err, len(r.fenced))
	}
	r.ends(func(sink.Action) sink.Class { return sink.ClassOK })
	if err := r.Open(t.Context(), r.claim); err != nil {
		t.Fatal(err)
	}
	same(t, "the next owner", r.applyCommands(), []string{"runs again"})
	r.until(2)
	r.waitIdle(0)
	same(t, "calls", calls(r, "a"), []string{"a#1/1", "a#1/2", "a#2/1"})
}
