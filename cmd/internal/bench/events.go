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
	entities  []versioned
	recent    [1024]event
	made      int64
	offset    int64
}

// versioned is an entity and its newest version.
type versioned struct {
	name string
	at   int64
}

// newGenerator begins at offset 0 with version 1 of every entity.
func newGenerator(partition int32, names []string, seed uint64) *generator {
	g := &generator{partition: partition, entities: make([]versioned, len(names)), rng: rand.New(rand.NewPCG(seed, uint64(partition)))}
	for i, name := range names {
		g.entities[i].name = name
	}
	return g
}

// entityNames are names as GitHub's preset makes them: repository and number.
func entityNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("186853002/%d", i)
	}
	return names
}

// goOn lets the events follow those of an earlier run: behind its offset, with versions above version.
func (g *generator) goOn(offset, version int64) {
	g.offset = offset
	for i := range g.entities {
		g.entities[i].at = version
	}
}

func (g *generator) next() event {
	if g.made > int64(len(g.recent)) && g.rng.Float64() < duplicateShare {
		e := g.recent[g.rng.IntN(len(g.recent))]
		e.offset = g.offset
		g.offset++
		return e
	}
	return g.of(g.rng.IntN(len(g.entities)))
}

// begin is the first event of the next entity.
func (g *generator) begin() event { return g.of(int(g.made) % len(g.entities)) }

// of is a new event of an entity at the current offset.
func (g *generator) of(n int) event {
	of := &g.entities[n]
	of.at++
	e := event{
		source: "/bench/github", typ: "com.github.issues.labeled",
		id: g.id(), entity: of.name, version: of.at, partition: g.partition, offset: g.offset,
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

// id is a delivery id of GitHub's length.
func (g *generator) id() string {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:], g.rng.Uint64())
	binary.BigEndian.PutUint16(b[8:], uint16(g.partition))
	binary.BigEndian.PutUint64(b[10:], uint64(g.offset))
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}
