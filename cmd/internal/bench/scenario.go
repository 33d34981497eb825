package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options are what every scenario takes.
type Options struct {
	// Postgres is a server's URL; empty starts one in a directory of its own.
	Postgres string
	// Kafka is a list of bootstrap addresses; empty starts an Apache Kafka where the scenario needs one.
	Kafka []string
	// KafkaScript is the path of kafka.sh.
	KafkaScript string
	// kafkaPID is the broker's process, where the scenario has started it.
	kafkaPID int
	// Round is how long one measurement takes, Rounds how many each side has.
	Round  time.Duration
	Rounds int
	// Seen is the number of seen ids at which scale measures the gate, beside none.
	Seen int
	// Load is how many open actions, and how many events that wait in gaps, scale gives a stream process.
	Load int
	// Open is how many open actions of one subscription scale lets a stream process have, nearly all of them in the ledger.
	Open int
	// buffers are shared_buffers of a server that is started; empty is 512MB.
	buffers string
	// data is where servers that are started keep their data; empty is TMPDIR.
	data string
	// Progress gets a line about each step.
	Progress io.Writer
}

// scenario is one way to measure.
type scenario struct {
	help string
	run  func(context.Context, Options, *Report) error
}

// scenarios are run by name, in the order in which they are asked for.
var scenarios = map[string]scenario{
	"consoles": {"the gate's rate while ten consoles are open, beside its rate without", consoleScale.run},
	"e2e":      {"signed deliveries to completed actions of an http destination, through everything, on one machine", e2eScale.run},
	"fanout":   {"p99 from accept to action of nine subscriptions on a topic while a tenth hangs or fails, beside the same without", fanout(fanoutScale).run},
	"gate":     {"the gate and the ledger beside one transaction per event, beside COPY of the rows that they write, with large bodies and with a match on the body", gateScale.run},
	"growth":   {"bytes by which log, WAL and tables grow with a delivery and its completed action", growthScale.run},
	"hol":      {"p99 from accept to action of unrelated entities while destinations are dead and an entity fails, beside the same without", hol(holScale).run},
	"intake":   {"the intake beside a handler that only reads and produces", intakeScale.run},
	"lanes":    {"no-op actions from the gate's transaction to the recorded completion beside queue tables worked on with SKIP LOCKED, one by one and in batches", laneScale.run},
	"overload": {"the intake offered ten times what it can take: what it accepts is in the log, in how long, in how much memory, and a quiet source beside the flood", overloadScale.run},
	"recovery": {"after a kill -9 of the only stream process the first call of the next one, and of one of three the last call of what it had", recoveryScale.run},
	"release":  {"p99 from the log to the action of other entities while 100,000 events that waited on one are released, beside the same before", releaseScale.run},
	"replay":   {"skipping what is done, after a group was reset and by fill, beside the gate's rate for the same events", replayScale.run},
	"scale":    {"the gate's rate with millions of seen ids beside its rate with none, the memory of a stream process that holds much, and of one with a million open actions", scaleScale.run},
}

// Names lists the scenarios.
func Names() []string { return slices.Sorted(maps.Keys(scenarios)) }

// Help says what a scenario measures.
func Help(name string) string { return scenarios[name].help }

// Run runs scenarios one after the other into one report.
func Run(ctx context.Context, names []string, o Options) (*Report, error) {
	r := newReport(o)
	for _, name := range names {
		s, ok := scenarios[name]
		if !ok {
			return nil, fmt.Errorf("no scenario %q; there are: %s", name, strings.Join(Names(), ", "))
		}
		if err := s.run(ctx, o, r); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", name, err)
		}
	}
	return r, nil
}

func newReport(o Options) *Report {
	return &Report{Machine: ThisMachine(), Ratios: []Ratio{}, Costs: []Cost{}, Settings: map[string]string{"round": o.Round.String(), "rounds": fmt.Sprint(o.Rounds)}}
}

func (o Options) logf(format string, args ...any) { fmt.Fprintf(o.Progress, format+"\n", args...) }
