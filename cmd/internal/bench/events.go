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

// How many entities a partition's events are of, and which share of the events repeats an earlier one.
const (
	entitiesPerPartition = 20_000
	duplicateShare       = 0.05
)

// generator makes one partition's events: entities at random, versions rising per entity, one in twenty a repeat of a
// recent event. For one goroutine.
type generator struct {
	partition int32
	rng       *rand.Rand
	entities  []entityVersion
	recent    [1024]event
	made      int64
	offset    int64
}

// entityVersion is an entity and its newest version.
type entityVersion struct {
	name    string
	version int64
}

// newGenerator begins at offset 0 with version 1 of every entity.
func newGenerator(partition int32, names []string, seed uint64) *generator {
	g := &generator{partition: partition, entities: make([]entityVersion, len(names)), rng: rand.New(rand.NewPCG(seed, uint64(partition)))}
	for i, name := range names {
		g.entities[i].name = name
	}
	return g
}

// entityNames returns n names as GitHub's preset makes them: repository and number.
func entityNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("186853002/%d", i)
	}
	return names
}

// continueAt makes the next events follow those of an earlier run: from an offset on, with versions above version.
func (g *generator) continueAt(offset, version int64) {
	g.offset = offset
	for i := range g.entities {
		g.entities[i].version = version
	}
}

// next returns a new event of an entity at random, or repeats a recent event.
func (g *generator) next() event {
	if g.made > int64(len(g.recent)) && g.rng.Float64() < duplicateShare {
		e := g.recent[g.rng.IntN(len(g.recent))]
		e.offset = g.offset
		g.offset++
		return e
	}
	return g.newEvent(g.rng.IntN(len(g.entities)))
}

// takenBefore returns the events that a gateLoop took of a partition, one after the other: the first of each entity, then as next has them.
func (g *generator) takenBefore(entities int) event {
	if g.offset < int64(entities) {
		return g.firstEvent()
	}
	return g.next()
}

// firstEvent returns the first event of the next entity.
func (g *generator) firstEvent() event { return g.newEvent(int(g.made) % len(g.entities)) }

// newEvent returns a new event of entity n at the current offset.
func (g *generator) newEvent(n int) event {
	of := &g.entities[n]
	of.version++
	e := event{
		source: "/bench/github", typ: "com.github.issues.labeled",
		id: g.id(), entity: of.name, version: of.version, partition: g.partition, offset: g.offset,
	}
	// What the decoder computes is not the gate's: any sixteen bytes do.
	binary.BigEndian.PutUint64(e.key[:], g.rng.Uint64())
	binary.BigEndian.PutUint64(e.key[8:], g.rng.Uint64())
	binary.BigEndian.PutUint64(e.hash[:], g.rng.Uint64())
	g.recent[g.made%int64(len(g.recent))] = e
	g.made++
	g.offset++
	return e
}

// id returns a delivery id that is as long as GitHub's.
func (g *generator) id() string {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:], g.rng.Uint64())
	binary.BigEndian.PutUint16(b[8:], uint16(g.partition))
	binary.BigEndian.PutUint64(b[10:], uint64(g.offset))
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}
