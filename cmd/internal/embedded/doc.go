// Package embedded runs what forebay dev needs and a file leaves out: a Kafka-compatible broker inside the process and
// a PostgreSQL beside it, both on loopback, both on disk under one directory.
//
// Each keeps its port, so that clients reconnect after a restart, and holds a lock on its directory, so that a second
// process is told who is there instead of writing into the same files. Both survive kill -9 of the process: the broker
// syncs every write before it answers, and a PostgreSQL left behind by a dead process is found and stopped at the
// next start; one that is temporary ends with the process, however that ends. Nothing is bought with durability: fsync and synchronous_commit are on.
package embedded
