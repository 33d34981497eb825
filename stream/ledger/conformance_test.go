package ledger_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas/short"
	"github.com/forebay-io/forebay/stream/ledger"
)

// postgres is the real ledger as the suite's subject.
type postgres struct {
	*ledger.TestDatabase
	procs []*ledger.TestProcess
}

func (p *postgres) Process(t testing.TB, spec ledger.Spec) Ledger {
	proc := p.Start(t, spec)
	p.procs = append(p.procs, proc)
	return proc
}

func (p *postgres) Pass(t testing.TB, d time.Duration) {
	p.Age(t, d)
	for _, proc := range p.procs {
		proc.Age(d)
	}
}

func (p *postgres) Lose(_ testing.TB, of Ledger, written bool, meanwhile func()) func() bool {
	return of.(*ledger.TestProcess).Lose(written, meanwhile)
}

func (p *postgres) Stop(_ testing.TB, of Ledger) { of.(*ledger.TestProcess).Kill() }

func (p *postgres) Entered(t testing.TB, _ Ledger, member string) {
	p.TestDatabase.Entered(t, member)
}

func (p *postgres) Waits(t testing.TB, of Ledger) { of.(*ledger.TestProcess).Waits(t) }

// TestConformance holds the real ledger to every property of the suite.
func TestConformance(t *testing.T) {
	t.Parallel()
	conforms(t, func(t testing.TB) subject { return &postgres{TestDatabase: ledger.NewTestDatabase(t)} })
}

// TestMemory holds the ledger in memory to them all.
func TestMemory(t *testing.T) {
	t.Parallel()
	conforms(t, func(testing.TB) subject { return ofMemory() })
}

var (
	compareSeed  = flag.Uint64("compare.seed", 0, "play the history of this seed only")
	compareFor   = flag.Duration("compare.for", 0, "begin histories of the clock for so long; 0: three, always the same")
	compareSteps = flag.Int("compare.steps", 150, "steps of a history")
)

// TestMemoryIsWhatPostgresIs plays random histories on both.
func TestMemoryIsWhatPostgresIs(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "PostgreSQL") // before the first history: what is left out takes no time, and they are begun for compareFor
	first, end := uint64(1), time.Now().Add(*compareFor)
	if *compareFor > 0 {
		first = uint64(end.UnixNano()) % 1e9
	}
	for n := uint64(0); n < 3 || time.Now().Before(end); n++ {
		seed := first + n
		if *compareSeed != 0 {
			seed, end = *compareSeed, time.Time{}
		}
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			compare(t, &postgres{TestDatabase: ledger.NewTestDatabase(t)}, ofMemory(), seed, *compareSteps)
		})
		if !ok || *compareSeed != 0 {
			return
		}
	}
}
