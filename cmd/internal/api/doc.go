// Package api is the operator listener: health, readiness, metrics, and the questions that the command line and later
// the console ask about what runs. It has no authentication yet, so it answers on loopback only and refuses what a
// browser could be tricked into asking.
//
//	GET /livez /readyz /metrics
//	GET /v1/inbox?team=&subscription=&source=&entity=&type=&status=&decision=&delivery=&since=&limit=&cursor=
//	                    delivery: by the provider's id, from the log; a page without items but with a cursor has not searched all of it
//	GET /v1/inbox/{team}/{subscription}/{source}/{event_id}        and /raw behind it: the body, byte for byte
//	POST /v1/inbox/{team}/{subscription}/{source}/{event_id}/redrive   {"reason", "by", "discard", "again", "no_wait", "dry_run"}
//	GET /v1/quarantine?team=&source=&limit=
//	GET /v1/quarantine/{team}/{source}/{partition}/{offset}/raw
//	POST /v1/quarantine/{team}/{source}/{partition}/{offset}/redrive   {"reason", "by", "dry_run"}
//	GET /v1/dlq?team=&subscription=&source=&entity=&type=&destination=&class=&group=&since=&limit=&cursor=
//	GET /v1/dlq-groups?                                            the same filters
//	GET /v1/dlq/{action}                                           and /record behind it: the dead letter as it is exported
//	POST /v1/dlq/{action}/{replay, discard or resolve}             {"reason", "by", "force", "outcome_unknown", "no_wait", "dry_run"}
//	GET /v1/sources, GET /v1/subscriptions, GET /v1/destinations
//	GET /v1/destinations/{team}/{destination}
//	POST /v1/destinations/{team}/{destination}/{pause or resume}   {"reason", "by", "dry_run"}
//	GET /v1/subscriptions/{team}/{subscription}                    with its stopped partitions, whichever process owns them
//	POST /v1/subscriptions/{team}/{subscription}/accept            {"topic", "partition", "stop", "reason", "by", "dry_run"}
//
// A rejected record without an id is named by its place: the topic stands for the source, PARTITION@OFFSET for the event id.
//
// Lists are {"items": [...], "next": "<cursor>"}; errors are RFC 9457 problems. A part of this package is the server side of
// one kind of question, and beside it the method of [Client] that asks it.
package api
