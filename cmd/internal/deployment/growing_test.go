package deployment

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of GROWING.md again")

// figures are those of the benches that GROWING.md rests on, by name: microseconds, bytes, events a second.
func figures(t *testing.T) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, name := range []string{"e2e", "gate", "growth", "scale-30M"} {
		var report struct {
			Ratios []struct {
				Name string
				Ours float64
			}
			Costs, Figures []struct {
				Name  string
				Value float64
			}
		}
		text, err := os.ReadFile(filepath.Join(root, "deploy/bench", name+".json"))
		if err == nil {
			err = json.Unmarshal(text, &report)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Ratios {
			all[r.Name] = r.Ours
		}
		for _, c := range append(report.Costs, report.Figures...) {
			all[c.Name] = c.Value
		}
	}
	return all
}

// load is what a plan is made for.
type load struct {
	rate              float64 // deliveries a second
	costs             string  // of e2e.json: at full load "", at a low rate "trickle_"
	retention, window float64 // days
}

// The sizes of a plan. busy is how much of a core is used at the planned rate: the rest is for peaks, and for a part that is gone.
const (
	busy          = 0.5
	processCores  = 4
	brokerCores   = 8
	postgresCores = 16
	ledgerDisk    = 10e12
	replication   = 3
)

// plan is how many of each part a load needs.
type plan struct {
	intakes, streams, brokers, postgres, ledgers, partitions float64
	log, ledger, wal                                         float64 // bytes: all replicas; tables and indexes; a second
}

func planFor(f map[string]float64, l load) (p plan) {
	const day, us = 86400, 1e-6
	parts := func(least float64, part string, cores float64) float64 {
		return max(least, math.Ceil(l.rate*f["e2e/cpu_"+l.costs+part]*us/busy/cores))
	}
	growth := "growth/" + l.costs
	p.intakes, p.streams = parts(2, "intake", processCores), parts(2, "stream", processCores)
	p.brokers = max(3, math.Ceil(l.rate*replication*f["e2e/cpu_"+l.costs+"broker"]*us/busy/brokerCores))
	p.postgres = parts(2, "postgres", 1)
	p.log = l.rate * f[growth+"log"] * replication * l.retention * day
	p.ledger = l.rate * f[growth+"tables"] * l.window * day
	p.wal = l.rate * f[growth+"wal"]
	p.ledgers = max(1, math.Ceil(p.postgres/postgresCores), math.Ceil(p.ledger/ledgerDisk))
	p.partitions = 12 * math.Ceil(max(2*p.streams, l.rate/busy/partitionRate(f))/12)
	return p
}

// partitionRate is how many events a second the gate decides of one partition: the bench has two loops of one each.
func partitionRate(f map[string]float64) float64 { return f["gate/per_event"] / 2 }

// bytesText is a size for people.
func bytesText(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g TB", n)
}

// TestGrowing holds the tables of GROWING.md to the figures of the benches, and the plan to what a plan must be.
func TestGrowing(t *testing.T) {
	t.Parallel()
	f := figures(t)
	us := func(name string) string { return fmt.Sprintf("%.0f", f[name]) }
	var costs strings.Builder
	fmt.Fprintf(&costs, "| a delivery of 1 KiB to a completed `http` action | at full load | at 100 a second | from |\n|---|---|---|---|\n")
	for _, part := range []string{"intake", "stream", "broker", "postgres"} {
		fmt.Fprintf(&costs, "| processor of %s | %s us | %s us | `e2e.json` |\n", part, us("e2e/cpu_"+part), us("e2e/cpu_trickle_"+part))
	}
	for _, row := range [][2]string{{"log, in one replica", "log"}, {"WAL", "wal"}, {"tables and indexes", "tables"}} {
		fmt.Fprintf(&costs, "| %s | %s bytes | %s bytes | `growth.json` |\n", row[0], us("growth/"+row[1]), us("growth/trickle_"+row[1]))
	}
	fmt.Fprintf(&costs, "\nEvents a second: %s through all of it on two cores, agent, load, broker and Postgres with it; %s of gate and ledger alone, %s of one "+
		"partition (`gate.json`).\n", us("e2e/rate"), us("gate/per_event"), fmt.Sprintf("%.0f", partitionRate(f)))

	loads := []load{{1000, "trickle_", 7, 15}, {20_000, "", 1, 9}, {1_000_000, "", 1, 9}}
	var plans []plan
	for _, l := range loads {
		plans = append(plans, planFor(f, l))
	}
	var table strings.Builder
	row := func(name, formula string, of func(int) string) {
		fmt.Fprintf(&table, "| %s | %s |", name, formula)
		for i := range loads {
			fmt.Fprintf(&table, " %s |", of(i))
		}
		table.WriteByte('\n')
	}
	number := func(of func(plan) float64) func(int) string {
		return func(i int) string { return fmt.Sprintf("%.0f", of(plans[i])) }
	}
	size := func(of func(plan) float64) func(int) string {
		return func(i int) string { return bytesText(of(plans[i])) }
	}
	row("deliveries a second, R", "", func(i int) string { return fmt.Sprintf("**%.0f**", loads[i].rate) })
	table.WriteString("|---|---|---|---|---|\n")
	row("costs", "", func(i int) string {
		return map[string]string{"": "full load", "trickle_": "100 a second"}[loads[i].costs]
	})
	row("topic retention, dedupe window", "T, W", func(i int) string { return fmt.Sprintf("%.0f d, %.0f d", loads[i].retention, loads[i].window) })
	row("intake processes of 4 cores", "max(2, R x intake / (0.5 x 4))", number(func(p plan) float64 { return p.intakes }))
	row("stream processes of 4 cores", "max(2, R x stream / (0.5 x 4))", number(func(p plan) float64 { return p.streams }))
	row("brokers of 8 cores, replication 3", "max(3, 3 x R x broker / (0.5 x 8))", number(func(p plan) float64 { return p.brokers }))
	row("cores of Postgres in all", "max(2, R x postgres / 0.5)", number(func(p plan) float64 { return p.postgres }))
	row("ledgers", "max(cores / 16, tables / 10 TB)", number(func(p plan) float64 { return p.ledgers }))
	row("partitions in all", "max(2 x streams, R / (0.5 x one partition's rate)), by twelves", number(func(p plan) float64 { return p.partitions }))
	row("disk of the brokers in all", "3 x R x log x T", size(func(p plan) float64 { return p.log }))
	row("tables and indexes in all", "R x tables x W", size(func(p plan) float64 { return p.ledger }))
	row("indexes of seen events in all", "R x index x W", func(i int) string { return bytesText(loads[i].rate * f["scale/0_index"] * loads[i].window * 86400) })
	row("WAL a second in all", "R x WAL", size(func(p plan) float64 { return p.wal }))

	page := filepath.Join(root, "deploy/docs/GROWING.md")
	had, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(had)
	for name, text := range map[string]string{"costs": costs.String(), "plan": table.String()} {
		begin, end := fmt.Sprintf("<!-- %s: go test ./cmd/internal/deployment -run TestGrowing -update -->\n", name), "<!-- end -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("GROWING.md has no place for the table %s", name)
		}
		want = head + begin + text + end + tail
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(had) {
		t.Error("GROWING.md has not what the benches say: go test ./cmd/internal/deployment -run TestGrowing -update")
	}
	// Every part at the planned rate is half idle, in total and each ledger alone, and no process has less than two partitions.
	for i, p := range plans {
		l := loads[i]
		for part, cores := range map[string]float64{"intake": p.intakes * processCores, "stream": p.streams * processCores, "postgres": p.ledgers * postgresCores} {
			if need := l.rate * f["e2e/cpu_"+l.costs+part] / 1e6; need > cores*busy {
				t.Errorf("%.0f/s: %s needs %.1f cores and has %.0f", l.rate, part, need, cores)
			}
		}
		if p.partitions < 2*p.streams || p.ledger/p.ledgers > ledgerDisk {
			t.Errorf("%.0f/s: %+v", l.rate, p)
		}
	}
	if missing := slices.Sorted(maps.Keys(f)); len(missing) < 20 {
		t.Errorf("few figures: %s", missing)
	}
}
