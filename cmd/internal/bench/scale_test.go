package bench

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// smallScale is the scenario with a stream process of its own, beside the embedded broker.
var smallScale = scaleSizes{entities: 20, warmUp: 500, body: 256, backlog: backlogSizes{partitions: 3, body: 256, rest: 20 * time.Millisecond}}

func TestScaleScenario(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Seen, o.Load, o.Open = []int{1000}, 30, 300
	r := newReport(o)
	if err := runScale(t.Context(), o, smallScale, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `scale/memory scale/million scale/million_of_one scale/1k`,
		`scale/0_cpu_forebay scale/0_cpu_postgres scale/0_wal scale/0_table scale/0_index
		scale/1k_cpu_forebay scale/1k_cpu_postgres scale/1k_wal scale/1k_table scale/1k_index`,
		`scale/memory_full scale/memory_peak scale/million_fill scale/million_rest scale/million_drain scale/million_of_one_fill scale/million_of_one_rest scale/million_of_one_drain scale/1k_fill scale/0_rows scale/1k_rows`)
	if m := r.Ratios[0]; !m.AtMost || m.Bar != 1 || m.Theirs != memoryBar || m.Ours < 10 {
		t.Errorf("memory: %+v", m)
	}
	if most := r.Ratios[3]; most.Bar != scaleBar || len(most.Rounds) != o.Rounds {
		t.Errorf("%+v", most)
	}
	for _, name := range []string{"scale.disk", "scale.memory", "scale.million", "scale.million_of_one", "scale.ours"} {
		if r.Settings[name] == "" {
			t.Errorf("no setting %s: %v", name, r.Settings)
		}
	}
}

// A filled ledger is one that has seen and done as many events: whole, with its indexes, and open to more.
func TestFill(t *testing.T) {
	t.Parallel()
	pg := opened(t)
	conn := connected(t, pg.url)
	b := &scaleBench{Options: tiny(t), scaleSizes: smallScale, pg: pg, seed: uint64(time.Now().UnixNano())}
	const seen = 1234
	l := b.level(seen)
	if _, err := b.fill(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	fences, err := fencesOf(t.Context(), conn, l.run.name)
	if err != nil {
		t.Fatal(err)
	}
	events := fmt.Sprintf("events_w%d", fences[0].window)
	progress := fmt.Sprintf(`forebay.progress WHERE fence IN (SELECT fence FROM forebay.%s) AND`, events)
	for what, query := range map[string]string{
		"rows":           `SELECT count(*) FROM forebay.` + events,
		"keys":           `SELECT count(DISTINCT event_key) FROM forebay.` + events,
		"ids":            `SELECT count(DISTINCT event_id) FROM forebay.` + events + ` WHERE length(event_id) = 36`,
		"places":         `SELECT count(DISTINCT (fence, log_offset)) FROM forebay.` + events,
		"done":           `SELECT sum(lane_low - 1) FROM ` + progress + ` lane_low = next_lane_seq`,
		"read":           `SELECT sum(next_offset) FROM ` + progress + ` next_offset = high_offset`,
		"below the next": `SELECT count(*) FROM forebay.` + events + ` e JOIN forebay.progress p USING (fence) WHERE e.log_offset < p.next_offset AND e.lane_seq < p.lane_low`,
	} {
		if n := number(t, conn, query); n != seen {
			t.Errorf("%s: %d, not %d", what, n, seen)
		}
	}
	ours := strings.ReplaceAll(indexesOf(t, conn, "forebay", events), " WITH (fillfactor='70')", "")
	if other := indexesOf(t, conn, "forebay", fmt.Sprintf("events_w%d", fences[0].ahead)); ours != other || other == "" {
		t.Errorf("indexes after the fill, and of a window that was not filled:\n%s\n%s", ours, other)
	}
	l.run.seed, l.run.warmUp = b.next(), 0
	got, err := l.run.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decided := number(t, conn, `SELECT count(*) + sum(duplicates) FROM forebay.`+events)
	if begun := int64(l.run.loops * l.run.entities); decided != seen+begun+got.events {
		t.Errorf("%d decided after %d seen and %d more", decided, seen, begun+got.events)
	}
	if err := (filler{url: pg.url, events: events}).makeIndexes(t.Context(), conn, nil); err == nil {
		t.Error("a fill without an index over the keys was taken")
	}
}

func TestScaleRefusesNumbers(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Seen: []int{30, 5}}, {Seen: []int{0, 5}}, {Load: -1}, {Open: -1}} {
		if err := runScale(t.Context(), o, smallScale, newReport(o)); err == nil || !strings.Contains(err.Error(), "ascending") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	if n := diskNeeded([]int{5e6, 30e6}); n < 20<<30 || n > 40<<30 {
		t.Errorf("35 million rows need %.1f GiB", gib(n))
	}
	o := Options{Seen: []int{1000, math.MaxInt64 / diskPerEvent / 4}, Progress: t.Output()}
	r := newReport(o)
	err := o.checkDisk(t.TempDir(), r)
	if err == nil || !strings.Contains(err.Error(), "--seen") || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("more than any disk has: %v", err)
	}
	if err := o.checkDisk("/nowhere/data", r); err != nil || !strings.Contains(r.Settings["scale.disk"], "not known") {
		t.Errorf("a server elsewhere: %v, %q", err, r.Settings["scale.disk"])
	}
}

func TestCountName(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 20: "20", 1000: "1k", 1500: "1500", 250_000: "250k", 5_000_000: "5M", 30_000_000: "30M", 1_500_000: "1500k"} {
		if got := countName(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
}

// A stream process that ends early ends the wait for it, with what it said last.
func TestHeldProcessEnds(t *testing.T) {
	t.Parallel()
	o := tiny(t)
	o.Load = 5
	b := &scaleBench{Options: o, scaleSizes: smallScale, pg: opened(t), seed: uint64(time.Now().UnixNano())}
	h, err := b.newBacklog(t.Context(), o.Load, o.Load)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := os.WriteFile(h.config, []byte("version: 1\nnonsense: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := h.serve(t.Context(), "stream")
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	err = p.explain(h.waitFull(t.Context(), p))
	if !strings.Contains(err.Error(), "has ended") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
	if err := h.command(t.Context(), "migrate", "-c", h.config); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a command of forebay that failed: %v", err)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	conn := connected(t, opened(t).url)
	got, err := columns(t.Context(), conn, "forebay.topics", map[string]string{"topic": "'t'", "partitions": "12"})
	if want := `"subscription", 't', "topic_id", 12, "seen_at", "left_at"`; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := columns(t.Context(), conn, "forebay.topics", map[string]string{"gone": "1"}); err == nil || !strings.Contains(err.Error(), "forebay.topics") {
		t.Errorf("a column that is no more: %v", err)
	}
}
