package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options are what every scenario takes.
type Options struct {
	// Postgres is a server's URL; empty starts one in a directory of its own.
	Postgres string
	// Kafka is a list of bootstrap addresses; empty starts an Apache Kafka through deploy/kafka/kafka.sh.
	Kafka []string
	// KafkaScript is the path of kafka.sh.
	KafkaScript string
	// Round is how long one measurement takes, Rounds how many each side has.
	Round  time.Duration
	Rounds int
	// Talk gets progress lines.
	Talk io.Writer
}

// scenarios are run by name, in the order in which they are asked for.
var scenarios = map[string]func(context.Context, Options, *Report) error{
	"gate":   runGateScenario,
	"intake": runIntakeScenario,
}

// Names lists the scenarios.
func Names() []string {
	names := make([]string, 0, len(scenarios))
	for name := range scenarios {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run runs scenarios one after the other into one report.
func Run(ctx context.Context, names []string, o Options) (*Report, error) {
	r := &Report{Machine: ThisMachine(), Settings: map[string]string{"round": o.Round.String(), "rounds": fmt.Sprint(o.Rounds)}}
	for _, name := range names {
		scenario, ok := scenarios[name]
		if !ok {
			return nil, fmt.Errorf("no scenario %q; there are: %s", name, strings.Join(Names(), ", "))
		}
		if err := scenario(ctx, o, r); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", name, err)
		}
	}
	return r, nil
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Talk, format+"\n", args...) }
