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
package lane
