// Package mcpsink calls a tool of an MCP server over streamable HTTP for each action.
//
//	params.tool          the tool
//	params.arguments     its arguments
//	_meta                forebay/action_id: the idempotency key, the same on every attempt; forebay/attempt; traceparent
//	Idempotency-Key      the key once more, as a header of the call, for gateways
//
// The _meta of a result may have forebay/cost: what the call has cost, for budgets, as 0.25 or "0.25".
//
// An attempt is a session of its own: the client asks what the server speaks (server/discover, or initialize where the
// server is older than protocol 2026-07-28), calls the tool once, and ends the session if there is one. Nothing else of
// the server is used: no listening stream, no reconnecting to an answer that broke off, no redirects.
//
// The declared kind is idempotent, as for an HTTP destination: the key goes with every attempt, and it is the tool that
// acts once per key. For a tool that does not look at it declare idempotent: false; an attempt of which nobody knows
// whether the tool has acted is then left to an operator.
//
// What an end means:
//
//	a result                            done
//	a result with isError               as tool_errors says: dead (default), or retry
//	errors -32700, -32600 to -32602     dead: no such tool, arguments that it does not take
//	any other JSON-RPC error            retried
//	input_required                      dead: nobody is there to answer; as a server's way to say busy, retried
//	a lost session, in whatever form    retried in a new one: the server has not looked at the request
//	any other HTTP status               as the failure table says
//	a connection, an answer in part     retried
//
// A result of more than 64 KiB is read, up to 8 MiB of the answer, until it is known whether it has isError or asks for input. If that stays
// unknown, it is an answer in part.
//
// Whatever fails before the call itself has surely not acted.
package mcpsink
