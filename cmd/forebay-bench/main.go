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
	Postgres    string        `env:"FOREBAY_BENCH_POSTGRES" help:"URL of a server to use; default: one is started."`
	Kafka       []string      `env:"FOREBAY_BENCH_KAFKA" help:"Bootstrap addresses; default: an Apache Kafka is started."`
	KafkaScript string        `default:"deploy/kafka/kafka.sh" help:"The script that starts it."`
	Round       time.Duration `default:"6s" help:"Length of one measurement."`
	Rounds      int           `default:"5" help:"Measurements of each side, taken in turns."`
}

func main() {
	memory.Tune()
	if len(os.Args) == 4 && os.Args[1] == bench.ServeCommand { // a child of the intake scenario
		exit(bench.Serve(os.Args[2], os.Args[3]))
	}
	var c command
	kong.Parse(&c, kong.Name("forebay-bench"), kong.Vars{"scenarios": strings.Join(bench.Names(), ", ")},
		kong.Description("Measures Forebay beside its limits and its rivals, in one run, as ratios."))
	exit(run(c))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "forebay-bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(c command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := bench.Run(ctx, c.Scenario, bench.Options{
		Postgres: c.Postgres, Kafka: c.Kafka, KafkaScript: c.KafkaScript, Round: c.Round, Rounds: c.Rounds, Talk: os.Stderr,
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return r.WriteJSON(os.Stdout)
	}
	return r.WriteTable(os.Stdout)
}
