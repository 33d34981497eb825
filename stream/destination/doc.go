// Package destination holds what all lanes of a process share of a configured destination: how many attempts may be
// under way, how often one may begin, and whether any may begin at all.
//
//	closed ──none got through──▶ open ──its wait is over──▶ half_open ──one gets through──▶ recovering ──▶ closed
//	  │                           ▲ ▲                           │                            ▲  │   ▲
//	  │                           │ └──── all probes fail ──────┘                            │  │   └── a hold or a pause is over
//	  │                           └──────────────── none got through ────────────────────────┼──┘
//	  └──────────────────────────── fewer than half got through ─────────────────────────────┘
//
// An attempt begins only where [User.Take] says so, and [User.StillAllowed] right before the call. Where Take says [Wait], the
// user is called once its turn has come: teams take turns, within a team its subscriptions, and whatever a subscription has
// takes turns there. Waiting uses up nothing: a destination that is open, on hold, paused, out of tokens or busy costs no attempt.
//
// No goroutine belongs to a destination but one while it asks for tokens, and at most one timer. All methods are safe for concurrent use; none waits.
//
// For the breaker, failures are those of class unavailable, timeout, network, dns and throttled; denied and forbidden count for the
// automatic pause, too. A refusal is an answer: it got through. After an open breaker, a hold or a pause, a destination begins with
// one attempt at a time and comes back to all of them within Recovery; after a hold also from half of the pace that it had. What the
// breaker does is told at its type. Whatever it does, the floor's attempts begin; in a hold or a pause none does.
//
// A pause, an operator's or an automatic one, is a row that every process looks for each second and before its first attempt.
// The ledger also keeps since when nothing gets through, from the first minute on, so that the three days of an automatic pause
// outlive processes, and since when a breaker is open, so that an outage uses up nothing, whoever is restarted in it. Where the ledger
// does not take a pause, it holds in this process until it does. A rate is that of all processes of a ledger: [Tokens] are taken ahead, a few
// times a second. While the ledger does not answer, a process begins as many attempts as the rate divided by the processes that were known
// last. Breaker and holds are otherwise each process's own.
package destination
