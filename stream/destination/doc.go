// Package destination holds what all lanes of a process share of a configured destination: how many attempts may be
// under way, how often one may begin, and whether any may begin at all.
//
//	closed ──failures in a row──▶ open ──its wait is over──▶ half_open ──an answer──▶ recovering ──▶ closed
//	                               ▲                             │                     │   ▲
//	                               ├──── the attempt fails ──────┘                     │   └── a hold or a pause is over
//	                               └──────────────── failures in a row ────────────────┘
//
// An attempt begins only where [User.Take] says so, and [User.Stands] right before the call. Where Take says [Wait], the
// user is called once its turn has come: teams take turns, within a team its subscriptions, and whatever a subscription has
// takes turns there. Waiting uses up nothing: a destination that is open, held, paused, out of tokens or busy costs no attempt.
//
// No goroutine belongs to a destination, and at most one timer. All methods are safe for concurrent use; none waits.
package destination
