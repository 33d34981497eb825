// Package ledgertest is a ledger in memory. It passes the conformance suite of package ledger, which plays random histories on it
// and on Postgres, too, and compares what both tell after every step.
//
// A [Memory] is one subscription's state; [Memory.Process] gives a process its handle on it, which does what a
// *ledger.Namespace does. Time is that of package time, so that it runs inside a testing/synctest bubble: it waits on channels
// and timers only. Decisions are the real gate's.
//
// What it leaves out: dedupe windows never turn, so that nothing is ever forgotten and Standing.Remembers is zero; and Commit executes
// nothing, because there is no database: every statement succeeds.
package ledgertest
