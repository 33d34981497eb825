// Package callback is the listener for destinations that finish their actions later, and for senders that ask what became of
// their events:
//
//	POST /v1/actions/{id}/result        what came of an attempt
//	POST /v1/actions/{id}/heartbeat     the attempt is still at work
//	GET  /v1/actions/{id}               where the action stands
//	GET  /v1/events/{team}/{source}/{id}  what became of an event: the status_url of the intake
//
// Each question needs a token that opens exactly what it was made for; see [Keys]. What is said here is a row in the ledger, by
// whichever process took it; the partition's owner applies it.
package callback
