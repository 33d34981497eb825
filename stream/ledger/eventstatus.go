package ledger

// What operators read as the status of an event, in SQL: the inbox lists it, and a replay can be narrowed to it.

// EventStatus is the status of an event e, given that of its actions in a.status: NULL if it has none. An event behind a dead or unknown head
// of its lane is parked if nothing of it was tried. No column says so: only the head has a row that tells that its lane stands still.
const EventStatus = `coalesce(CASE WHEN a.status IN ('received', 'processing') AND EXISTS (
               SELECT FROM {actions} h JOIN effects x ON x.id = h.effect
               JOIN {events} he ON he.window_id = h.event_window AND he.event_key = h.event_key
               WHERE h.fence = e.fence AND h.open AND h.lane_seq < e.lane_seq AND he.entity = e.entity
                 AND (h.status = 'unknown' OR h.status = 'dead_letter' AND (h.guarded OR x.on_dead = 'park' AND h.class IS DISTINCT FROM '` + DeadClass + `'))
           ) THEN 'parked' ELSE a.status END, CASE WHEN e.decision IN ('applied', 'late') THEN 'done' ELSE e.decision END)`

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
