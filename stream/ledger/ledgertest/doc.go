// Package ledgertest is the ledger's conformance suite, and a ledger in memory that passes it.
//
// [Run] states every property of claim, apply, record, open and expire that the packages above rest on, once. It runs
// against the real [ledger.Namespace] on Postgres and against [Memory]: what one refuses, the other refuses. Beside it
// [Compare] plays random histories on two ledgers at once and compares what they tell after every step.
//
// A [Memory] is one subscription's state; [Memory.Process] gives a process its handle on it, which does what a
// *ledger.Namespace does. Time is that of package time, so that it runs inside a testing/synctest bubble: it waits on channels
// and timers only. Decisions are the real gate's.
//
// What it leaves out: dedupe windows never turn, so that nothing is ever forgotten and Standing.Remembers is zero; there is no
// Commit, because there is no database that a statement could be executed in; and what destinations say later (long work) has
// no place in it.
package ledgertest
