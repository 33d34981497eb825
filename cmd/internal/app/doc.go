// Package app wires a process: the only package that sees ingest, stream, sinks and the configuration at once.
//
//	           ┌ intake    listener ─▶ ingest.Handler ─▶ log
//	App ── Run ┤ stream    per subscription: ledger.Namespace + lane.Lanes + stream.Subscription
//	           └ operator  /livez /readyz /metrics and the API
//
// Run starts the parts of the process's roles and stops them in reverse within one bounded drain budget: readiness off,
// stop accepting, finish requests, flush the producer, drain lanes, mirror offsets, leave groups, close pools. A part
// that fails stops the process, visibly. What is merely away (brokers, Postgres) is waited for with readiness off.
package app
