// Command forebay-bench measures Forebay beside its limits and its rivals and prints ratios.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/forebay-io/forebay/cmd/internal/bench"
	"github.com/forebay-io/forebay/cmd/internal/memory"
)

type command struct {
	Scenario    []string      `arg:"" help:"Scenarios, in order: ${scenarios}."`
	Output      string        `short:"o" enum:"table,json" default:"table" help:"table or json."`
	Postgres    string        `env:"FOREBAY_BENCH_POSTGRES" help:"URL of a server to use; default: one is started, with its data under TMPDIR, for fanout and hol in memory."`
	Kafka       []string      `env:"FOREBAY_BENCH_KAFKA" help:"Bootstrap addresses; default: an Apache Kafka is started where a scenario needs one."`
	KafkaScript string        `default:"deploy/kafka/kafka.sh" help:"The script that starts Apache Kafka."`
	Round       time.Duration `default:"6s" help:"Length of one measurement."`
	Rounds      int           `default:"5" help:"Measurements of each side, taken in turns."`
	Seen        int           `default:"30000000" help:"scale: number of seen ids at which the gate is measured beside none."`
	Open        int           `default:"1000000" help:"scale: open actions of one subscription, over 20,000 entities and of a single one."`
	Load        int           `name:"held" default:"100000" help:"scale: open actions, and events waiting in gaps, that a stream process holds."`
}

func main() {
	memory.Tune()
	if code, is := bench.Child(os.Args[1:]); is {
		os.Exit(code)
	}
	var c command
	kong.Parse(&c, kong.Name("forebay-bench"), kong.Vars{"scenarios": strings.Join(bench.Names(), ", ")}, kong.Description(description()))
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "forebay-bench:", err)
		os.Exit(1)
	}
}

func description() string {
	var text strings.Builder
	text.WriteString("Measures Forebay beside its limits and its rivals, in one run, as ratios.\n")
	for _, name := range bench.Names() {
		fmt.Fprintf(&text, "\n%s: %s.\n", name, bench.Help(name))
	}
	return text.String()
}

func run(c command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := bench.Run(ctx, c.Scenario, bench.Options{
		Postgres: c.Postgres, Kafka: c.Kafka, KafkaScript: c.KafkaScript, Round: c.Round, Rounds: c.Rounds,
		Seen: c.Seen, Load: c.Load, Open: c.Open, Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return r.WriteJSON(os.Stdout)
	}
	return r.WriteTable(os.Stdout)
}
