// Package inbox is what operators read of a ledger and ask of it:
//
//	events.go         the list of events, in pages; select.go has its SQL
//	scope.go          which windows a list is read from
//	item.go           one event: its actions, their attempts, its bytes
//	deadletters.go    dead letters, by filter, by group and one by one; behind.go counts what waits behind them
//	attention.go      what waits for an operator, of all kinds
//	names.go          which names there are, and which begin with a text
//	subscriptions.go  where each partition of each subscription stands
//	commands.go       what the owner of a partition is asked to do
//	redrive.go        a quarantined record is produced again
//
// What destinations report later of long work is stored by package [github.com/forebay-io/forebay/stream/inbox/reports].
//
// Nothing in here runs on the way of an event: neither a partition's owner nor its lanes call it. A command is a row that the
// owner finds and applies under its fence.
//
// # Pools
//
// Lists, counts and the transaction of a redrive, which waits for the broker, run on a pool of 2 connections, where a statement may
// take 25 s; probes by key and commands on another one of 2, 5 s, which has the console's sessions, too. Reports of destinations have a
// third one, with the short questions that what runs asks: however much people look at, it holds up no result and no heartbeat. All
// are beside those of postgres.connections: no question holds up a batch. The ledger makes the pools: it knows the deadlines, and gives
// up connections that hang in all its pools at once.
//
// # What stays in the ledger
//
// The acceptance of a stop (it writes rows that claims lock), pauses of destinations (lanes read them), the hand-over of a subscription
// to another topic (it moves version lines), and the dead letters that an owner exports to the dead topic.
package inbox
