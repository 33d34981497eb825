package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// viewOf is everything that one subscription has in the ledger, a line each, in the words of modelLedger.view.
var viewOf = `WITH f AS (SELECT id, partition, epoch AS of_fence, released FROM fences WHERE subscription = $1 AND epoch > 0)
SELECT concat_ws(' ', partition, 'fence', 'epoch', of_fence, CASE WHEN released THEN 'released' END) FROM f
UNION ALL SELECT concat_ws(' ', partition, 'progress', next_offset, 'high', high_offset, 'lane', next_lane_seq,
    CASE WHEN isfinite(processed_at) THEN floor(extract(epoch FROM processed_at) * 1000000)::bigint END) FROM f JOIN progress p ON p.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'seek', row_number() OVER (PARTITION BY f.id ORDER BY k.id), from_offset, to_offset) FROM f JOIN seeks k ON k.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'event', event_id, 'at', log_offset, 'in', window_id, decision || '/' || reason, kind, epoch, value, nullif(version_text, ''), sub,
    entity, 'lanes', lane_seq, '+', actions, 'again', duplicates) FROM f JOIN events e ON e.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'aside', log_offset, 'in', window_id, decision || '/' || reason, nullif(event_id, '')) FROM f JOIN rejected_records d ON d.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'line', entity || '|' || clock, kind, epoch, value, nullif(version_text, ''), sub, event_key, filtered, parked, skipped) FROM f JOIN ` + linesNow + ` l ON l.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'waits', log_offset, 'in', window_id, event_key, epoch, value, nullif(version_text, ''), decision, nullif(stage, ''), filtered, convert_from(packed, 'UTF8')) FROM f JOIN buffer b ON b.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'command', k.id, kind, log_offset) FROM f JOIN commands k ON k.fence = f.id WHERE k.ended_at IS NULL
UNION ALL SELECT concat_ws(' ', partition, 'attempt', lane_seq, attempt, 'in', window_id, status) FROM f JOIN attempts a ON a.fence = f.id
UNION ALL SELECT concat_ws(' ', f.partition, 'action', e.lane_seq + n.i, e.event_id, w.name, w.destination, w.on_dead,
    coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' ELSE 'done' END), 'attempts', coalesce(x.attempts, (c.at IS NOT NULL)::int),
    CASE WHEN x.status <> 'done' AND x.class IN ('payload_lost', '` + DeadClass + `') THEN x.class END, 'copy', convert_from(x.packed, 'UTF8')) -- null: left out
  FROM f JOIN events e ON e.fence = f.id LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + OfAll(ActionStates) + `
  LEFT JOIN effects w ON w.id = coalesce(x.effect, p.effects[n.i + 1]) WHERE e.lane_seq IS NOT NULL`

// linesNow is the table of lines with what only events tell of them.
const linesNow = `(SELECT l.fence, l.entity, l.clock, l.kind, l.version_text, l.filtered, l.parked, l.skipped, coalesce(e.epoch, l.epoch) AS epoch,
    coalesce(e.value, l.value) AS value, coalesce(e.sub, l.sub) AS sub, coalesce(e.event_key, l.event_key) AS event_key
  FROM version_lines l JOIN progress p ON p.fence = l.fence LEFT JOIN LATERAL (
    SELECT epoch, value, sub, event_key FROM events WHERE fence = l.fence AND entity = l.entity AND clock = l.clock AND lane_window IS NULL
      AND lane_seq >= p.dirty_lines_from AND lane_seq >= l.as_of AND decision = 'applied' AND reason = 'next' AND version_text = '' ORDER BY lane_seq DESC LIMIT 1) e ON true)`

func (w *world) view() []string {
	w.t.Helper()
	rows, err := w.eye.Query(w.t.Context(), viewOf, w.subscription)
	if err != nil {
		w.fatalf("view: %v", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.fatalf("view: %v", err)
	}
	slices.Sort(lines)
	return lines
}

func (m *modelLedger) view() (lines []string) {
	add := func(parts ...any) {
		line := strings.TrimSuffix(fmt.Sprintln(slices.DeleteFunc(parts, func(p any) bool { return p == "" })...), "\n")
		lines = append(lines, line)
	}
	for _, e := range m.events {
		lane := ""
		if e.lane > 0 {
			lane = fmt.Sprint(e.lane)
		}
		v := e.version
		add(e.part, "event", e.ID, "at", e.Offset, "in", e.window, fmt.Sprintf("%s/%s", e.decision, e.reason), v.Kind, v.Epoch, v.Value, v.Text, v.Sub,
			e.Entity, "lanes", lane, "+", e.actions, "again", e.duplicates)
	}
	for _, p := range m.parts {
		if !p.claimed {
			continue
		}
		released, processed := "", ""
		if p.released {
			released = "released"
		}
		if !p.processed.IsZero() {
			processed = fmt.Sprint(p.processed.UnixMicro())
		}
		add(p.number, "fence epoch", p.epoch, released)
		add(p.number, "progress", p.next, "high", p.high, "lane", p.lane, processed)
		for i, s := range p.seeks {
			add(p.number, "seek", i+1, s.From, s.To)
		}
		for offset, a := range p.rejected {
			add(p.number, "aside", offset, "in", a.window, fmt.Sprintf("%s/%s", a.decision, a.reason), a.id)
		}
		for k, l := range p.state.Lines {
			skipped := ""
			if len(l.Skipped) > 0 {
				skipped = spansText(l.Skipped)
			}
			add(p.number, "line", string(k.Entity)+"|"+k.Clock, l.At.Kind, l.At.Epoch, l.At.Value, l.At.Text, l.At.Sub, uuidText(l.Key), boolText(l.Filtered), string(l.Parked), skipped)
		}
		for offset, w := range p.waits {
			add(p.number, "waits", offset, "in", w.window, uuidText(w.Key), w.Version.Epoch, w.Version.Value, w.Version.Text, w.Decision, string(w.Stage),
				boolText(w.Filtered), w.packed)
		}
		for id, c := range p.commands {
			add(p.number, "command", id, c.kind, c.offset)
		}
		for k, a := range p.attempts {
			add(p.number, "attempt", k.lane, k.attempt, "in", a.window, a.status)
		}
		for lane, a := range p.actions {
			class := ""
			switch {
			case a.status == Done:
			case a.lost:
				class = "payload_lost"
			case a.gap:
				class = DeadClass
			}
			add(p.number, "action", lane, m.events[a.key].ID, a.effect.Name, a.effect.Destination, a.effect.OnDead, a.status, "attempts", a.attempts, class, "copy", a.packed)
		}
	}
	slices.Sort(lines)
	return lines
}

func uuidText(k [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", k[:4], k[4:6], k[6:8], k[8:10], k[10:])
}

func boolText(b bool) string { return map[bool]string{true: "t", false: "f"}[b] }

// tables is every row of the schema, by table: what a zombie must leave as it is.
func (w *world) tables() map[string][]string {
	w.t.Helper()
	all := map[string][]string{}
	rows, err := w.eye.Query(w.t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`, w.cfg.Schema)
	if err != nil {
		w.fatalf("%v", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.fatalf("%v", err)
	}
	for _, table := range names {
		rows, err := w.eye.Query(w.t.Context(), `SELECT tableoid::regclass::text || ' ' || t::text FROM `+table+` t ORDER BY 1`)
		if err == nil {
			all[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			w.fatalf("read %s: %v", table, err)
		}
	}
	return all
}

// same reports what differs between two readings of all tables.
func same(a, b map[string][]string) (difference string) {
	for _, table := range slices.Sorted(maps.Keys(a)) {
		if !slices.Equal(a[table], b[table]) {
			difference += fmt.Sprintf("%s:\n%s\n", table, diff(a[table], b[table]))
		}
	}
	return difference
}

// diff lists what only one of two sorted lists has.
func diff(want, got []string) string {
	var out []string
	for _, l := range want {
		if _, ok := slices.BinarySearch(got, l); !ok {
			out = append(out, "-"+l)
		}
	}
	for _, l := range got {
		if _, ok := slices.BinarySearch(want, l); !ok {
			out = append(out, "+"+l)
		}
	}
	if len(out) == 0 && len(want) != len(got) {
		out = append(out, fmt.Sprintf("%d lines, want %d", len(got), len(want)))
	}
	return strings.Join(out[:min(len(out), 40)], "\n")
}
