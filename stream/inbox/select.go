package inbox

import (
	"slices"
	"strings"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// selectAll reads one row per event and one per rejected record. The actions of a row are probes of its window.
var selectAll = selectHead + selectEvents + selectUnion + selectRejected + selectTail

// The tables that selectAll begins at.
const (
	fromEvents   = `{events} e JOIN fences f`
	fromRejected = `{rejected_records} d JOIN fences f`
)

const (
	selectHead = `-- inbox
SELECT subscription, generation, source, event_id, type, entity, kind, clock, epoch, value, version_text, sub, status, decision, reason,
       duplicates, attempts, next_at, last_error, topic, topic_id, partition, log_offset, leader_epoch, event_key, hash, replay,
       owner, received_at, decided_at, redriven_at, redriven_by, redriven_reason, fence, window_id, lane_seq, actions
FROM (`
	selectUnion = `
    UNION ALL`
	// onceEach before selectTail has the status of an event looked up once, not for the list and for the condition on it.
	onceEach   = "\n    OFFSET 0"
	selectTail = `
) i`
)

var selectEvents = `
    SELECT s.name AS subscription, coalesce(e.replay, s.generation) AS generation, e.source, e.event_id, e.type, e.entity, e.kind, e.clock, e.epoch, e.value, e.version_text, e.sub,
           ` + ledger.EventStatus + ` AS status,
           e.decision, e.reason, e.duplicates, coalesce(a.attempts, 0) AS attempts,
           coalesce(a.next_at, b.deadline) AS next_at, coalesce(a.last_error, '') AS last_error,
           f.topic, ` + ledger.TopicAtLaneSeq("e.lane_seq") + `, f.partition, e.log_offset, e.leader_epoch, e.event_key, e.hash, e.replay, f.owner, e.received_at,
           e.decided_at, NULL::timestamptz AS redriven_at, NULL::text AS redriven_by, NULL::text AS redriven_reason,
           e.fence, e.window_id, e.lane_seq, e.actions::int AS actions
    FROM ` + fromEvents + ` ON f.id = e.fence JOIN subscriptions s ON s.id = f.subscription
    LEFT JOIN buffer b ON b.fence = e.fence AND b.log_offset = e.log_offset AND e.decision IN ('buffered', 'parked')
    LEFT JOIN LATERAL (
        SELECT ` + ledger.ActionsStatus + ` AS status,
               sum(coalesce(x.attempts, (NOT c.superseded)::int, 0))::int AS attempts, min(coalesce(x.next_at, x.result_by)) AS next_at,
               (array_agg(x.error ORDER BY x.lane_seq DESC) FILTER (WHERE x.error IS NOT NULL))[1] AS last_error
        FROM ` + ledger.ActionStates + `
    ) a ON e.lane_seq IS NOT NULL`

const selectRejected = `
    SELECT s.name AS subscription, s.generation, d.source, d.event_id, d.type, d.entity, d.kind, d.clock, d.epoch, d.value, d.version_text, d.sub,
           ` + ledger.RejectedStatus + ` AS status, d.decision, d.reason,
           0 AS duplicates, 0 AS attempts, NULL::timestamptz AS next_at, coalesce(d.error, '') AS last_error,
           f.topic, f.topic_id, f.partition, d.log_offset, d.leader_epoch, d.event_key, d.hash, NULL::int AS replay, f.owner, d.received_at,
           d.decided_at, d.redriven_at, d.redriven_by, d.redriven_reason, d.fence, d.window_id, NULL::bigint AS lane_seq, 0 AS actions
    FROM ` + fromRejected + ` ON f.id = d.fence JOIN subscriptions s ON s.id = f.subscription`

// page returns the part of from that one page of a slice of time has, given the conditions on it and the parameters of the slice: plan: per
// window the page ranges of the slice, sorted; what became of an event is looked up of those on the page alone. A status is known after that:
// where one is asked for, limit is empty, and all of the slice are looked up.
func (q Query) page(conditions, limit string) string {
	of := func(from string) string {
		table, rest, _ := strings.Cut(from, " ")
		return `(SELECT * FROM ` + table + ` r WHERE ` + conditions + limit + `) ` + rest
	}
	return strings.NewReplacer(fromEvents, of(fromEvents), fromRejected, of(fromRejected)).Replace(q.from())
}

// from returns selectAll without the parts that hold no event of the decision, or of the status, that is asked for.
func (q Query) from() string {
	switch {
	case q.Decision == gate.Quarantined || q.Decision == gate.Conflict || q.Decision == gate.Filtered,
		q.Decision == "" && slices.Contains([]string{"filtered", "conflict", "quarantined", "redriven"}, q.Status):
		return selectHead + selectRejected + selectTail
	case q.Decision != "" || q.Status == "duplicate":
		return selectHead + selectEvents + selectTail
	}
	return selectAll
}
