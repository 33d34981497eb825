// Package kafkasink publishes events to a topic of a team's own, in the cluster that holds Forebay's log.
//
//	key                 as params.key says; the entity where it says nothing, so that order per entity is kept
//	value               the provider's body, byte for byte
//	ce_*, content-type  the event in CloudEvents binary mode, as in the topic it came from; ce_partitionkey is the key
//	__value_schema_id   under what the schema registry has the schema of the body, where the record that the event came in has it
//	x-agent-call-chain, x-agent-call-depth, x-agent-trace-id   which agents led to it, the subscription last
//	traceparent         a child of the event's trace for this hop; ce_traceparent is the event's own
//	forebay-action-id   the action's id, the same on every attempt
//	forebay-late        true where newer versions have run already; else absent
//
// The producer is idempotent and waits for all in-sync replicas: what the client itself sends again within an attempt
// lands once. A further attempt is a record of its own. So where an acknowledgement was lost the topic can hold an action
// twice, with one forebay-action-id, and it is the consumers that act once: the sink is idempotent in the sense that they
// are given the key to drop the second by, as an HTTP destination is. For consumers that do not look, declare
// idempotent: false; an attempt whose outcome is unknown is then left to an operator instead of made again.
//
// A record that waits for a broker when its attempt's time is up is given up with it, unless a broker may have it
// already: that one can still land, behind the records that the client has sent before it and before those that follow.
//
// Forebay's own topics (events., quarantine., dead.) are refused: what is written there comes back as a new event. Which of
// the others a team may name is the configuration's to say: <team>.*, and what kafka.publish lists.
package kafkasink
