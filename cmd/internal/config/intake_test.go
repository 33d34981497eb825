package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/ingest"
)

// withIntake is the design's file with a section intake.
func withIntake(t *testing.T, section string) (*Config, Problems) {
	t.Helper()
	return load(strings.Replace(design, "topics: {", "intake: "+section+"\ntopics: {", 1), designEnv, designFiles, Options{})
}

func TestIntakeLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		section string
		change  func(*ingest.Limits)
	}{
		{"{}", func(*ingest.Limits) {}},
		{"{memory: 1GiB}", func(l *ingest.Limits) { l.Memory, l.SmallMemory, l.AddressBytes = 1<<30, 256<<20, 512<<20 }},
		{"{small: {max_body: 32KiB, memory: 16MiB}}", func(l *ingest.Limits) { l.SmallBody, l.SmallMemory = 32<<10, 16<<20 }},
		{"{pace: {bytes: 0, grace: 2s}, yield_after: 500ms}", func(l *ingest.Limits) { l.Pace, l.Grace, l.YieldAfter = -1, 2*time.Second, time.Second/2 }},
		{"{trusted_proxies: [10.0.0.0/8], per_address: {connections: 7, memory: 64MiB}}", func(l *ingest.Limits) {
			l.TrustedProxies, l.AddressConnections, l.AddressBytes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 7, 64<<20
		}},
	} {
		c, problems := withIntake(t, test.section)
		if len(problems) > 0 {
			t.Errorf("%s: %v", test.section, problems)
			continue
		}
		want := ingest.Limits{}.WithDefaults(25 << 20)
		test.change(&want)
		if diff := cmp.Diff(want, c.Intake.Limits(), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s: %s", test.section, diff)
		}
		if _, err := ingest.New(ingest.Config{Sources: func(string, string) (*ingest.Source, bool) { return nil, false }, Log: noLog{}, MaxBody: c.LargestBody(), Limits: c.Intake.Limits()}); err != nil {
			t.Errorf("%s: the intake refuses what the check has let through: %v", test.section, err)
		}
	}
}

// A source that keeps deliveries on disk, by itself or since the top says so, needs the directory. Who says nothing of a provider that sends
// nothing again is told of it.
func TestOnBrokerOutage(t *testing.T) {
	t.Parallel()
	const ofSource, note = "teams.acme.sources.github.on_broker_outage", "GitHub is not known to deliver again by itself"
	if c, problems := load(strings.Replace(design, `{brokers: ["127.0.0.1:9092"]}`, "{embedded: true}", 1), designEnv, designFiles, Options{Embedded: true}); len(problems) > 0 ||
		slices.ContainsFunc(c.Notes(), func(p Problem) bool { return strings.Contains(p.Message, note) }) {
		t.Errorf("of `forebay dev`: %v", problems)
	}
	for _, test := range []struct{ top, source, problem, note string }{
		{"", "", "", note},
		{"", "refuse", "", ""},
		{"on_broker_outage: refuse", "", "", ""},
		{"", "spool", ofSource + ": spool needs a directory of this intake's own", ""},
		{"on_broker_outage: spool", "refuse", "on_broker_outage: spool needs a directory", ""}, // of orders
		{"intake: {spool: {dir: spool}}", "spool", "", ""},
		{"intake: {spool: {dir: spool}}\non_broker_outage: spool", "", "", ""},
		{"intake: {spool: {dir: spool}}", "", "", note},
		{"intake: {spool: {dir: spool, max_size: 1MiB}}", "spool", "intake.spool.max_size: 1MiB is not between 16MiB", ""},
		{"", "disk", `"disk" is not one of refuse, spool`, ""},
	} {
		text := strings.Replace(design, "topics: {", test.top+"\ntopics: {", 1)
		if test.source != "" {
			text = strings.Replace(text, "preset: github\n", "preset: github\n        on_broker_outage: "+test.source+"\n", 1)
		}
		c, problems := load(text, designEnv, designFiles, Options{Path: "/etc/forebay/forebay.yaml"})
		if test.problem != "" || len(problems) > 0 {
			if test.problem == "" || !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), test.problem) }) {
				t.Errorf("%+v: %v", test, problems)
			}
			continue
		}
		noted := slices.ContainsFunc(c.Notes(), func(p Problem) bool { return strings.Contains(p.Message, note) })
		if noted != (test.note != "") {
			t.Errorf("%+v: %v", test, c.Notes())
		}
		want, dir := "refuse", ""
		if strings.Contains(test.source+test.top, "spool: {dir") {
			dir = "/etc/forebay/spool"
		}
		if test.source == "spool" || strings.Contains(test.top, "outage: spool") {
			want = "spool"
		}
		if got := c.Teams["acme"].Sources["github"].OnBrokerOutage; got != want || c.SpoolDir() != dir {
			t.Errorf("%+v: %s in %q", test, got, c.SpoolDir())
		}
	}
}

type noLog struct{ ingest.Log }

func TestIntakeProblems(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		"{memory: 0}":                              "intake.memory: must be at least 1",
		"{memory: 4MiB}":                           "intake.memory: 4MiB is not between 16MiB and 1024GiB",
		"{memory: 32MiB}":                          "intake.memory: 32MiB without the 8MiB of small bodies is too little for a body of 25MiB",
		"{small: {memory: 240MiB}}":                "intake.memory: 256MiB without the 240MiB of small bodies is too little for a body of 25MiB",
		"{small: {memory: 256MiB}}":                "intake.small.memory: 256MiB must be less than intake.memory (256MiB)",
		"{small: {max_body: 2MiB}}":                "intake.small.max_body: 2MiB is not between 4KiB and 1MiB",
		"{per_address: {memory: 20MiB}}":           "intake.per_address.memory: 20MiB is too little for a body of 25MiB",
		"{per_address: {connections: 0}}":          "intake.per_address.connections: must be at least 1",
		"{pace: {grace: 100ms}}":                   "intake.pace.grace: 100ms is not between 1s and 30s",
		"{pace: {bytes: 1GiB}}":                    "intake.pace.bytes: 1GiB is not between 0 and 1MiB",
		"{body_timeout: 10m}":                      "intake.body_timeout: 10m is not between 1s and 30s",
		"{stop_delay: 2m}":                         "intake.stop_delay: 2m is not between 0s and 1m",
		"{yield_after: 0s}":                        "intake.yield_after: 0s is not between 100ms and 30s",
		"{trusted_proxies: [0.0.0.0/0]}":           "intake.trusted_proxies[0]: 0.0.0.0/0 is every address",
		`{trusted_proxies: [10.0.0.0/8, "::/0"]}`:  "intake.trusted_proxies[1]: ::/0 is every address",
		`{trusted_proxies: ["::ffff:0.0.0.0/96"]}`: "intake.trusted_proxies[0]: ::ffff:0.0.0.0/96 is every address",
		"{trusted_proxies: [10.0.0.1]}":            `"10.0.0.1" is not a network`,
		"{per_addresses: {connections: 1}}":        "did you mean per_address?",
	} {
		if _, problems := withIntake(t, section); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: no %q in\n%v", section, want, problems)
		}
	}
}

// The limits need a restart; what is computed of the sources' largest body does not, or a source that goes would.
func TestIntakeNeedsARestart(t *testing.T) {
	t.Parallel()
	with := func(section, maxBody string) *Config {
		t.Helper()
		text := strings.Replace(design, "preset: github", "preset: github\n        max_body: "+maxBody, 1)
		c, problems := load(strings.Replace(text, "topics: {", "intake: "+section+"\ntopics: {", 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	before := with("{yield_after: 2s}", "95MiB")
	if got := waitingPaths(before, with("{yield_after: 2s}", "1MiB")); len(got) != 0 {
		t.Errorf("a smaller body needs a restart of %v", got)
	}
	for section, key := range map[string]string{"{}": "yield_after", "{yield_after: 3s}": "yield_after", "{yield_after: 2s, memory: 600MiB}": "memory",
		"{yield_after: 2s, trusted_proxies: [10.0.0.0/8]}": "trusted_proxies"} {
		if got := waitingPaths(before, with(section, "95MiB")); !slices.Equal(got, []string{"intake." + key}) {
			t.Errorf("%s needs a restart of %v", section, got)
		}
	}
}

// One address has a part of the connections only, however few there may be: a quarter, or the share that the file gives it. What the file
// gives it holds where that is less.
func TestAddressHasAPartOfFewConnections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		intake    string
		most      int
		all, from int
	}{
		{"{}", 1 << 30, 16384, 2048},
		{"{}", 512, 512, 128},
		{"{}", 2, 2, 1},
		{"{connections: 100}", 1 << 30, 100, 25},
		{"{per_address: {connections: 8192}}", 1 << 30, 16384, 8192},
		{"{per_address: {connections: 8192}}", 512, 512, 256},
		{"{connections: 1000, per_address: {connections: 1}}", 100, 100, 1},
		{"{per_address: {connections: 3}}", 10_000, 10_000, 3},
		{"{per_address: {connections: 3}}", 8, 8, 2},
	} {
		c, problems := load(strings.Replace(design, "topics:", "intake: "+test.intake+"\ntopics:", 1), designEnv, designFiles, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if l := c.IntakeLimits(test.most); l.Connections != test.all || l.AddressConnections != test.from {
			t.Errorf("%s with at most %d: %d in all, %d of one address; want %d and %d", test.intake, test.most, l.Connections, l.AddressConnections, test.all, test.from)
		}
	}
}
