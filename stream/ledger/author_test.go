package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// author writes the log of a few partitions as providers fill it: what is new, late, repeated, tampered with, broken, refused
// by the database, with holes between the offsets.
type author struct {
	rng    *rand.Rand
	log    [][]ledger.Record // by partition
	end    []int64           // the next offset of each
	kept   [][]ledger.Record
	top    map[schemas.EntityKey]int64
	epoch  map[schemas.EntityKey]int64
	mixed  schemas.VersionKind // of the entities c
	words  bool
	events int
}

// logBegan is the first append time.
var logBegan = time.Now().Add(-24 * time.Hour).Truncate(time.Second).UTC()

func newAuthor(rng *rand.Rand, partitions int) *author {
	return &author{
		rng: rng, log: make([][]ledger.Record, partitions), end: make([]int64, partitions), kept: make([][]ledger.Record, partitions),
		top: map[schemas.EntityKey]int64{}, epoch: map[schemas.EntityKey]int64{},
		words: rng.IntN(2) == 0, mixed: pick(rng, schemas.Monotonic, schemas.Timestamp, schemas.Sequence),
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// extend appends up to n records.
func (a *author) extend(part, n int) {
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
		case x < 29: // somewhere around the line
			a.append(part, a.event(part, int64(a.rng.IntN(6)-3)))
		case x < 34: // once more, mostly in its own partition
			if from := a.log[a.where(part)]; len(from) > 0 {
				a.append(part, from[len(from)-1-a.rng.IntN(min(len(from), 20))])
			}
		case x < 35: // the same id with another body
			if from := a.log[part]; len(from) > 0 {
				r := from[a.rng.IntN(len(from))]
				r.Hash[0] ^= 0xff
				a.append(part, r)
			}
		case x < 36:
			a.append(part, ledger.Record{LeaderEpoch: 3, Record: gate.Record{Broken: gate.ReasonUndecodable}, Error: "no event\x00",
				Packed: func() []byte { return []byte("raw") }})
		case x < 37:
			r := a.event(part, 0)
			a.spoil(&r)
			a.append(part, r)
		default: // control records, or what a compaction left
			a.end[part] += 1 + int64(a.rng.IntN(3))
		}
	}
}

// spoil makes a record that no table takes.
func (a *author) spoil(r *ledger.Record) {
	switch a.rng.IntN(5) {
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

func (a *author) where(part int) int {
	if a.rng.IntN(4) == 0 {
		return a.rng.IntN(len(a.log))
	}
	return part
}

// append puts a record behind the log.
func (a *author) append(part int, r ledger.Record) {
	r.Offset = a.end[part]
	r.AppendTime = logBegan.Add(time.Duration(r.Offset) * time.Second)
	a.log[part] = append(a.log[part], r)
	a.end[part]++
}

// event is a new one, step places from the newest of its entity.
func (a *author) event(part int, step int64) ledger.Record {
	name := pick(a.rng, "a", "a", "b", "b", "c", "d")
	entity := schemas.EntityKey(fmt.Sprintf("p%d/%s", part, name))
	if name == "b" && a.rng.IntN(20) == 0 {
		a.epoch[entity]++
		a.top[entity] = 0
	}
	a.top[entity] = max(a.top[entity], a.top[entity]+step)
	v := schemas.Version{Kind: schemas.Sequence, Epoch: a.epoch[entity], Value: a.top[entity] + min(step, 0)}
	switch {
	case name == "c" && a.rng.IntN(12) > 0: // else it begins again as a sequence
		v.Kind, v.Clock, v.Sub = a.mixed, pick(a.rng, "", "x"), int32(a.rng.IntN(2))
	case name == "d":
		v.Kind = schemas.None
	}
	switch {
	case v.Kind == schemas.Monotonic && a.words:
		v.Value, v.Text = 0, fmt.Sprintf("w%05d", v.Value+10)
	case v.Kind == schemas.Timestamp:
		v.Value = logBegan.Add(time.Duration(v.Value+a.end[part]) * time.Second).UnixNano()
	}
	a.events++
	r := record(0, fmt.Sprintf("ev-%d", a.events), string(entity), v)
	r.Type = fmt.Sprintf("t.%d", a.rng.IntN(4))
	r.Backfill = a.rng.IntN(12) == 0
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

// read returns what the log has from an offset on, at most n records, and where to read on. Types in filter are marked as filtered.
func (a *author) read(part int, from int64, n int, filter map[string]bool) (records []ledger.Record, next int64) {
	log := a.log[part]
	i, _ := slices.BinarySearchFunc(log, from, func(r ledger.Record, o int64) int { return int(r.Offset - o) })
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
		return records, max(a.end[part], from)
	case len(records) > 0:
		return records, records[len(records)-1].Offset + 1
	}
	return nil, from
}

// cut forgets the records from an offset on.
func (a *author) cut(part int, at int64) {
	a.log[part] = slices.DeleteFunc(a.log[part], func(r ledger.Record) bool { return r.Offset >= at })
	a.end[part] = at
}

// record is an event of the suite's source.
func record(offset int64, id, entity string, v schemas.Version) ledger.Record {
	r := ledger.Record{
		LeaderEpoch: 3, Source: source, ID: id, Type: "com.github.issues.labeled", ReceivedAt: time.Unix(1_700_000_000, 0).UTC(),
		Packed: func() []byte { return []byte("packed " + id) },
	}
	r.Offset, r.AppendTime, r.Key = offset, time.Unix(1_700_000_001, 0).UTC(), schemas.NewEventKey(r.Source, id)
	r.Hash, r.Entity, r.Version, r.Payload = schemas.HashBody([]byte(id)), schemas.EntityKey(entity), v, schemas.Snapshot
	r.Size = int64(len(r.Packed()))
	return r
}

const source = "/acme/github"
