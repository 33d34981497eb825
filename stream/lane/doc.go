// Package lane runs the actions of claimed partitions: a lane is the queue of one entity's actions inside a
// subscription, and only its head runs.
//
//	Add, Open ─▶ lane (per entity) ─▶ ready (per destination) ─▶ worker: one attempt ─▶ completer: Record in groups
//	               ▲      ▲                                                                  │
//	               │      └── timers: one heap for every retry ◀── failed ───────────────────┤
//	               └── the next head, only now that the completion is committed ◀── done ────┘
//
// Memory is bounded by a window. A partition holds at most [Config.MaxOpen] actions and a lane at most
// [Config.LaneWindow]; what does not fit is remembered by its lane_seq alone and read back, in order, from the ledger:
//
//	loadedTo   the partition's cursor: everything at or below it was taken or skipped for its lane
//	tail       a lane's cursor: everything of the entity at or below it was taken
//	skippedTo  above tail: the lane left actions in the ledger, up to this one
//
// A lane that stands still (dead head with on_dead: park, unknown outcome) keeps no action at all, only where it stands, so
// its backlog takes nothing from the window of the others. Where the window is full, nor does one whose head waits for its
// next attempt, or for a destination that takes none: it rests until its time comes.
//
// Every piece of state is guarded by one mutex; no goroutine and no timer belongs to a lane.
//
// # Dead letters
//
// With on_dead: park a dead head, and with every policy a head of unknown outcome, keeps its lane standing behind it. Commands
// about actions (`dlq replay`, `discard`, `resolve`) come by Obey and wait while an attempt of the action is under way.
//
//	replay   opens the action again with all attempts of its retry policy; its lane is read again from there, the head
//	         first, then what stands behind it. Of an unknown outcome it needs the operator's --outcome-unknown
//	discard  ends it as discarded; the lane goes on
//	resolve  ends it as done: somebody has looked, or did it by hand
//
// An action that runs out of order (after on_dead: continue, or dead with a gap) first asks the ledger whether the same
// action of a newer version of its entity, on the same clock, has been started (P4). A snapshot then ends as stale, a delta
// runs marked late; --force runs both as they are. Kind none and order: arrival know no newer version. Where the ledger cannot
// tell within 5 s, the action is dead once more, as order_unknown, and its entity goes on.
//
// # Long work
//
// A destination with long work may answer 202 and say later what came of it. Its lane then keeps its head and nothing else:
// no worker, no slot, no place in the window, no payload. Results are rows that whichever process took them has written; the
// owner looks for them twice a second, applies them in the transaction that records the action's end, and reads them before
// anything runs when it claims.
//
// A result counts as long as its action has not ended and no later attempt is recorded. So one after the deadline counts until
// the next attempt's end or 202 is recorded, and so does one of an attempt that nobody recorded, or of an action whose outcome
// is unknown. done counts also when later attempts have failed: what is done is not called again. Anything else is kept as
// late and changes nothing.
//
// A result that says failed is retried by the destination's policy like any unavailable one, also of unsafe sinks: who says
// so knows. The deadline and a missed heartbeat are a timeout: retried, or unknown where the sink is unsafe. All times are the
// ledger's own. A new owner waits for what is left of the deadline, 30 s at least, and for one whole silence, since nobody may
// have been there to be told.
package lane
