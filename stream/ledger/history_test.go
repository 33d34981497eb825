package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// Author writes the log of a few partitions as providers fill it: what is new, late, repeated, tampered with, broken, refused
// by the database, with holes between the offsets. A partition's log only grows; what a reader does with it (rewinds,
// filters) is the reader's business.
type Author struct {
	Log [][]Record // by partition
	End []int64    // the next offset of each

	rng    *rand.Rand
	spoil  func(*Record) // makes a record that the database refuses
	kept   [][]Record
	top    map[schemas.EntityKey]int64
	epoch  map[schemas.EntityKey]int64 // how often its provider has begun to count again
	mixed  schemas.VersionKind         // of the entities c
	words  bool                        // whose versions are texts, where they are monotonic
	events int
}

// LogBegan is the first append time: long before any window of the test was closed, and after it once windows are aged.
var LogBegan = time.Now().Add(-24 * time.Hour).Truncate(time.Second).UTC()

func NewAuthor(rng *rand.Rand, partitions int, spoil func(*Record)) *Author {
	return &Author{
		rng: rng, Log: make([][]Record, partitions), End: make([]int64, partitions), kept: make([][]Record, partitions), spoil: spoil,
		top: map[schemas.EntityKey]int64{}, epoch: map[schemas.EntityKey]int64{},
		words: rng.IntN(2) == 0, mixed: []schemas.VersionKind{schemas.Monotonic, schemas.Timestamp, schemas.Sequence}[rng.IntN(3)],
	}
}

// Extend appends up to n records.
func (a *Author) Extend(part, n int) {
	for range n {
		switch x := a.rng.IntN(40); {
		case x < 14:
			a.append(part, a.event(part, 1))
		case x < 20: // kept back
			a.kept[part] = append(a.kept[part], a.event(part, 1))
		case x < 26: // one of those
			if k := a.kept[part]; len(k) > 0 {
				i := a.rng.IntN(len(k))
				a.append(part, k[i])
				a.kept[part] = slices.Delete(k, i, i+1)
			}
		case x < 29: // somewhere around the line: equal, older, ahead
			a.append(part, a.event(part, int64(a.rng.IntN(6)-3)))
		case x < 34: // once more, mostly in its own partition
			if from := a.Log[a.where(part)]; len(from) > 0 {
				a.append(part, from[len(from)-1-a.rng.IntN(min(len(from), 20))])
			}
		case x < 35: // the same id with another body
			if from := a.Log[part]; len(from) > 0 {
				r := from[a.rng.IntN(len(from))]
				r.Hash[0] ^= 0xff
				a.append(part, r)
			}
		case x < 36:
			a.append(part, Record{LeaderEpoch: 3, Record: gate.Record{Broken: gate.ReasonUndecodable}, Error: "no event\x00",
				Packed: func() []byte { return []byte("raw") }})
		case x < 37:
			r := a.event(part, 0)
			a.spoil(&r)
			a.append(part, r)
		default: // control records, or what a compaction left
			a.End[part] += 1 + int64(a.rng.IntN(3))
		}
	}
}

// poison is a type that no text column takes.
const poison = "t.\x00"

func (a *Author) where(part int) int {
	if a.rng.IntN(4) == 0 {
		return a.rng.IntN(len(a.Log))
	}
	return part
}

// append puts a record behind the log.
func (a *Author) append(part int, r Record) {
	r.Offset = a.End[part]
	r.AppendTime = LogBegan.Add(time.Duration(r.Offset) * time.Second)
	a.Log[part] = append(a.Log[part], r)
	a.End[part]++
}

// event is a new one, step places from the newest of its entity.
func (a *Author) event(part int, step int64) Record {
	name := []string{"a", "a", "b", "b", "c", "d"}[a.rng.IntN(6)]
	entity := schemas.EntityKey(fmt.Sprintf("p%d/%s", part, name))
	if name == "b" && a.rng.IntN(20) == 0 {
		a.epoch[entity]++
		a.top[entity] = 0
	}
	a.top[entity] = max(a.top[entity], a.top[entity]+step)
	v := schemas.Version{Kind: schemas.Sequence, Epoch: a.epoch[entity], Value: a.top[entity] + min(step, 0)}
	switch {
	case name == "c" && a.rng.IntN(12) > 0: // else it begins again as a sequence
		v.Kind, v.Clock = a.mixed, []string{"", "x"}[a.rng.IntN(2)]
		v.Sub = int32(a.rng.IntN(2))
	case name == "d":
		v.Kind = schemas.None
	}
	if v.Kind == schemas.Monotonic && a.words {
		v.Value, v.Text = 0, fmt.Sprintf("w%05d", v.Value+10)
	}
	if v.Kind == schemas.Timestamp {
		v.Value = LogBegan.Add(time.Duration(v.Value+a.End[part]) * time.Second).UnixNano()
	}
	a.events++
	r := record(0, fmt.Sprintf("ev-%d", a.events), string(entity), v)
	r.Type = fmt.Sprintf("t.%d", a.rng.IntN(4))
	r.Backfill = a.rng.IntN(12) == 0 // an answer to some question
	r.Size = int64(len(r.Packed()))
	if a.rng.IntN(5) == 0 { // it says what one of the last may have said
		r.Also = gate.Also{1, byte(a.events / 12)}
	}
	if name == "a" {
		r.First = new(int64(1))
	}
	if a.rng.IntN(3) == 0 {
		r.Payload = schemas.Delta
	}
	return r
}

// Read is what the log holds from an offset on, at most n records, and where to read on.
func (a *Author) Read(part int, from int64, n int, filter map[string]bool) (records []Record, next int64) {
	log := a.Log[part]
	i, _ := slices.BinarySearchFunc(log, from, func(r Record, o int64) int { return int(r.Offset - o) })
	for _, r := range log[i:min(i+n, len(log))] {
		switch says := r.Broken == "" && filter[r.Type]; {
		case says && r.Offset%5 == 4:
			r.Broken, r.Error = gate.ReasonExpression, "match fails at character 5"
		default:
			r.Filtered, r.Unmatched = says, says && r.Type != "t.1"
		}
		records = append(records, r)
	}
	switch {
	case i+n >= len(log):
		return records, max(a.End[part], from) // over what control records stand at the end
	case len(records) > 0:
		return records, records[len(records)-1].Offset + 1
	}
	return nil, from
}

// Cut forgets the records from an offset on.
func (a *Author) Cut(part int, at int64) {
	a.Log[part] = slices.DeleteFunc(a.Log[part], func(r Record) bool { return r.Offset >= at })
	a.End[part] = at
}
