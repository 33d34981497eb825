package subscriber

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/stream/gate"
)

var update = flag.Bool("update", false, "write testdata/vectors.json again")

// The test vectors as they are in the file.
type (
	vectorFile struct {
		About string       `json:"about"`
		Cases []vectorCase `json:"cases"`
	}
	vectorCase struct {
		Name   string       `json:"name"`
		Policy vectorPolicy `json:"policy"`
		Steps  []vectorStep `json:"steps"`
	}
	vectorPolicy struct {
		Start        gate.Start `json:"start"`
		Equal        gate.Equal `json:"equal"`
		FutureSkewMS int64      `json:"future_skew_ms"`
	}
	vectorStep struct {
		Record    *vectorRecord    `json:"record,omitempty"`
		Expire    [][2]string      `json:"expire,omitempty"` // entity and clock
		Decisions []vectorDecision `json:"decisions"`
	}
	vectorRecord struct {
		Offset      int64             `json:"offset"`
		TimestampMS int64             `json:"timestamp_ms"`
		Key         *string           `json:"key"`
		Headers     map[string]string `json:"headers"`
		Value       *string           `json:"value"`
	}
	vectorDecision struct {
		Offset   int64         `json:"offset"`
		Decision gate.Decision `json:"decision"`
		Reason   gate.Reason   `json:"reason"`
	}
)

const aboutVectors = "Records of one partition and what becomes of them, by the rules of CONTRACT.md. Made by vectors_test.go of stream/gate's decisions."

// TestVectors holds the file of test vectors to the subscriber's decoding and the gate.
func TestVectors(t *testing.T) {
	t.Parallel()
	want := vectorFile{About: aboutVectors, Cases: vectorCases()}
	reasons := map[gate.Reason]bool{}
	for i := range want.Cases {
		want.Cases[i].decide()
		for _, s := range want.Cases[i].Steps {
			for _, d := range s.Decisions {
				reasons[d.Reason] = true
			}
		}
	}
	for _, reason := range contractReasons {
		if !reasons[reason] {
			t.Errorf("no vector has the reason %s", reason)
		}
		delete(reasons, reason)
	}
	if len(reasons) > 0 {
		t.Errorf("CONTRACT.md does not have the reasons %v", reasons)
	}
	path := filepath.Join("testdata", "vectors.json")
	if *update {
		if err := os.WriteFile(path, want.text(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got vectorFile
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the file is not what the gate says; -update writes it again:\n%s", diff)
	}
}

// text is the file, a step a line.
func (f vectorFile) text(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, begin := range []string{`{"name":`, `{"record":`, `{"expire":`} {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	return append(text, '\n')
}

// contractReasons are the reasons that a subscriber's policies can lead to.
var contractReasons = []gate.Reason{
	gate.ReasonUndecodable, gate.ReasonSeen, gate.ReasonBodyDiffers, gate.ReasonArrival, gate.ReasonFirst, gate.ReasonNewEpoch, gate.ReasonNext,
	gate.ReasonEqual, gate.ReasonBackfilled, gate.ReasonReleased, gate.ReasonGapSkipped, gate.ReasonOlder, gate.ReasonOlderDelta,
	gate.ReasonFiller, gate.ReasonEqualFirst, gate.ReasonEqualLast, gate.ReasonGap, gate.ReasonStartGap,
}

// TestContractNamesTheReasons holds the page to the same list.
func TestContractNamesTheReasons(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range contractReasons {
		if !strings.Contains(string(page), "`"+string(reason)+"`") {
			t.Errorf("CONTRACT.md does not say when the reason is %s", reason)
		}
	}
}

// TestPythonKeepsTheContract runs the implementation in Python against all vectors, and against wrong ones, which it has to notice.
func TestPythonKeepsTheContract(t *testing.T) {
	short.NeedsServer(t, "Python")
	t.Parallel()
	script := filepath.Join("testdata", "contract.py")
	out, err := exec.CommandContext(t.Context(), "python3", script, filepath.Join("testdata", "vectors.json")).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " 0 failed") {
		t.Errorf("%v (make deps installs Python 3):\n%s", err, out)
	}
	t.Logf("%s", out)
	text, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), `"filler"`, `"older"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "python3", script, wrong).CombinedOutput(); err == nil || !strings.Contains(string(out), " 1 failed") {
		t.Errorf("it did not notice a wrong vector: %v\n%s", err, out)
	}
}

// decide fills in what the gate says, one step after the other.
func (c *vectorCase) decide() {
	state := gate.NewState()
	policy := gate.Policy{Start: c.Policy.Start, Equal: c.Policy.Equal, GapWait: time.Hour, FutureSkew: time.Duration(c.Policy.FutureSkewMS) * time.Millisecond}
	for i := range c.Steps {
		s := &c.Steps[i]
		d := &decided{}
		var out []gate.Outcome
		if s.Record != nil {
			d.unit.records = []*kgo.Record{s.Record.kafka()}
			d.decode()
			out = gate.Decide(state, d.records, policy)
		} else {
			var lines []gate.VersionLineKey
			for _, l := range s.Expire {
				lines = append(lines, gate.VersionLineKey{Entity: schemas.EntityKey(l[0]), Clock: l[1]})
			}
			out = gate.Expire(state, lines, policy)
		}
		s.Decisions = []vectorDecision{}
		for _, o := range out {
			offset := int64(0)
			if o.Record >= 0 {
				offset = s.Record.Offset
			} else {
				offset = o.Released.Offset
			}
			s.Decisions = append(s.Decisions, vectorDecision{offset, o.Decision, o.Reason})
		}
	}
}

func (r *vectorRecord) kafka() *kgo.Record {
	k := &kgo.Record{Offset: r.Offset, Timestamp: time.UnixMilli(r.TimestampMS).UTC()}
	if r.Key != nil {
		k.Key = []byte(*r.Key)
	}
	if r.Value != nil {
		k.Value = []byte(*r.Value)
	}
	for name, value := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return k
}

// story makes a case out of events and the ends of waits.
type story struct{ vectorCase }

var vectorTime = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// event adds an event: "A 3" is revision 3 of entity A as a snapshot. What else it is, change says.
func (s *story) event(entity string, value int64, change ...func(*schemas.Event)) {
	e := &schemas.Event{
		ID: fmt.Sprintf("%s-%d", entity, value), Source: "/acme/orders", Type: "order.changed", Entity: schemas.EntityKey(entity), Time: vectorTime,
		Version: schemas.Version{Kind: schemas.Sequence, Value: value}, Payload: schemas.Snapshot, Data: fmt.Appendf(nil, `{"rev":%d}`, value),
	}
	e.Hash = schemas.HashBody(e.Data)
	for _, do := range change {
		do(e)
	}
	s.add(record.Encode("", e))
}

// add adds a record.
func (s *story) add(k *kgo.Record, change ...func(*vectorRecord)) {
	r := &vectorRecord{Offset: int64(len(s.Steps)), TimestampMS: vectorTime.UnixMilli(), Headers: map[string]string{}}
	if k.Key != nil {
		r.Key = new(string(k.Key))
	}
	if k.Value != nil {
		r.Value = new(string(k.Value))
	}
	for _, h := range k.Headers {
		r.Headers[h.Key] = string(h.Value)
	}
	for _, do := range change {
		do(r)
	}
	s.Steps = append(s.Steps, vectorStep{Record: r})
}

// expire adds the end of a wait.
func (s *story) expire(lines ...string) {
	step := vectorStep{}
	for _, l := range lines {
		entity, clock, _ := strings.Cut(l, " ")
		step.Expire = append(step.Expire, [2]string{entity, clock})
	}
	s.Steps = append(s.Steps, step)
}

func id(id string) func(*schemas.Event)         { return func(e *schemas.Event) { e.ID = id } }
func delta(e *schemas.Event)                    { e.Payload = schemas.Delta }
func fetched(e *schemas.Event)                  { e.Backfill, e.ID = true, e.ID+"-fetched" }
func promised(first int64) func(*schemas.Event) { return func(e *schemas.Event) { e.First = &first } }
func epoch(n int64) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Version.Epoch, e.ID = n, fmt.Sprintf("%s-e%d", e.ID, n) }
}
func clock(name string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Version.Clock, e.ID = name, e.ID+"-"+name }
}
func sub(n int32) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Version.Sub, e.ID = n, fmt.Sprintf("%s+%d", e.ID, n) }
}
func kind(k schemas.VersionKind) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Version.Kind = k
		if k == schemas.Timestamp {
			e.Version.Value = vectorTime.Add(time.Duration(e.Version.Value) * time.Second).UnixNano()
		}
		if k == schemas.None {
			e.Version = schemas.Version{Kind: k}
		}
	}
}
func word(text string) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Version.Kind, e.Version.Value, e.Version.Text, e.ID = schemas.Monotonic, 0, text, text
	}
}
func body(text string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Data, e.Hash = []byte(text), schemas.HashBody([]byte(text)) }
}

// vectorCases are written by hand, one for each thing to know, and then histories by chance.
func vectorCases() []vectorCase {
	var cases []vectorCase
	add := func(name string, p vectorPolicy, tell func(*story)) {
		p.Start, p.Equal = max(p.Start, gate.StartAny), max(p.Equal, gate.EqualApply)
		s := &story{vectorCase{Name: name, Policy: p}}
		tell(s)
		cases = append(cases, s.vectorCase)
	}
	first := vectorPolicy{Start: gate.StartFirst}
	add("twice, and in order", vectorPolicy{}, func(s *story) {
		s.event("A", 1)
		s.event("A", 1)
		s.event("A", 2)
		s.event("A", 1)
		s.event("B", 7)
		s.event("A", 2, body(`{"rev":"forged"}`))
		s.event("A", 2, func(e *schemas.Event) { e.Data = []byte(`{"rev":2,"attempt":2}`) }) // what changes between deliveries is not in the hash
	})
	add("an id that comes again while the first waits", vectorPolicy{}, func(s *story) {
		s.event("A", 1)
		s.event("A", 3)
		s.event("A", 3)
		s.event("A", 3, body(`{}`))
		s.event("A", 2)
		s.event("A", 3)
	})
	add("a gap that is filled", vectorPolicy{}, func(s *story) {
		for _, rev := range []int64{1, 4, 3, 6, 2, 5} {
			s.event("A", rev)
		}
	})
	add("a gap that is skipped, and its fillers after all", vectorPolicy{}, func(s *story) {
		s.event("A", 1)
		s.event("A", 5)
		s.event("A", 6)
		s.event("A", 8)
		s.expire("A", "B", "A")
		s.event("A", 3)
		s.event("A", 3, id("another 3"))
		s.event("A", 2, delta)
		s.expire("A")
		s.event("A", 4)
		s.event("A", 7)
		s.event("A", 9)
	})
	add("more skipped spans than are remembered", vectorPolicy{}, func(s *story) {
		s.event("A", 1)
		for rev := int64(3); rev <= 37; rev += 2 {
			s.event("A", rev)
			s.expire("A")
		}
		for _, rev := range []int64{2, 4, 6, 36} {
			s.event("A", rev)
		}
	})
	add("older ones: a snapshot is stale, a delta late", vectorPolicy{}, func(s *story) {
		s.event("A", 5, kind(schemas.Monotonic))
		s.event("A", 4, kind(schemas.Monotonic))
		s.event("A", 3, kind(schemas.Monotonic), delta)
		s.event("A", 9, kind(schemas.Monotonic))
	})
	add("times, which may be equal and not too far ahead", vectorPolicy{FutureSkewMS: 5000}, func(s *story) {
		s.event("A", 1, kind(schemas.Timestamp))
		s.event("A", 1, kind(schemas.Timestamp), id("at the same time"))
		s.event("A", 3600, kind(schemas.Timestamp))
		s.event("A", 5, kind(schemas.Timestamp))
		s.event("A", 4, kind(schemas.Timestamp))
		s.event("A", -3600, kind(schemas.Timestamp), delta)
	})
	add("texts and ranks", vectorPolicy{}, func(s *story) {
		s.event("A", 0, word("01JZ"))
		s.event("A", 0, word("01JZA"))
		s.event("A", 0, word("01JZ"), sub(2))
		s.event("A", 0, word("01jz"))
		s.event("B", 7, kind(schemas.Monotonic), sub(1))
		s.event("B", 7, kind(schemas.Monotonic), sub(3))
		s.event("B", 7, kind(schemas.Monotonic), sub(2))
		s.event("C", 1, sub(1))
		s.event("C", 3, sub(2))
		s.event("C", 3, sub(1))
		s.event("C", 2)
	})
	add("no version", vectorPolicy{}, func(s *story) {
		s.event("A", 2, kind(schemas.None))
		s.event("A", 1, kind(schemas.None), id("x"))
		s.event("A", 2, kind(schemas.None))
	})
	add("clocks of one entity", vectorPolicy{}, func(s *story) {
		s.event("A", 5, clock("issue"))
		s.event("A", 1, clock("comment"))
		s.event("A", 3, clock("comment"))
		s.event("A", 6, clock("issue"))
		s.expire("A issue", "A comment")
	})
	add("a promised first value, waited for", first, func(s *story) {
		s.event("A", 3, promised(1))
		s.event("A", 0, promised(1))
		s.event("A", 2, promised(1))
		s.event("A", 1, promised(1))
		s.event("B", 2)
		s.event("C", 4, promised(2))
		s.expire("C")
		s.event("C", 2, promised(2))
		s.event("C", 1, promised(2), delta)
		s.event("D", 3, promised(1))
		s.event("D", 5)
		s.event("D", 4)
		s.expire("D")
	})
	add("without start first, any begins", vectorPolicy{}, func(s *story) {
		s.event("A", 3, promised(1))
		s.event("A", 2, promised(1))
	})
	add("epochs", vectorPolicy{}, func(s *story) {
		s.event("A", 7, epoch(1))
		s.event("A", 9, epoch(1))
		s.event("A", 1, epoch(2))
		s.event("A", 8, epoch(1))
		s.event("A", 10, epoch(1), delta)
		s.event("A", 2)
		s.event("A", 5, epoch(3))
		s.event("A", 7, epoch(3))
		s.expire("A")
		s.event("A", 6, epoch(2))
		s.event("A", 6, epoch(3))
	})
	add("another kind", vectorPolicy{}, func(s *story) {
		s.event("A", 7)
		s.event("A", 9)
		s.event("A", 1, kind(schemas.Timestamp))
		s.event("A", 0, word("r1"))
		s.event("A", 7, kind(schemas.Monotonic), id("m7"))
		s.event("A", 6, kind(schemas.Monotonic), id("m6"))
	})
	for _, equal := range []gate.Equal{gate.EqualApply, gate.EqualFirst, gate.EqualLast} {
		add("equal versions: "+string(equal), vectorPolicy{Equal: equal}, func(s *story) {
			s.event("A", 1)
			s.event("A", 1, id("1b"))
			s.event("A", 1, id("1c"), delta)
			s.event("A", 3)
			s.event("A", 3, id("3b"))
			s.event("A", 3, id("3c"), delta)
			s.event("A", 2)
			s.event("A", 5)
			s.event("A", 5, id("5b"))
			s.expire("A")
			s.event("A", 7, delta)
			s.event("A", 7, id("7b"))
			s.event("A", 7, id("7c"))
			s.event("A", 6)
		})
	}
	add("what a backfill fetched", first, func(s *story) {
		s.event("A", 4, promised(1))
		s.event("A", 3, promised(1), fetched)
		s.event("A", 7, promised(1))
		s.event("A", 6, promised(1), fetched, delta)
		s.event("A", 8, promised(1), fetched)
		s.event("A", 8, promised(1), fetched, id("again"))
		s.event("A", 8, promised(1))
		s.event("A", 6, promised(1))
	})
	add("no events", vectorPolicy{}, func(s *story) {
		e := &schemas.Event{ID: "1", Source: "/acme/orders", Type: "t", Entity: "A", Time: vectorTime, Payload: schemas.Delta,
			Version: schemas.Version{Kind: schemas.Sequence, Value: 1}, Data: []byte(`{}`), Hash: schemas.HashBody([]byte(`{}`))}
		for _, spoil := range []func(*vectorRecord){
			func(r *vectorRecord) { r.Value = nil },
			func(r *vectorRecord) { r.Key = nil },
			func(r *vectorRecord) { r.Headers = map[string]string{"content-type": "application/json"} },
			func(r *vectorRecord) { r.Headers["ce_specversion"] = "0.3" },
			func(r *vectorRecord) { delete(r.Headers, "ce_id") },
			func(r *vectorRecord) { r.Key = new("B") },
			func(r *vectorRecord) { r.Headers["ce_entityversion"] = "1" },
			func(r *vectorRecord) { r.Headers["ce_versionkind"] = "newest" },
			func(r *vectorRecord) { r.Headers["ce_versionkind"] = "none" },
			func(*vectorRecord) {},
		} {
			s.add(record.Encode("", e), spoil)
		}
	})
	add("events of another producer", vectorPolicy{}, func(s *story) {
		plain := map[string]string{"ce_specversion": "1.0", "ce_id": "1", "ce_source": "https://example.com/shop", "ce_type": "t"}
		for _, key := range []string{"A", "A", "B"} {
			s.add(&kgo.Record{Key: []byte(key), Value: []byte(`{}`)}, func(r *vectorRecord) { r.Headers = plain })
		}
		s.add(&kgo.Record{Key: []byte("A"), Value: []byte(`{"a":1}`)}, func(r *vectorRecord) { r.Headers = plain })
	})
	add("a key that is missing", vectorPolicy{}, func(s *story) {
		s.add(&kgo.Record{Value: []byte(`{}`)}, func(r *vectorRecord) {
			r.Headers = map[string]string{"ce_specversion": "1.0", "ce_id": "1", "ce_source": "https://example.com/shop", "ce_type": "t", "ce_subject": "A"}
		})
	})
	for seed := range uint64(8) {
		cases = append(cases, byChance(seed))
	}
	return cases
}

// byChance is a history of two entities, with all that the hand-written ones have, in any mixture.
func byChance(seed uint64) vectorCase {
	rng := rand.New(rand.NewPCG(seed, 18))
	some := func(percent int) bool { return rng.IntN(100) < percent }
	s := &story{vectorCase{Name: fmt.Sprintf("by chance, %d", seed), Policy: vectorPolicy{
		Start: []gate.Start{gate.StartAny, gate.StartFirst}[rng.IntN(2)], FutureSkewMS: 3000,
		Equal: []gate.Equal{gate.EqualApply, gate.EqualFirst, gate.EqualLast}[rng.IntN(3)],
	}}}
	for range 30 {
		entity := []string{"A", "B"}[rng.IntN(2)]
		if some(12) {
			s.expire(entity)
			continue
		}
		var changes []func(*schemas.Event)
		value := 1 + rng.Int64N(12)
		maybe := func(percent int, change func(*schemas.Event)) {
			if some(percent) {
				changes = append(changes, change)
			}
		}
		maybe(50, promised(1))
		maybe(10, kind(schemas.Timestamp))
		maybe(5, epoch(1+rng.Int64N(2)))
		maybe(10, sub(1+rng.Int32N(2)))
		maybe(30, delta)
		maybe(10, fetched)
		maybe(5, body("{}"))
		maybe(10, func(e *schemas.Event) { e.ID += "-another" })
		changes = append(changes, func(e *schemas.Event) {
			if e.Version.Kind != schemas.Sequence {
				e.First = nil
			}
		})
		s.event(entity, value, changes...)
	}
	return s.vectorCase
}
