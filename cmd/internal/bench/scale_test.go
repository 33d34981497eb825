package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A filled ledger is one that has seen and done as many events: whole, with its indexes, and open to more.
func TestFill(t *testing.T) {
	t.Parallel()
	pg := opened(t)
	conn := connected(t, pg.url)
	b := &gateBench{Options: tiny(t), gateLoad: gateLoad{entities: 20, body: 256}, pg: pg, seed: uint64(time.Now().UnixNano())}
	const seen = 1234
	run := b.ours()
	if err := b.fill(t.Context(), run, seen); err != nil {
		t.Fatal(err)
	}
	fences, err := fencesOf(t.Context(), conn, run.name)
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
	run.seed = b.next()
	got, err := run.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decided := number(t, conn, `SELECT count(*) + sum(duplicates) FROM forebay.`+events)
	if begun := int64(run.loops * run.entities); decided != seen+begun+got.events {
		t.Errorf("%d decided after %d seen and %d more", decided, seen, begun+got.events)
	}
	if err := (filler{url: pg.url, events: events}).makeIndexes(t.Context(), conn, nil); err == nil {
		t.Error("a fill without an index over the keys was taken")
	}
}
