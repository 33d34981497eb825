// Package inbox is what people read of a ledger and ask of it: what became of events, dead letters and what stands behind
// them, where subscriptions stand, and commands to the owners of partitions; and what destinations say later of long work.
// Nothing in here runs on the way of an event: a partition's owner and its lanes never call it, and it never changes what they
// decide by. What is asked is a row (commands, results) that the owner finds and obeys under its fence.
//
// # Pools
//
// It has no connections of its own: it asks on two of the ledger's pools, which are there for this and bounded apart from
// those of the hot path (see package ledger). read has 2 connections for lists and counts, which may take 25 s; quick has 4 for
// probes by key that somebody waits for. The ledger makes them, because it alone knows the deadlines, what to do with a
// connection that hangs, and when all is closed; a pool more would be connections beside postgres.max_conns that nobody was
// told of.
//
// # What stays in the ledger
//
// The acceptance of a stop (it writes what claims lock), pauses of destinations (lanes read them), what hands a subscription
// over to another topic (it moves lines), and the dead letters that an owner exports to the dead topic.
package inbox
