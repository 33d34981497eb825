// Package deadletter copies dead letters to a subscription's dead topic: [Record] is one as the topic has it, [Exporter] brings
// those of the claimed partitions there.
package deadletter
