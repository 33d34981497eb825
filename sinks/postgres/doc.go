// Package postgressink executes a statement for each action. The statement is written in the configuration; what comes
// from an event is a parameter of it ($1, $2, ...) and never part of its text. Parameters go as text and get the types
// that the statement makes of them; null is NULL, lists and objects are JSON.
//
// There are two kinds:
//
//	NewInLedger in the ledger's own database: the statement runs in the ledger's transaction that records that the action
//	            is done, under the fence. It takes effect once; no other owner's can. Kind fenced.
//	New         in a database of its own: the action's id is inserted into a table of keys in the transaction of the
//	            statement. An attempt that finds its key there does nothing and is done. Kind idempotent.
//
// The table of keys is made when the first action finds it missing, as if by [DDL]; a role that may not create it says so.
// Keys are forgotten after a while, 90 days unless configured: an action that is attempted again after that runs again. So
// they have to outlive retries and dead letters, which `config check` sees to. What parks its entity is kept for as long as
// that lasts: whoever replays it after longer than the keys are kept looks first what the statement has done.
//
// Either way a COMMIT whose answer was lost is harmless: the next attempt waits until that transaction has ended and
// sees what became of it.
//
// What an error means, by its SQLSTATE:
//
//	21, 22, 23, 27, 44, 54, P0     the data or a rule of the database's own: dead at once
//	28, 42501                      not let in, no permission: dead at once, alerted
//	57014                          canceled, mostly as too slow: retried
//	08, and lost connections       retried
//	anything else                  retried: deadlocks, locks, a full or stopping server, a table that is not there yet
package postgressink
