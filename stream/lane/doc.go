// Package lane runs the actions of claimed partitions: a lane is the queue of one entity's actions inside a
// subscription, and only its head runs.
//
//	Add, Open ─▶ lane (per entity) ─▶ ready (per destination) ─▶ worker: one attempt ─▶ recorder: Record in groups
//	               ▲      ▲                                                                  │
//	               │      └── timers: one heap for every retry ◀── failed ───────────────────┤
//	               └── the next head, only now that its result is committed ◀── done ────────┘
//
// Calls go one way, down this list:
//
//	Lanes          the door: Open, Add, Close, Drop, ApplyCommand, Run
//	workers        bring a head to a result: load its payload, enrich it, call the sink
//	loader         reads what was left in the ledger as room appears, and spills lanes of full windows
//	recorder       writes results to the ledger in groups
//	reportReader   reads what destinations report later, and ends the wait for what they do not
//	commands       applies what operators ask for an action
//	scheduler      takes mu for one step of the queues
//	queues         the steps: what the head of a lane does next
//	judge          what is to be recorded of an attempt, a report or silence
//	partition      the lanes of a claim and the window of their actions that is loaded
//	dispatcher     the ready lanes of every destination, and the workers that wait for one
//	spillList      lanes that left everything to the ledger until their heads may run
//	timers         heads that wait for a moment
//	asyncWork      heads that destinations have accepted and report on later
//	completions    results that are not recorded yet
//	budget         payload bytes in memory
//
// One mutex, scheduler.mu, guards all from queues down: a head moves from one of them to another in one step, and a step must
// not be seen half done. Their methods are called with it held; those above take it, and call nothing of the outside with it
// held but a destination's own lock ([github.com/forebay-io/forebay/stream/destination]), which calls nothing back. What the
// others have is constant, or belongs to one goroutine; [liveness] is atomic. No goroutine and no timer belongs to a lane.
//
// Memory is bounded by a window. A partition holds at most [Config.MaxOpen] actions and a lane at most
// [Config.LaneWindow]; what does not fit is remembered by its lane_seq alone and read back, in order, from the ledger:
//
//	loadedTo   of the partition: everything up to here was loaded, or skipped for its lane
//	tail       of a lane: everything of the entity up to here was loaded
//	skippedTo  above tail: the lane left actions in the ledger, up to this one
//
// A parked lane (at a dead head with on_dead: park, or at an unknown one) keeps no action at all, only where it is parked, so
// that its backlog takes nothing from the window of the others. Where the window is full, nor does one whose head waits for its
// next attempt, or for a destination that takes none: it is spilled until its time comes.
package lane
