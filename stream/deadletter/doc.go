// Package deadletter exports dead letters to a subscription's dead topic: [Exporter] exports those of the claimed partitions, and
// [Record] makes the record of one.
package deadletter
