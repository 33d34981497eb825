package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// smallGate has a warm-up that is longer than what the generator repeats from.
var smallGate = gateLoad{entities: 100, warmUp: 2000, body: 256}

// tinyScenarios are all scenarios at a size that takes no time. Those with tables of a rival are not parallel.
var tinyScenarios = map[string]struct {
	run           func(context.Context, Options, *Report) error
	alone         bool
	round         time.Duration // 0: 50 ms; others are long enough for some deliveries, whatever else the machine does
	ratios, costs string
	settings      string
}{
	"consoles": {
		run:   consoleSizes{gateLoad: smallGate, open: 2, every: 20 * time.Millisecond, lastLook: time.Minute}.run,
		alone: true, ratios: "consoles/gate", settings: "consoles", costs: ours("consoles/") + ours("consoles/without_"),
	},
	"e2e": {
		run:   e2eSizes{warmUp: 100 * time.Millisecond, warmEvents: 1, conns: 2, entities: 3, partitions: 2, window: 20, sample: 1}.run,
		round: 500 * time.Millisecond, settings: "e2e",
		ratios: "e2e/rate e2e/bare e2e/traced e2e/guarded e2e/memory_intake e2e/memory_stream e2e/trickle_p50_200 e2e/trickle_p50 e2e/trickle e2e/trickle_p99 e2e/rest " +
			"e2e/memory_rest_intake e2e/memory_rest_stream",
		costs: parts("e2e/cpu_") + parts("e2e/cpu_bare_") + parts("e2e/cpu_traced_") + parts("e2e/cpu_guarded_") +
			"e2e/cpu_trickle_intake e2e/cpu_trickle_bare_intake e2e/cpu_trickle_stream e2e/cpu_trickle_bare_stream e2e/cpu_trickle_postgres e2e/cpu_trickle_bare_postgres",
	},
	"fanout": {
		run:   fanout(troubleSizes{warmUp: 100 * time.Millisecond, rate: 30, conns: 2, entities: 2, partitions: 2, subscriptions: 2}).run,
		round: time.Second, ratios: "fanout/hangs fanout/fails", settings: "fanout",
	},
	"gate": {
		run:   gateSizes{gateLoad: smallGate, rivalConns: []int{1, 2}, copyConns: []int{1, 2}, large: 8 << 10}.run,
		alone: true, ratios: "gate/per_event gate/copy gate/8KiB_to_256B gate/match", settings: "gate.ours gate.match gate.rival gate.copy postgres.fsync",
		costs: ours("gate/") + "gate/per_event_cpu_postgres gate/per_event_wal gate/copy_cpu_postgres gate/copy_wal " + ours("gate/8KiB_") + ours("gate/match_"),
	},
	"growth": {
		run:   growthSizes{load: e2eSizes{conns: 2, entities: 3, partitions: 2, window: 20}, first: 10, full: 100, trickle: 300}.run,
		costs: "growth/log growth/wal growth/tables growth/trickle_log growth/trickle_wal growth/trickle_tables", settings: "growth",
	},
	"hol": {
		run:   hol(troubleSizes{warmUp: 100 * time.Millisecond, rate: 100, conns: 2, entities: 2, partitions: 2}).run,
		round: time.Second, ratios: "hol/p99", settings: "hol",
	},
	"intake": {
		run:    intakeSizes{warm: 4, conns: []int{2, 3}}.run,
		ratios: "intake/bare intake/bare_3", costs: "intake/cpu_ours_2 intake/cpu_bare_2 intake/cpu_ours_3 intake/cpu_bare_3", settings: "intake.body",
	},
	"lanes": {
		run:   laneSizes{gateLoad: smallGate, oneConns: []int{1, 2}, manyConns: []int{1, 2}, insert: 20, claim: 100, maxWaiting: 10}.run,
		alone: true, ratios: "lanes/one_by_one lanes/batch_100 lanes/guarded", settings: "lanes.ours lanes.guarded lanes.one_by_one lanes.batch_100 lanes.rivals",
		costs: ours("lanes/") + ours("lanes/guarded_") + "lanes/one_by_one_cpu_postgres lanes/one_by_one_wal lanes/batch_100_cpu_postgres lanes/batch_100_wal",
	},
	"overload": {
		run:   overloadSizes{warm: 4, conns: 2, times: 3, quiet: 20 * time.Millisecond}.run,
		round: 200 * time.Millisecond, ratios: "overload/kept overload/p99 overload/quiet_p99 overload/quiet overload/memory", settings: "overload.intake",
	},
	"recovery": {
		run:    recoverySizes{rate: 50, warmUp: 2 * time.Second, conns: 2, entities: 100, partitions: 6}.run,
		ratios: "recovery/restart recovery/of_three recovery/others_p99", settings: "recovery",
	},
	"release": {
		run:   releaseSizes{waiting: 2000, rate: 100, entities: 5}.run,
		round: 500 * time.Millisecond, ratios: "release/others_p99 release/memory", settings: "release",
	},
	"replay": {
		run:    replaySizes{smallGate}.run,
		ratios: "replay/rewind replay/fill", costs: ours("replay/gate_") + ours("replay/rewind_") + ours("replay/fill_"), settings: "replay.gate replay.skip",
	},
	"scale": {
		run:    scaleSizes{gateLoad: smallGate, backlog: backlogSizes{entities: 20, partitions: 3, body: 256, rest: 20 * time.Millisecond}}.run,
		ratios: "scale/memory scale/million scale/million_of_one scale/1k", settings: "scale.memory scale.million scale.million_of_one scale.ours",
		costs: ours("scale/0_") + ours("scale/1k_"),
	},
}

func ours(name string) string {
	return strings.ReplaceAll("NAMEcpu_forebay NAMEcpu_postgres NAMEwal ", "NAME", name)
}

func parts(name string) string {
	return strings.ReplaceAll("NAMEintake NAMEstream NAMEpostgres NAMEload NAMEagent ", "NAME", name)
}

// Each scenario runs, and reports the names that it promises, with a figure and a bar for each.
func TestScenarios(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := tinyScenarios[name]
			if !s.alone {
				t.Parallel()
			}
			o := tiny(t)
			o.Kafka = strings.Split(rig.Fake(t).Bootstrap(), ",")
			o.Seen, o.Load, o.Open = 1000, 30, 300
			if s.round > 0 {
				o.Round = s.round
			}
			r := newReport(o)
			if err := s.run(t.Context(), o, r); err != nil {
				t.Fatal(err)
			}
			checkReport(t, r, s.ratios, s.costs)
			for _, setting := range strings.Fields(s.settings) {
				if r.Settings[setting] == "" {
					t.Errorf("no setting %s: %v", setting, r.Settings)
				}
			}
		})
	}
}

// checkReport holds a report to the names that its scenario promises, every figure in it to being one, and every ratio to a bar. Processor
// times are left out where they are too short to be read, and tables where what is small fits into the pages that are there.
func checkReport(t *testing.T, r *Report, ratios, costs string) {
	t.Helper()
	var names, read []string
	for _, x := range r.Ratios {
		names = append(names, x.Name)
		measured := x.Ratio > 0 && x.Ours > 0 || x.AtMost && x.Ours == 0 // /proc counts in hundredths of a second
		if !measured || !(x.Theirs > 0) || x.Unit == "" || x.Bar == 0 {
			t.Errorf("no ratio: %+v", x)
		}
	}
	sameNames(t, "ratios", names, ratios)
	for _, c := range r.Costs {
		read = append(read, c.Name)
		if !(c.Value > 0) || c.Unit == "" {
			t.Errorf("no cost: %+v", c)
		}
	}
	wanted := slices.DeleteFunc(strings.Fields(costs), func(name string) bool {
		return (strings.Contains(name, "cpu_") || strings.HasSuffix(name, "tables")) && !slices.Contains(read, name)
	})
	sameNames(t, "costs", read, strings.Join(wanted, " "))
}

func sameNames(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if g, w := strings.Join(got, " "), strings.Join(strings.Fields(want), " "); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
