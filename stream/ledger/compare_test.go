package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// compare plays a random history of so many steps on two ledgers, and fails where they differ in anything that they tell:
// outcomes, actions, errors and their kinds, deadlines, pages, what is fenced. Processes take partitions from each other,
// with policies of every word, rewind and skip; zombies go on; connections are lost at COMMIT; logs are cut and created again;
// operators ask, accept and discard. In every other history windows turn instead of connections that are lost. Rows of version lines are as far
// behind as may be.
func compare(t testing.TB, a, b subject, seed uint64, steps int) {
	h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, subjects: [2]subject{a, b}, owner: make([]*holding, historyPartitions),
		number: map[string]int{}}
	h.author = ledger.NewAuthor(h.rng, historyPartitions, func(r *ledger.Record) { spoil(h.rng, r) })
	h.topic = 1
	h.respec()
	h.start()
	for range steps {
		h.step()
	}
	h.rest()
}

const (
	historyPartitions = 3
	historyWait       = time.Hour
)

type history struct {
	t        testing.TB
	rng      *rand.Rand
	seed     uint64
	subjects [2]subject
	author   *ledger.Author
	spec     ledger.Spec
	filter   map[string]bool
	topic    byte // counts how often it was created
	procs    []*pair
	owner    []*holding // by partition; nil: nobody's
	zombies  []*holding
	trace    []string
	number   map[string]int // what happened how often
}

// pair is one process on both ledgers.
type pair struct {
	name   string
	spec   ledger.Spec
	filter map[string]bool
	on     [2]Ledger
}

// holding is a claim on both ledgers.
type holding struct {
	part  int
	proc  *pair
	claim [2]*ledger.Claim
}

func (h *history) log(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *history) fatalf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("seed %d: %s\nafter:\n%s", h.seed, fmt.Sprintf(format, args...), strings.Join(h.trace[max(0, len(h.trace)-30):], "\n"))
}

// same compares what the two ledgers have told.
func (h *history) same(what string, answers [2]any) {
	h.t.Helper()
	h.number[what]++
	if d := cmp.Diff(answers[0], answers[1], cmp.Comparer(closeTimes), cmp.Comparer(closeDurations), cmpopts.EquateEmpty()); d != "" {
		h.fatalf("%s differs (- the first, + the second):\n%s", what, d)
	}
}

// tolerance is how far clocks and the machine may put two ledgers apart; all waits are much longer.
const tolerance = 20 * time.Second

func closeTimes(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < tolerance
}
func closeDurations(a, b time.Duration) bool { return (a-b).Abs() < tolerance && (a < 0) == (b < 0) }

// both does something on both ledgers and compares what they tell.
func (h *history) both(what string, do func(i int) any) [2]any {
	h.t.Helper()
	answers := [2]any{do(0), do(1)}
	h.same(what, answers)
	return answers
}

// errorText is what of an error two ledgers have in common.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*ledger.ContinuityError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*ledger.TopicError](err); ok {
		return fmt.Sprintf("%s %s next %d, %v, open %d, waiting %d", schemas.KindOf(err), e, e.Next, e.ProcessedAt.UTC(), e.Open, e.Waiting)
	}
	if kind := schemas.KindOf(err); kind != "" {
		return string(kind)
	}
	return err.Error()
}

// respec chooses another policy, other actions and another filter for the processes that start from now on.
func (h *history) respec() {
	r := h.rng
	p := gate.Policy{GapWait: historyWait, BackfillWait: historyWait, Also: pick(r, 0, 5*time.Second, time.Hour)}
	p.Order = pick(r, gate.OrderVersion, gate.OrderVersion, gate.OrderVersion, gate.OrderVersion, gate.OrderArrival)
	p.Start = pick(r, gate.StartAny, gate.StartAny, gate.StartFirst, gate.StartBackfill)
	p.Equal = pick(r, gate.EqualApply, gate.EqualApply, gate.EqualFirst, gate.EqualLast, gate.EqualHold)
	p.Then = pick(r, gate.ThenSkip, gate.ThenSkip, gate.ThenPark, gate.ThenBackfill, gate.ThenBackfill, gate.ThenDeadLetter)
	p.Otherwise = pick(r, gate.ThenSkip, gate.ThenPark, gate.ThenDeadLetter)
	p.Stale = pick(r, gate.OnStale{}, gate.OnStale{}, gate.OnStale{Snapshot: gate.StaleDeliver, Delta: gate.StaleDrop},
		gate.OnStale{Snapshot: gate.StaleHold}, gate.OnStale{Delta: gate.StaleHold})
	if r.IntN(6) == 0 {
		p.GapWait = 0
	}
	if r.IntN(3) == 0 {
		p.MaxPerEntity, p.MaxBuffered = 1+r.IntN(3), historyPartitions*(1+r.IntN(6))
	}
	p.LateSnapshots = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		p.MaxReleases = 1 + r.IntN(3)
	}
	if r.IntN(4) == 0 {
		p.MaxBytesPerEntity, p.MaxBytes = 10+r.Int64N(30), historyPartitions*(12+r.Int64N(60))
	}
	run, tell := ledger.ActionSpec{Name: "run", Destination: "acme/coder", OnDead: ledger.Park}, ledger.ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: ledger.Continue}
	h.spec = ledger.Spec{Name: "acme.history", Policy: p, Window: 1000 * 24 * time.Hour, CacheLines: pick(r, 0, 2, 5), MaxAge: pick(r, 0, 2*historyWait), Latest: r.IntN(2) == 0,
		Actions: pick(r, []ledger.ActionSpec{run}, []ledger.ActionSpec{run, tell}, []ledger.ActionSpec{tell, {Name: "run", Destination: "acme/coder", OnDead: ledger.Continue}}, nil)}
	h.filter = map[string]bool{}
	for i := range 4 {
		h.filter[fmt.Sprintf("t.%d", i)] = r.IntN(5) == 0
	}
}

// start starts a process on both ledgers.
func (h *history) start() *pair {
	p := &pair{name: fmt.Sprintf("process %d", len(h.procs)+1), spec: h.spec, filter: h.filter}
	p.spec.Owner = p.name
	for i, s := range h.subjects {
		p.on[i] = s.Process(h.t, p.spec)
		if real, ok := p.on[i].(*ledger.TestProcess); ok {
			own := rand.New(rand.NewPCG(h.seed, uint64(len(h.procs))))
			real.Keep(pick[int64](own, 0, 1, 3, 10, ledger.MaxLag), pick(own, 1, 16, 1<<17), pick(own, 1, 4, 1<<17))
		}
	}
	h.procs = append(h.procs, p)
	h.log("%s starts: %+v", p.name, p.spec.Policy)
	return p
}

// someone returns a process that runs, or starts another one.
func (h *history) someone() *pair {
	if len(h.procs) > 2 && h.rng.IntN(8) > 0 {
		return h.procs[h.rng.IntN(len(h.procs))]
	}
	if len(h.procs) < 6 && h.rng.IntN(2) == 0 {
		h.respec()
		return h.start()
	}
	return h.procs[h.rng.IntN(len(h.procs))]
}

func (h *history) partition(n int) ledger.Partition {
	return ledger.Partition{Topic: "events.acme.github", TopicID: ledger.TopicID{h.topic}, Number: int32(n)}
}

// step does one random thing with one partition.
func (h *history) step() {
	part := h.rng.IntN(historyPartitions)
	if h.owner[part] == nil || h.rng.IntN(12) == 0 {
		h.claim(part, h.someone())
		return
	}
	o := h.owner[part]
	if len(h.zombies) > 0 && h.rng.IntN(10) == 0 {
		o = h.zombies[h.rng.IntN(len(h.zombies))]
	}
	x := h.rng.IntN(100)
	if loads := x >= 84 && x < 90; h.rng.IntN(10) == 0 && !loads && x < 96 && !h.turns() {
		defer h.lose(o)()
	}
	switch {
	case x < 30:
		h.author.Extend(o.part, h.rng.IntN(12))
		h.apply(o)
	case x < 36:
		h.ask(o)
		h.applyCommand(o)
	case x < 42:
		h.endBackfill(o)
	case x < 60:
		h.record(o)
	case x < 65:
		h.copies(o)
	case x < 72:
		h.pass()
	case x < 75:
		h.deadlines(o)
	case x < 80:
		h.expire(o)
	case x < 81:
		h.caughtUp(o)
	case x < 82:
		h.turn(o)
	case x < 84:
		h.release(o)
	case x < 90:
		h.load(o)
	case x < 94:
		h.askAction(o)
	case x < 96:
		h.export(o)
	case x < 97:
		h.cut(o.part)
	case x < 98:
		h.recreate()
	default:
		h.nonsense(o)
	}
}

// lose breaks a process's connection at its next COMMIT, on both sides.
func (h *history) lose(o *holding) (over func()) {
	written := h.rng.IntN(2) == 0
	h.log("the connection of %s is lost at COMMIT, written: %v", o.proc.name, written)
	var ends [2]func() bool
	for i, s := range h.subjects {
		ends[i] = s.Lose(h.t, o.proc.on[i], written, nil)
	}
	return func() { // Postgres hears a COMMIT of what it has refused, too: they need not agree that it happened
		for _, end := range ends {
			if end() {
				h.number["a lost connection"]++
			}
		}
	}
}

// claim takes a partition, at its position or at an operator's.
func (h *history) claim(part int, p *pair) {
	how := h.rng.IntN(10)
	to := h.rng.Int64N(h.author.End[part] + 1)
	h.log("%s claims partition %d, way %d", p.name, part, how)
	h.claimAt(part, p, func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		switch {
		case how == 0:
			return ledger.Start{}, errors.New("ILLEGAL_GENERATION")
		case how == 1: // no seek, which is refused unless it is there
			return ledger.Start{Position: ledger.Position{Offset: to}}, nil
		case how == 2: // a seek from somewhere else
			return ledger.Start{Position: ledger.Position{Offset: to}, Seek: &ledger.Seek{From: to + 1, To: to}}, nil
		case how < 5 && stored != nil && stored.Offset != to:
			return ledger.Start{Position: ledger.Position{Offset: to, LeaderEpoch: -1}, Seek: &ledger.Seek{From: stored.Offset, To: to}}, nil
		case stored != nil:
			return ledger.Start{Position: *stored}, nil
		}
		return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}}, nil
	})
}

// claimAt claims a partition for p in both ledgers, and compares what they answer. If they gave the claim, p owns the partition from then
// on, and the claim of the owner before is kept to see that it writes nothing more; otherwise claimAt returns false.
func (h *history) claimAt(part int, p *pair, confirm func(context.Context, *ledger.Position) (ledger.Start, error)) bool {
	var claims [2]*ledger.Claim
	h.both("claim", func(i int) any {
		var answers []any
		c, err := p.on[i].Claim(h.t.Context(), ledger.ClaimRequest{Partition: h.partition(part), Partitions: historyPartitions,
			Standing: func(s ledger.Standing) { answers = append(answers, showStanding(s)) },
			Confirm: func(ctx context.Context, stored *ledger.Position) (ledger.Start, error) {
				answers = append(answers, stored)
				return confirm(ctx, stored)
			}})
		claims[i] = c
		answers = append(answers, errorText(err))
		if c != nil {
			answers = append(answers, c.Epoch, c.Next, c.Seek, c.Unclean, c.DoubtTo, c.DoubtAt, c.Partition)
		}
		return answers
	})
	if claims[0] == nil {
		return false
	}
	h.keepAsZombie(part)
	h.owner[part] = &holding{part: part, proc: p, claim: claims}
	return true
}

func showStanding(s ledger.Standing) any {
	s.Remembers = time.Time{}
	if s.Stop != nil {
		s.Stop = new(showStop(*s.Stop))
	}
	return s
}

// showStop leaves out what only one ledger means: its ids, and times by its own clock.
func showStop(s ledger.Stop) ledger.Stop {
	s.ID, s.FoundAt = 0, time.Time{}
	if s.Accepted != nil {
		s.Accepted = &ledger.Acceptance{By: s.Accepted.By, Reason: s.Accepted.Reason}
	}
	return s
}

// keepAsZombie makes whoever owned a partition a zombie.
func (h *history) keepAsZombie(part int) {
	if o := h.owner[part]; o != nil {
		h.zombies = append(h.zombies, o)
		h.zombies = h.zombies[max(0, len(h.zombies)-4):]
	}
	h.owner[part] = nil
}

// mine are the claims of a holding's process that apply together.
func (h *history) mine(o *holding) []*holding {
	out := []*holding{o}
	for _, other := range h.owner {
		if other != nil && other != o && other.proc == o.proc && other.part != o.part && h.rng.IntN(2) == 0 {
			out = append(out, other)
		}
	}
	h.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (h *history) apply(o *holding) {
	var batch [2][]ledger.Slice
	mine := h.mine(o)
	for _, o := range mine {
		records, next := h.author.Read(o.part, o.claim[0].Next.Offset, 1+h.rng.IntN(8), o.proc.filter)
		s := ledger.Slice{From: o.claim[0].Next.Offset, Records: records, Next: ledger.Position{Offset: next, LeaderEpoch: 3}}
		h.spoil(&s)
		h.log("%s applies [%d,%d) of partition %d, %d records", o.proc.name, s.From, s.Next.Offset, o.part, len(s.Records))
		for i := range batch {
			one := s
			one.Claim, one.Records = o.claim[i], slices.Clone(s.Records)
			batch[i] = append(batch[i], one)
		}
	}
	answers := h.both("apply", func(i int) any {
		out, err := o.proc.on[i].Apply(h.t.Context(), batch[i])
		shown := []any{errorText(err)}
		for n := range out {
			shown = append(shown, showApplied(&out[n], mine[n].part))
		}
		for _, o := range mine {
			shown = append(shown, o.claim[i].Next)
		}
		return shown
	})
	h.after(mine, answers)
}

// after lets go of claims that are fenced or refused.
func (h *history) after(mine []*holding, answers [2]any) {
	for n, o := range mine {
		if shown := answers[0].([]any); n+1 < len(shown) {
			if a, ok := shown[n+1].(applied); ok && (a.Fenced || a.Refused != "") && h.owner[o.part] == o {
				h.keepAsZombie(o.part)
			}
		}
	}
}

// spoil now and then makes a slice what the ledger must refuse.
func (h *history) spoil(s *ledger.Slice) {
	switch h.rng.IntN(40) {
	case 0:
		s.From++
	case 1:
		s.From--
	case 2:
		if n := len(s.Records); n > 1 {
			s.Records = slices.Clone(s.Records)
			s.Records[0], s.Records[n-1] = s.Records[n-1], s.Records[0]
		}
	case 3:
		s.Next.Offset = s.From - 1
	case 4:
		if n := len(s.Records); n > 0 {
			s.Next.Offset = s.Records[n-1].Offset
		}
	}
}

// applied is what two ledgers must tell alike of a slice.
type applied struct {
	Part                       int
	Fenced                     bool
	Refused                    string
	Outcomes                   []outcome
	Actions                    []ledger.Action
	Quarantined                []int
	BackfillRequested, Waiting bool
}

type outcome struct {
	Record     int
	Decision   gate.Decision
	Reason     gate.Reason
	Held, Dead bool
	Version    schemas.Version
	Released   string
}

func showApplied(a *ledger.Applied, part int) applied {
	out := applied{Part: part, Fenced: a.Fenced, Quarantined: a.Quarantined, BackfillRequested: a.BackfillRequested, Waiting: a.Waiting}
	if a.Refused != nil {
		out.Refused = errorText(a.Refused)
	}
	for _, o := range a.Outcomes {
		one := outcome{o.Record, o.Decision, o.Reason, o.Held, o.Dead, o.Version, ""}
		if r := o.Released; r != nil {
			one.Released = fmt.Sprintf("%d %s %v %s %d", r.Offset, r.Key, r.Version, r.Entity, r.Size)
		}
		out.Outcomes = append(out.Outcomes, one)
	}
	out.Actions = showActions(a.Actions)
	return out
}

// showActions leaves out which row of the fences they are of.
func showActions(list []ledger.Action) []ledger.Action {
	out := slices.Clone(list)
	for i := range out {
		out[i].Claim = 0
		if len(out[i].Packed) == 0 {
			out[i].Packed = nil
		}
	}
	return out
}

// pass lets time go by on both.
func (h *history) pass() {
	d := time.Duration(5+h.rng.IntN(40)) * time.Minute
	h.log("%s pass", d)
	for _, s := range h.subjects {
		s.Pass(h.t, d)
	}
}

func (h *history) deadlines(o *holding) {
	mine := h.mine(o)
	h.log("%s asks for deadlines", o.proc.name)
	h.both("deadlines", func(i int) any {
		var claims []*ledger.Claim
		for _, o := range mine {
			claims = append(claims, o.claim[i])
		}
		left, err := o.proc.on[i].NextDeadline(h.t.Context(), claims)
		shown := map[int]time.Duration{}
		for _, o := range mine {
			if d, ok := left[o.claim[i].ID]; ok {
				shown[o.part] = d
			}
		}
		return []any{shown, len(left), errorText(err)}
	})
}

func (h *history) expire(o *holding) {
	h.log("%s ends the waits of partition %d", o.proc.name, o.part)
	answers := h.both("expire", func(i int) any {
		a, err := o.proc.on[i].Expire(h.t.Context(), o.claim[i])
		return []any{errorText(err), showApplied(&a, o.part)}
	})
	h.after([]*holding{o}, answers)
}

func (h *history) caughtUp(o *holding) {
	at := ledger.LogBegan.Add(time.Duration(h.rng.IntN(2000)) * time.Second)
	h.log("%s has caught up in partition %d", o.proc.name, o.part)
	h.both("caught up", func(i int) any {
		return errorText(o.proc.on[i].CaughtUp(h.t.Context(), at, []*ledger.Claim{o.claim[i]}))
	})
}

// turns reports whether windows turn in this history. Then no connection is lost: what becomes of a doubt is not the same where they do.
func (h *history) turns() bool { return h.seed%2 == 0 }

// turn has the windows turn where a ledger has some, and lines written that are behind: nobody sees a difference.
func (h *history) turn(o *holding) {
	h.log("windows may turn, and %s tidies partition %d", o.proc.name, o.part)
	for _, s := range h.subjects {
		if real, ok := s.(*postgres); ok && h.turns() {
			real.TurnWindow(h.t)
			h.number["windows turned"]++
		}
	}
	for range 2 { // the second finds nothing to do
		h.both("tidy", func(i int) any {
			_, err := o.proc.on[i].Tidy(h.t.Context(), o.claim[i])
			return errorText(err)
		})
	}
}

// release has the owner of a partition release it.
func (h *history) release(o *holding) {
	doubt := h.rng.IntN(2) == 0
	h.log("%s releases partition %d", o.proc.name, o.part)
	h.both("release", func(i int) any {
		if doubt {
			o.claim[i].DoubtTo = 0
		}
		return errorText(o.proc.on[i].Release(h.t.Context(), o.claim[i]))
	})
	if h.owner[o.part] == o {
		h.keepAsZombie(o.part)
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// spoil makes a record that no table takes.
func spoil(rng *rand.Rand, r *ledger.Record) {
	switch rng.IntN(5) {
	case 0:
		r.Type = "t.\x00"
	case 1:
		r.ID = "\xff\xfe"
	case 2:
		r.ID = ""
	case 3:
		r.Version.Clock = "c\x00"
	default:
		r.Source = ""
	}
}
