// Package pagerduty opens, acknowledges and resolves alerts with PagerDuty's Events API v2.
//
//	POST <base_url>/v2/enqueue
//	{"routing_key": ..., "event_action": "trigger", "dedup_key": ..., "payload": {"summary": ..., "source": ..., "severity": ...}}
//
// PagerDuty knows an alert by its dedup_key: a trigger under the key of an open alert adds to that alert and opens no
// other, so every attempt may be repeated. By default the key is the event's source and entity, so that all events of an
// entity are about one alert, and a later event may resolve it. What remains: an attempt whose answer was lost is
// repeated after somebody has resolved the alert by hand, and opens it again.
package pagerduty
