package gate

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// rec builds a record of the one line "e"; its key is its number, and its offset too until at says otherwise.
func rec(id int, kind schemas.VersionKind, value int64, opts ...func(*Record)) Record {
	r := Record{
		Offset: int64(id), Key: key(id), Hash: schemas.BodyHash{byte(id)}, Entity: "e",
		Version: schemas.Version{Kind: kind, Value: value}, Payload: schemas.Snapshot,
	}
	for _, o := range opts {
		o(&r)
	}
	return r
}

func key(id int) (k schemas.EventKey) {
	binary.BigEndian.PutUint64(k[:], uint64(id))
	return k
}

func idOf(k schemas.EventKey) int { return int(binary.BigEndian.Uint64(k[:])) }

func seq(id int, value int64, opts ...func(*Record)) Record {
	return rec(id, schemas.Sequence, value, opts...)
}

func delta(r *Record)    { r.Payload = schemas.Delta }
func filtered(r *Record) { r.Filtered = true }
func also(r *Record)     { r.Also = Also{1} }
func deleted(r *Record)  { r.Deleted = true }
func fetched(r *Record)  { r.Backfill = true }
func forged(r *Record)   { r.Hash[15] = 0xff }
func first(v int64) func(*Record) {
	return func(r *Record) { r.First = &v }
}
func bytes(n int64) func(*Record)               { return func(r *Record) { r.Size = n } }
func on(entity schemas.EntityKey) func(*Record) { return func(r *Record) { r.Entity = entity } }
func clock(c string) func(*Record)              { return func(r *Record) { r.Version.Clock = c } }
func sub(s int32) func(*Record)                 { return func(r *Record) { r.Version.Sub = s } }
func epoch(n int64) func(*Record)               { return func(r *Record) { r.Version.Epoch = n } }
func appended(t time.Time) func(*Record)        { return func(r *Record) { r.AppendTime = t } }

func misplaced(r *Record) { r.Broken = ReasonMisplaced }
func tooLarge(r *Record)  { r.Broken = ReasonTooLarge }
func failed(r *Record)    { r.Broken = ReasonExpression }
func unmatched(r *Record) { r.Filtered, r.Unmatched = true, true }

// step is one thing that happens to a state: a batch, or the end of a wait, by itself or as an operator asks, or another
// policy from here on, or an operator's word on the event that was held last.
type step struct {
	records []Record
	expire  []VersionLineKey
	release []VersionLineKey
	policy  *Policy
	person  func(*State, *Waiting) Outcome
	decide  func(*State, []Record, Policy) []Outcome // of records
}

var (
	redrive = step{person: Redrive}
	discard = step{person: func(_ *State, held *Waiting) Outcome { return Discard(held) }}
)

// reprocess has records run again by a replay; evenStale asks for older snapshots, too. Record n of before is record 10+n of
// the generation.
func reprocess(evenStale bool, records ...Record) step {
	ofGeneration := func(k schemas.EventKey) schemas.EventKey { return key(10 + idOf(k)) }
	return step{records: records, decide: func(st *State, records []Record, p Policy) []Outcome {
		return Reprocess(st, records, p, evenStale, ofGeneration)
	}}
}

func in(records ...Record) step           { return step{records: records, decide: Decide} }
func expire(lines ...VersionLineKey) step { return step{expire: lines} }
func policy(p Policy) step                { return step{policy: &p} }
func line(e schemas.EntityKey) step       { return expire(VersionLineKey{Entity: e}) }

// printed prints outcomes as "3 applied/next", released ones with a star: "*3 applied/released", held ones with a bar,
// "3 | parked/older_held", dead ones with a cross: "3 + applied/gap_dead".
func printed(out []Outcome, records []Record) []string {
	said := []string{}
	for _, o := range out {
		id := ""
		if o.Record >= 0 {
			id = fmt.Sprint(idOf(records[o.Record].Key))
		} else {
			id = fmt.Sprintf("*%d", idOf(o.Released.Key))
		}
		if o.Held {
			id += " |"
		}
		if o.Dead {
			id += " +"
		}
		said = append(said, fmt.Sprintf("%s %s/%s", id, o.Decision, o.Reason))
	}
	return said
}

func run(st *State, p Policy, steps []step) []string {
	said := []string{}
	var held *Waiting
	for _, s := range steps {
		switch {
		case s.person != nil:
			said = append(said, printed([]Outcome{s.person(st, held)}, nil)...)
		case s.policy != nil:
			p = *s.policy
		case s.expire != nil:
			said = append(said, printed(Expire(st, s.expire, p), nil)...)
		case s.release != nil:
			said = append(said, printed(Release(st, s.release, p), nil)...)
		default:
			out := s.decide(st, s.records, p)
			for _, o := range out {
				if o.Held && o.Record >= 0 {
					held = &Waiting{Record: s.records[o.Record], Decision: o.Decision}
				}
			}
			said = append(said, printed(out, s.records)...)
		}
	}
	return said
}

func waitingIDs(st *State, k VersionLineKey) string {
	var ids []string
	for _, w := range st.Waiting[k] {
		mark := map[Stage]string{Backfilling: "?"}[w.Stage]
		ids = append(ids, fmt.Sprintf("%d:%s%s", idOf(w.Key), w.Decision, mark))
	}
	return strings.Join(ids, " ")
}

func requested(requests []Request) (all []string) {
	for _, r := range requests {
		if r.Before.Kind == schemas.Sequence {
			all = append(all, fmt.Sprintf("%s %d-%d", r.Reason, r.From, r.To))
		} else {
			all = append(all, fmt.Sprintf("%s before %d%s", r.Reason, r.Before.Value, r.Before.Text))
		}
	}
	return all
}

// wait is the policy of most tests: gaps are waited for, then skipped.
var wait = Policy{Order: OrderVersion, Start: StartAny, Equal: EqualApply, GapWait: time.Second, Then: ThenSkip, LateSnapshots: true}

func with(change func(*Policy)) Policy {
	p := wait
	change(&p)
	return p
}

var (
	park      = with(func(p *Policy) { p.Then = ThenPark })
	fromOne   = with(func(p *Policy) { p.Start = StartFirst })
	arrival   = with(func(p *Policy) { p.Order = OrderArrival })
	atOnce    = with(func(p *Policy) { p.GapWait = 0 })
	giveUp    = with(func(p *Policy) { p.Then = ThenDeadLetter })
	giveUpNow = with(func(p *Policy) { p.GapWait, p.Then = 0, ThenDeadLetter })
	fetch     = with(func(p *Policy) { p.Then, p.BackfillWait = ThenBackfill, time.Minute })
	truth     = with(func(p *Policy) { p.Start, p.BackfillWait = StartBackfill, time.Minute })
	parkNow   = with(func(p *Policy) { p.GapWait, p.Then = 0, ThenPark })
	keepFirst = with(func(p *Policy) { p.Equal = EqualFirst })
	keepLast  = with(func(p *Policy) { p.Equal = EqualLast })
	holdEqual = with(func(p *Policy) { p.Equal = EqualHold })
	e         = VersionLineKey{Entity: "e"}
)

type table []struct {
	name    string
	policy  Policy
	steps   []step
	want    []string
	waiting string       // of line e, at the end; asked for ones with a question mark
	asked   []string     // in all, as "gap 2-4", and "start_backfill before 7" where places do not count
	line    *VersionLine // of e, at the end; compared where set, without Key
}

// test runs each case in its own batches, and again with every record in a batch of its own.
func (tt table) test(t *testing.T) {
	t.Helper()
	for _, c := range tt {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var single []step
			for _, s := range c.steps {
				for _, r := range s.records {
					single = append(single, step{records: []Record{r}, decide: s.decide})
				}
				if s.records == nil {
					single = append(single, s)
				}
			}
			for _, steps := range [][]step{c.steps, single} {
				st := NewState()
				if diff := cmp.Diff(c.want, run(st, c.policy, steps)); diff != "" {
					t.Fatalf("outcomes in %d steps (-want +got):\n%s", len(steps), diff)
				}
				if got := waitingIDs(st, e); got != c.waiting {
					t.Errorf("waiting: got %q, want %q", got, c.waiting)
				}
				if diff := cmp.Diff(c.asked, requested(st.Requests)); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
				if c.line != nil {
					got := *st.Lines[e]
					got.Key = c.line.Key
					if diff := cmp.Diff(*c.line, got); diff != "" {
						t.Errorf("line (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

func at(value int64) schemas.Version { return schemas.Version{Kind: schemas.Sequence, Value: value} }
