// Package callback is the listener for destinations that finish their actions later, and for senders that ask what became of
// their events:
//
//	POST /v1/actions/{id}/result        the result of an attempt
//	POST /v1/actions/{id}/heartbeat     the attempt is still at work
//	GET  /v1/actions/{id}               where the action stands
//	GET  /v1/events/{team}/{source}/{id}  what became of an event: the status_url of the intake
//
// Each question needs a token that opens exactly what it was made for; see [Keys]. What is said here is a row in the ledger, by
// whichever process took it; the partition's owner applies it.
//
// A token is an HMAC of the callback secrets over what it opens: one attempt of one action, or the status of one event. It is
// made when it is needed and stored nowhere. 401 is the same for a wrong token and for what there is not. 202 to a result means
// that it is durable; the same result again is 200; another one is 409, and the first stands. A result that is answered 202 may
// still turn out to be late, where the next attempt succeeds meanwhile: GET tells.
//
// The stream role serves it. The intake makes status_urls without the ledger, and answers questions to one with 421 and where
// to ask.
package callback
