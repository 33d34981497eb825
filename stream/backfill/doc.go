// Package backfill asks a provider's API for what its webhooks did not bring.
//
// Two things are asked for in the same way, by a URL template and a [Fetcher] that keeps the source's rate, retries and
// never shows a secret:
//
//	a gap    Store ─Next─▶ Runner ─GET─▶ answer ─split─▶ elements ─Name─▶ synthetic events ─Append─▶ the source's topic
//	                          └────────────────────────Done(outcome)──▶ Store
//	a body   lane ─Enrich─▶ Thin ─GET─▶ document, in place of the body of an event that carries only an id
//
// A synthetic event goes the way of every other: through the log, the gate and the lanes. So nothing here writes to the
// ledger, nothing is fetched inside a batch's transaction, and an answer that is fetched twice (after a crash, for two
// subscriptions) is dropped as a duplicate, because its events have stable ids.
//
// Elements that are of no use are counted here and do not reach the log: those of another version line, outside the range that is
// missing, or without a version that can be read. A request that was not filled ends with a [Reason]; what then happens to the gap
// is the gate's policy, once the gap's time is up.
package backfill
