// Package httpsink calls an HTTP destination with an event: CloudEvents in binary mode, the provider's body as body.
//
//	POST <url>
//	ce-id, ce-source, ce-type, ...      attributes, percent-encoded (CloudEvents HTTP binding 3.1.3.2)
//	content-type                        as the provider sent it, or of the body that a template makes in its place
//	idempotency-key, webhook-id         the action id, the same on every attempt
//	webhook-timestamp, -signature       Standard Webhooks, fresh on every attempt; only with a secret
//	traceparent                         a child of the event's trace for this hop; ce-traceparent is the event's own
//	forebay-attempt, forebay-late       which attempt this is; true where newer versions have run already, else absent
//
// Any 2xx is success; with expect: json only with JSON, or 204. The statuses' meaning is the failure table, see [sink.Failures].
//
// Where an action may be finished later, the call says how, and 202 means that the destination has taken it:
//
//	forebay-result-url, -heartbeat-url  where it reports the result, and that it is still at work
//	forebay-action-token                bearer token for both, of this attempt alone
//	forebay-deadline, -heartbeat        seconds: how long the result is waited for, and the longest silence before it
//
// The 202 may have forebay-cancel-url, which is called where the result is not wanted any more: a POST of {"action_id", "reason"}, signed as
// the first call was, with the same key and with x-forebay-cancel: the reason.
package httpsink
