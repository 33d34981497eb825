package gate

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// A history is everything that one partition of one subscription sees: records in log order, rewinds included, ends of
// waits, changes of filter and policy. It is decoded from bytes, so that rapid and the fuzzer draw the same ones.
type history struct {
	policy Policy
	steps  []step // each of one record, or of no records
	cuts   byte   // how batches are cut
}

// event is what a provider once sent, delivered as often as it comes.
type event struct {
	Record
	typ byte // the filter is a set of these
}

type author struct {
	history
	filter byte                       // types that are filtered now
	log    []*event                   // by offset
	pocket []*event                   // sent, not yet delivered
	top    map[VersionLineKey]int64   // the newest value sent on a line
	events int                        // sent so far
	kinds  [3]schemas.VersionKind     // of the entities a, b, c
	data   []byte                     // what is left to read
	first  map[schemas.EntityKey]bool // whose provider promises a first value
	words  bool                       // versions of kind monotonic are texts
	says   bool                       // the provider says when it sets a counter back
	epochs map[VersionLineKey]int64   // how often it said so
	clocks int                        // fresh lines so far
}

var day = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// A history begins with headSize bytes; an operation takes opSize, one that changes the policy moreSize besides.
const (
	headSize = 4 + moreSize
	opSize   = 4
	moreSize = 4
)

// decodeHistory never fails: any bytes are a history.
func decodeHistory(data []byte) history {
	var head [headSize]byte
	n := copy(head[:], data)
	a := &author{data: data[n:], top: map[VersionLineKey]int64{}, epochs: map[VersionLineKey]int64{}}
	a.kinds = [3]schemas.VersionKind{schemas.Sequence, schemas.Sequence, schemas.Sequence}
	if head[0]&1 != 0 {
		a.kinds[2] = []schemas.VersionKind{schemas.Monotonic, schemas.Timestamp, schemas.None, schemas.Timestamp}[head[0]>>1&3]
	}
	a.first = map[schemas.EntityKey]bool{"a": true, "c": head[0]&8 != 0}
	a.words, a.says = head[0]&16 != 0, head[0]&32 != 0
	a.policy = decodePolicy(head[1], head[2], head[4:])
	a.cuts = head[3]
	for len(a.data) >= opSize && len(a.steps) < 4000 {
		op := a.data[:opSize]
		a.data = a.data[opSize:]
		a.act(op[0], op[1], op[2], op[3])
	}
	return a.history
}

func decodePolicy(b, caps byte, more []byte) Policy {
	p := Policy{Order: OrderVersion, Start: StartAny, Equal: EqualApply, GapWait: time.Second, Then: ThenSkip, FutureSkew: time.Minute, Also: time.Hour}
	if b&1 != 0 {
		p.Start = StartFirst
	}
	if b&2 != 0 {
		p.Then = ThenPark
	}
	if b&12 == 12 {
		p.GapWait = 0
	}
	if b&0x70 == 0x70 {
		p.Order = OrderArrival
	}
	p.Equal = []Equal{EqualApply, EqualFirst, EqualLast, EqualHold}[b>>7|caps>>7<<1]
	p.MaxPerEntity, p.MaxBuffered = max(0, int(caps&7)-3), 2*max(0, int(caps>>3&15)-7) // mostly none
	p.MaxBytesPerEntity, p.MaxBytes = 100*max(0, int64(more[2]&7)-3), 150*max(0, int64(more[2]>>3&15)-7)
	p.Stale.Snapshot = []StaleDo{"", StaleDeliver, StaleHold, StaleDrop}[more[0]&3]
	p.Stale.Delta = []StaleDo{"", StaleDrop, StaleHold, StaleDeliver}[more[0]>>2&3]
	switch more[1] & 3 {
	case 1, 3:
		p.Then = ThenBackfill
	case 2:
		p.Then = ThenDeadLetter
	}
	p.LateSnapshots = more[0]&16 != 0
	p.BackfillWait, p.Otherwise = time.Minute, []Then{"", ThenSkip, ThenDeadLetter, ThenPark}[more[1]>>2&3]
	if more[1]&16 != 0 {
		p.Start = StartBackfill
	}
	return p
}

// act plays one operation. Low numbers are the plain ones, so that shrinking leads there.
func (a *author) act(op, x, y, z byte) {
	switch op % 32 {
	case 0: // nothing
	case 1, 2, 3, 4, 5: // the next event, delivered as it is sent
		a.deliver(a.send(x, 1, z))
	case 6, 7, 8: // the next event, kept back
		a.pocket = append(a.pocket, a.send(x, 1, z))
	case 9, 10, 11: // one that was kept back
		if n := len(a.pocket); n > 0 {
			i := int(y) % n
			a.deliver(a.pocket[i])
			a.pocket = append(a.pocket[:i], a.pocket[i+1:]...)
		}
	case 12: // an event somewhere around the line: equal, older, ahead
		a.deliver(a.send(x, int64(y%16)-8, z))
	case 13, 14: // a redelivery
		if n := len(a.log); n > 0 {
			a.deliver(a.log[n-1-int(y)%n])
		}
	case 15: // another body, and mostly another version, under a known id
		if n := len(a.log); n > 0 {
			was := *a.log[n-1-int(y)%n]
			if was.Broken == "" {
				was.Hash[15] ^= z | 1
				a.put(&was.Version, number(was.Version)+int64(x%4))
				if x&0xf0 == 0xf0 {
					was.Version.Clock = "k"
				}
				a.deliver(&was)
			}
		}
	case 16, 17: // a rewind
		from := max(0, len(a.log)-1-int(y)%24)
		for i := from; i < len(a.log); i++ {
			a.record(a.log[i], int64(i))
		}
	case 18:
		a.filter = y & z & 15
	case 19, 20:
		var lines []VersionLineKey
		for i := range 8 {
			if x>>i&1 != 0 {
				lines = append(lines, a.lineOf(byte(i)))
			}
		}
		if lines != nil {
			a.steps = append(a.steps, expire(lines...))
		}
	case 21:
		a.deliver(&event{Record: Record{Broken: []Reason{ReasonUndecodable, ReasonDataRejected, ReasonMisplaced, ReasonTooLarge}[x&3]}})
	case 22: // rarely, another kind or the ends of the range
		e := a.send(x, int64(y%4), z)
		switch y >> 4 {
		case 0:
			value := number(e.Version)
			e.Version.Kind = []schemas.VersionKind{schemas.Sequence, schemas.Monotonic, schemas.Timestamp, schemas.None}[y&3]
			a.put(&e.Version, value)
		case 1:
			e.Version.Text = ""
			e.Version.Value = []int64{math.MinInt64, math.MinInt64 + 1, -1, math.MaxInt64 - 2, math.MaxInt64 - 1, math.MaxInt64}[int(y&15)%6]
		}
		a.deliver(e)
	case 23: // another policy, or a twin by version of an event that came
		if y&3 == 0 {
			a.steps = append(a.steps, policy(decodePolicy(x, z, a.more())))
		} else {
			a.twin(x, y>>2, z)
		}
	case 24, 25, 26: // a backfill's answer: what was kept back, or what lies around the line, under an id of its own
		e := a.send(x, int64(y%16)-8, z)
		if n := len(a.pocket); n > 0 && op%32 != 26 {
			was := a.pocket[int(y)%n]
			e.Entity, e.Version, e.First = was.Entity, was.Version, was.First
		}
		e.Backfill = true
		a.deliver(e)
	case 27: // fresh lines
		a.clocks++
	case 28: // the provider sets a counter back
		k := a.lineOf(x)
		delete(a.top, k)
		if a.says && y&3 != 0 { // mostly
			a.epochs[k]++
		}
	case 29: // rarely, a rewind to the start or far back
		if y&3 == 0 {
			for i := max(0, len(a.log)-100); i < len(a.log); i++ {
				a.record(a.log[i], int64(i))
			}
		}
	case 30: // a wait that ends twice, or as an operator asks
		if k := a.lineOf(x); y&3 == 0 {
			a.steps = append(a.steps, step{release: []VersionLineKey{k}})
		} else {
			a.steps = append(a.steps, expire(k), expire(k))
		}
	case 31:
		a.twin(x, y, z)
	}
}

// twin delivers another event of a version that came lately.
func (a *author) twin(x, y, z byte) {
	if n := len(a.log); n > 0 {
		e, was := a.send(x, 0, z), a.log[n-1-int(y&7)%n]
		if was.Broken == "" {
			e.Entity, e.Version, e.First = was.Entity, was.Version, was.First
		}
		a.deliver(e)
	}
}

// more takes the rest of a policy.
func (a *author) more() []byte {
	more := make([]byte, moreSize)
	a.data = a.data[copy(more, a.data):]
	return more
}

// lineOf names one of six lines, under clocks that no event has had yet after each operation for fresh lines; two more
// are never begun.
func (a *author) lineOf(x byte) VersionLineKey {
	clock := []string{"", "k"}[x>>2&1]
	if a.clocks > 0 {
		clock += strconv.Itoa(a.clocks)
	}
	return VersionLineKey{Entity: schemas.EntityKey([]string{"a", "b", "c", "none"}[x&3]), Clock: clock}
}

// send makes an event whose value is by above the newest of its line.
func (a *author) send(x byte, by int64, z byte) *event {
	k := a.lineOf(x & 7)
	if x&3 == 3 {
		k.Entity = "a"
	}
	value := a.top[k] + by
	a.top[k] = max(value, a.top[k])
	a.events++
	r := Record{Entity: k.Entity, Size: int64(z), Payload: schemas.Snapshot, Deleted: z&0x80 != 0, AppendTime: day.Add(time.Duration(a.events) * time.Second)}
	binary.BigEndian.PutUint64(r.Key[:], uint64(a.events))
	r.Hash = schemas.BodyHash{byte(a.events), byte(a.events >> 8)}
	r.Version = schemas.Version{Clock: k.Clock, Kind: a.kinds[k.Entity[0]-'a']}
	a.put(&r.Version, value)
	r.Version.Epoch = a.epochs[k]
	switch {
	case x&0xf0 == 0xf0: // a delivery of before the provider said so
		r.Version.Epoch = 0
	case x&0xf0 == 0xe0: // one of an incarnation before
		r.Version.Epoch = max(0, r.Version.Epoch-1)
	}
	if z&0x60 == 0x60 {
		r.Version.Sub = int32(z & 3)
	}
	if z&0x23 == 0x23 { // it may say what one of the last events said
		r.Also = Also{1, byte(a.events / 8)}
	}
	if z&4 != 0 {
		r.Payload = schemas.Delta
	}
	if z&12 == 12 {
		r.Payload = "" // nobody knows
	}
	switch r.Version.Kind {
	case schemas.Timestamp: // half of them run ahead of the broker's clock
		r.Version.Value = day.Add(time.Duration(value*40) * time.Second).UnixNano()
	case schemas.Sequence:
		if a.first[k.Entity] {
			r.First = new(int64(1))
			if z&0x1c == 0x1c { // a mapping that was changed promises another one
				r.First = new(value)
			}
		}
	}
	return &event{Record: r, typ: z & 3}
}

// put writes the number of a version, as a word where the provider has words.
func (a *author) put(v *schemas.Version, n int64) {
	v.Value, v.Text = n, ""
	if a.words && v.Kind == schemas.Monotonic {
		digits := strconv.FormatInt(n, 36)
		v.Value, v.Text = 0, string(rune('a'+len(digits)))+digits // sorts as the numbers do, at any length
	}
}

// number reads what put wrote.
func number(v schemas.Version) int64 {
	if v.Text == "" {
		return v.Value
	}
	n, err := strconv.ParseInt(v.Text[1:], 36, 64)
	must(err)
	return n
}

func (a *author) deliver(e *event) {
	a.log = append(a.log, e)
	a.record(e, int64(len(a.log)-1))
}

func (a *author) record(e *event, offset int64) {
	r := e.Record
	r.Offset = offset
	if r.Broken == "" {
		switch says := a.filter>>e.typ&1 != 0; {
		case says && offset%5 == 4:
			r.Broken = ReasonExpression
		default:
			r.Filtered, r.Unmatched = says, says && e.typ&1 != 0
		}
	}
	a.steps = append(a.steps, in(r))
}
