package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// plan is a world as its seed draws it.
type plan struct {
	seed       uint64
	sources    []kind
	payload    schemas.PayloadKind
	partitions int32
	brokers    int
	processes  int

	batchRecords, batchBytes int
	maxOpen, laneWindow      int
	laneBytes                int64
	latest                   bool
	policy                   gate.Policy
	onDead                   ledger.OnDead
	retention                time.Duration

	deliveries []entityDeliveries
	bad        map[string]bool // entities with which the agent has trouble
	faults     []planned
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func within(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

func draw(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &plan{
		seed: seed, partitions: int32(pick(rng, 1, 2, 3, 4)), brokers: pick(rng, 1, 1, 2), processes: pick(rng, 1, 2, 2),
		payload: pick(rng, schemas.Snapshot, schemas.Delta), batchRecords: pick(rng, 1, 2, 3, 5, 10, 20),
		batchBytes: pick(rng, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10), maxOpen: pick(rng, 8, 64, 4096), laneWindow: pick(rng, 2, 8),
		laneBytes: pick(rng, int64(64<<10), 4<<20), latest: rng.IntN(5) == 0, bad: map[string]bool{},
	}
	p.onDead, p.retention = ledger.Park, 7*24*time.Hour
	p.policy = gate.Policy{
		Start: gate.StartAny, GapWait: within(rng, 5*time.Second, 20*time.Second).Truncate(time.Millisecond),
		Then: pick(rng, gate.ThenSkip, gate.ThenSkip, gate.ThenSkip, gate.ThenPark, gate.ThenDeadLetter), FutureSkew: 5 * time.Minute,
		LateSnapshots: seed%3 == 0, MaxReleases: int(seed % 4), // 0: the ledger's own bound, which no world reaches
	}
	if rng.IntN(2) == 0 {
		p.sources, p.policy.Start = []kind{sequence}, gate.StartFirst
	} else {
		p.sources = pick(rng, []kind{timestamp}, []kind{arrival}, []kind{timestamp, arrival})
	}
	p.drawDeliveries(rng)
	if seed%10 != 0 { // every tenth world has no faults, but in its agent
		p.drawFaults(rng)
	}
	return p
}

// eventSizes are the choices for a world's events: how many there are, and from what size to what.
var eventSizes = []struct{ events, low, high int }{
	{60, 200, 2 << 10}, {60, 200, 2 << 10}, {40, 500, 20 << 10}, {40, 2 << 10, 50 << 10}, {30, 18 << 10, 48 << 10}, {8, 200, 1 << 20},
}

func (p *plan) drawDeliveries(rng *rand.Rand) {
	weight := pick(rng, eventSizes...)
	entities := 2 + rng.IntN(6)
	for n := range entities {
		source := pick(rng, p.sources...)
		l := entityDeliveries{seed: rng.Uint64()}
		pause := pick(rng, 0, 20*time.Millisecond, time.Second)
		count := 1 + rng.IntN(max(2, 2*weight.events/entities))
		for i := range count {
			e := newEvent(rng, source, n, i+1, size(rng, weight.low, weight.high))
			l.sends = append(l.sends, p.sends(rng, e, pause)...)
		}
		if rng.IntN(3) == 0 {
			shuffle(rng, l.sends)
		}
		if rng.IntN(4) == 0 {
			forged := newEvent(rng, source, n, 1000+n, 300)
			forged.forged = true
			l.sends = append(l.sends, send{event: forged, after: within(rng, 0, 20*time.Second), apart: true})
		}
		p.bad[fmt.Sprintf("%s-%d", source[:1], n)] = rng.IntN(3) == 0
		p.deliveries = append(p.deliveries, l)
	}
}

// sends are the deliveries of an event: most come once and in their turn, some twice, some late, some never.
func (p *plan) sends(rng *rand.Rand, e *event, pause time.Duration) []send {
	in := send{event: e, after: time.Duration(rng.Int64N(int64(pause + 1)))}
	apart := send{event: e, after: within(rng, 0, 60*time.Second), apart: true}
	switch rng.IntN(20) {
	case 0:
		return []send{in, {event: e}} // twice, at once
	case 1:
		return []send{in, apart}
	case 2:
		return []send{apart}
	case 3:
		if rng.IntN(2) == 0 {
			return nil
		}
	}
	return []send{in}
}

// shuffle swaps neighbours.
func shuffle(rng *rand.Rand, s []send) {
	for i := 1; i < len(s); i++ {
		if rng.IntN(3) == 0 {
			s[i-1], s[i] = s[i], s[i-1]
		}
	}
}

func (p *plan) String() string {
	events := 0
	for _, l := range p.deliveries {
		events += len(l.sends)
	}
	return fmt.Sprintf("seed %d: %v %s, %d entities, %d deliveries, %d partitions on %d brokers, %d processes, batches of %d records and %d bytes, latest %t, gap %s then %s, %d faults",
		p.seed, p.sources, p.payload, len(p.deliveries), events, p.partitions, p.brokers, p.processes, p.batchRecords, p.batchBytes, p.latest,
		p.policy.GapWait, p.policy.Then, len(p.faults))
}
