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
//	canceler       tells destinations of what they have taken that it is not wanted any more
//	commands       applies what operators ask for an action
//	scheduler      takes mu for one step of the queues
//	queues         the steps: what the head of a lane does next
//	judge          the result to record for an attempt, a report or silence
//	partition      the lanes of a claim and the window of their actions that is loaded
//	dispatcher     the ready lanes of every destination, and the workers that wait for one
//	spillList      lanes that left everything to the ledger until their heads may run
//	timers         heads that wait for a moment
//	longWork      heads that destinations have accepted and report on later
//	completions    results that are not recorded yet
//	budget         payload bytes in memory
//
// One mutex, scheduler.mu, guards the types from queues down the list: a step moves a head from one of them to another, and
// nobody may see half a step. Callers of their methods hold mu. The types above queues take mu themselves. While mu is held,
// the only lock taken is a destination's own ([github.com/forebay-io/forebay/stream/destination]), which calls nothing back.
// All other state is constant or belongs to one goroutine; [liveness] is atomic. No goroutine and no timer belongs to a lane.
//
// Memory is bounded by a window. A partition holds at most [Config.MaxOpen] actions and a lane at most
// [Config.LaneWindow]; what does not fit is remembered by its lane_seq alone and read back, in order, from the ledger:
//
//	loadedTo   of the partition: every action up to this one was loaded, or its lane left it in the ledger
//	tail       of a lane: all the entity's actions up to this one were loaded
//	skippedTo  of a lane, when above tail: it left actions in the ledger, the last of them this one
//
// A parked lane (its head is dead with on_dead: park, or unknown) keeps no action in memory, only the place where it is parked,
// so that its backlog takes nothing from the window of the other lanes. While the window is full, a lane whose head waits for
// its next attempt, or for a destination that takes none, is spilled: it keeps no action in memory either until its head may run.
// As parked and spilled lanes are many, memory has a digest of their entity and a few numbers.
package lane
