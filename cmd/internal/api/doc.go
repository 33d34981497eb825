// Package api is the operator listener: health, readiness, metrics, and the questions that the command line and later
// the console ask about what runs. With [Access] it answers to those who have a token, each what its role, its right to payloads and its teams
// allow ([server.routes] has the rights); without, it answers on loopback only. It refuses what a browser could be tricked into asking.
//
// openapi.yaml describes what it takes and answers, and is served at /v1/openapi.yaml; [server.routes] has the paths. A test holds the two to
// one another, and every request and answer of this package's tests to the description.
//
// Lists are {"items": [...], "next": "<cursor>"}; errors are RFC 9457 problems. A part of this package is the server side of
// one kind of question, and beside it the method of [Client] that asks it.
package api
