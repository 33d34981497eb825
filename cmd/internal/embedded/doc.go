// Package embedded runs what forebay dev needs and a file leaves out: a Kafka-compatible broker inside the process and
// a PostgreSQL beside it, both on loopback, both on disk under one directory.
//
// Each keeps its port, so that clients reconnect after a restart. Each holds a lock on its directory: a second process gets an error
// that says who works there. The data of both survive kill -9 of the process: the broker syncs every write before it answers, and
// PostgreSQL runs with fsync and synchronous_commit. A PostgreSQL that a dead process has left running is stopped at the next start; a
// temporary one ends with the process, however that ends.
package embedded
