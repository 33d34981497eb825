// Package api is the operator listener: health, readiness, metrics, and the questions that the command line and later
// the console ask about what runs. It has no authentication yet, so it answers on loopback only and refuses what a
// browser could be tricked into asking.
//
//	GET /livez /readyz /metrics
//	GET /v1/inbox?team=&subscription=&source=&entity=&type=&status=&decision=&since=&limit=&cursor=
//	GET /v1/inbox/{team}/{subscription}/{source}/{event_id}        and /raw behind it: the body, byte for byte
//	POST /v1/inbox/{team}/{subscription}/{source}/{event_id}/redrive   {"reason", "by", "discard", "again", "no_wait", "dry_run"}
//	GET /v1/quarantine?team=&source=&limit=
//	GET /v1/quarantine/{team}/{source}/{partition}/{offset}/raw
//	POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive   {"reason", "by", "dry_run"}
//	GET /v1/sources, GET /v1/subscriptions
//	GET /v1/subscriptions/{team}/{subscription}                    with what is stopped, in whichever process
//	POST /v1/subscriptions/{team}/{subscription}/accept            {"topic", "partition", "stop", "reason", "by", "dry_run"}
//
// A rejected record without an id is named by its place: the topic as source, PARTITION@OFFSET as event id.
//
// Lists are {"items": [...], "next": "<cursor>"}; errors are RFC 9457 problems.
package api
