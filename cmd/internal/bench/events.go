package bench

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"github.com/forebay-io/forebay/schemas"
)

// event is one record of the gate's bench, as both sides take it.
type event struct {
	source, id, typ, entity string
	version                 int64
	partition               int32
	offset                  int64
	hash                    schemas.BodyHash
	key                     schemas.EventKey
}

// entitiesPerPartition and duplicateShare are the scenario's settings, as the issue names them.
const (
	entitiesPerPartition = 20_000
	duplicateShare       = 0.05
)

// generator makes one partition's events: entities at random, versions rising per entity, one in twenty a repeat of a
// recent event. For one goroutine.
type generator struct {
	partition int32
	rng       *rand.Rand
	versions  [entitiesPerPartition]int64
	names     [entitiesPerPartition]string
	recent    [1024]event
	offset    int64
}

func newGenerator(partition int32, seed uint64) *generator {
	g := &generator{partition: partition, rng: rand.New(rand.NewPCG(seed, uint64(partition)))}
	for i := range g.names {
		g.names[i] = fmt.Sprintf("186853002/%d", i)
	}
	return g
}

func (g *generator) next() event {
	defer func() { g.offset++ }()
	if g.offset > int64(len(g.recent)) && g.rng.Float64() < duplicateShare {
		e := g.recent[g.rng.IntN(len(g.recent))]
		e.offset = g.offset
		return e
	}
	return g.of(g.rng.IntN(entitiesPerPartition))
}

// begin is the first event of the next entity.
func (g *generator) begin() event {
	defer func() { g.offset++ }()
	return g.of(int(g.offset) % entitiesPerPartition)
}

// of is a new event of an entity at the current offset.
func (g *generator) of(n int) event {
	g.versions[n]++
	e := event{
		source: "/bench/github", typ: "com.github.issues.labeled",
		id: g.id(), entity: g.names[n], version: g.versions[n], partition: g.partition, offset: g.offset,
	}
	// What the decoder computes is not the gate's: any sixteen bytes do.
	binary.BigEndian.PutUint64(e.key[:], g.rng.Uint64())
	binary.BigEndian.PutUint64(e.key[8:], g.rng.Uint64())
	binary.BigEndian.PutUint64(e.hash[:], g.rng.Uint64())
	g.recent[g.offset%int64(len(g.recent))] = e
	return e
}

// id is a delivery id of GitHub's length.
func (g *generator) id() string {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:], g.rng.Uint64())
	binary.BigEndian.PutUint16(b[8:], uint16(g.partition))
	binary.BigEndian.PutUint64(b[10:], uint64(g.offset))
	return hex.EncodeToString(b[:])
}
