package ledger

// What operators read as the status of an event, in SQL: the inbox lists it, and a replay can be narrowed to it.

// EventStatus is the status of an event e, given that of its actions in a.status: NULL if it has none. An event behind a dead or unknown head
// of its lane is parked if nothing of it was tried. No column says so: only the head has a row that tells that its lane stands still.
const EventStatus = `coalesce(CASE WHEN a.status IN ('received', 'processing') THEN
               CASE WHEN (` + parkedLanes + ` ->> (e.fence || ' ' || e.entity))::bigint < e.lane_seq THEN 'parked' ELSE a.status END -- AND would ask where there is no status, too
           ELSE a.status END, CASE WHEN e.decision IN ('applied', 'late') THEN 'done' ELSE e.decision END)`

// parkedLanes are the heads of parked lanes, as an object of lane_seqs by fence and entity. No index finds them by entity, and asked for each
// event of a page they were looked for in all events each time. It rests on nothing of the event, so a statement makes it once, when the first
// event asks: of each dead letter the row and one probe for its entity.
const parkedLanes = `(SELECT jsonb_object_agg(p.fence || ' ' || p.entity, p.lane_seq) FROM (` + ParkedHeads + `) p)`

// ParkedHeads gives the fence, entity and lane_seq of the head of each parked lane.
const ParkedHeads = `SELECT a.fence, ae.entity, min(a.lane_seq) AS lane_seq FROM {actions} a JOIN effects x ON x.id = a.effect
               CROSS JOIN LATERAL (SELECT entity FROM {events} v WHERE v.window_id = a.event_window AND v.event_key = a.event_key OFFSET 0) ae
               WHERE a.status IN ('dead_letter', 'unknown') AND ` + ParksLane + `
               GROUP BY 1, 2`

// ActionsStatus is the status of an event by its actions, an aggregate over [ActionStates]; NULL if it has none.
const ActionsStatus = `CASE WHEN count(*) = 0 THEN NULL WHEN bool_or(x.status = 'parked') THEN 'parked' WHEN bool_or(x.status = 'unknown') THEN 'unknown'
                    WHEN bool_or(x.status = 'dead_letter') THEN 'dead_letter' WHEN bool_or(x.status = 'waiting_approval') THEN 'waiting_approval'
                    WHEN bool_or(x.status = 'waiting_budget') THEN 'waiting_budget' WHEN bool_or(x.status = 'failed') THEN 'failed'
                    WHEN bool_or(x.status = 'processing') THEN 'processing'
                    WHEN bool_and(coalesce(x.status = 'superseded', c.superseded, false)) THEN 'superseded'
                    WHEN bool_and(coalesce(NOT x.open, c.at IS NOT NULL)) THEN CASE WHEN bool_or(x.status = 'discarded') THEN 'discarded'
                         WHEN bool_or(x.status = 'stale') THEN 'stale' WHEN bool_or(x.status = 'denied') THEN 'denied'
                         WHEN bool_or(x.status = 'dropped') THEN 'dropped' WHEN bool_and(coalesce(x.status = 'skipped', false)) THEN 'skipped' ELSE 'done' END
                    WHEN bool_or(coalesce(NOT x.open, c.at IS NOT NULL)) THEN 'processing'
                    ELSE 'received' END`

// RejectedStatus is the status of a rejected record d.
const RejectedStatus = `CASE WHEN d.redriven_at IS NULL THEN d.decision WHEN d.discarded THEN 'discarded' ELSE 'redriven' END`
