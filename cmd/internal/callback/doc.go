// Package callback is the listener for destinations that finish their actions later, and for senders that ask what became of
// their events:
//
//	POST /v1/actions/{id}/result        the result of an attempt
//	POST /v1/actions/{id}/heartbeat     the attempt is still at work
//	GET  /v1/actions/{id}               where the action stands
//	GET  /v1/events/{team}/{source}/{id}  what became of an event: the status_url of the intake
//
// Each request needs a token that opens exactly what it was made for; see [Keys]. A token is an HMAC of one of agents.secrets over
// what it opens: one attempt of one action, or the status of one event. It is made when it is needed and stored nowhere. A wrong token
// is answered 401, whether what the request is about exists or not.
//
// A result is a report: a row in the ledger, written by the process that gets the request and applied by the partition's owner. It is
// answered 202 once the row is durable. The same result again is answered 200, another one 409, and the first stands. A report that was
// answered 202 may still turn out to be late, if the next attempt succeeds before it is applied: GET shows that.
//
// Where the result is not wanted any more, because the entity has a newer version and the action says on_newer: cancel, the answers about the
// attempt have the header X-Forebay-Cancel: newer.
//
// The stream role serves the listener. The intake makes status_urls without the ledger. A request for one that comes to the intake is
// answered 421, with where to ask.
package callback
