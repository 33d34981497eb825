// Package pg is how the ledger speaks to Postgres, and knows nothing of what it says: no fence, event or window.
//
//	Server      the pools on one server: a hung connection in one of them is a warning for all (server.go)
//	Deadlines   what ends what when the server, or we, go away without a word (deadlines.go)
//	Pool, Tx    pgx's, each question and transaction with a deadline (pool.go)
//	Pipeline    prepared statements, many in one round trip (pipeline.go, statement.go)
//	Array, Row  parameters that are arrays, and results, in Postgres' binary format (array.go, row.go)
//	Trouble     what an error means for a transaction (errors.go)
package pg
