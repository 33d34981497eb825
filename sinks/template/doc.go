// Package template makes what a sink sends out of an event: texts and JSON values with CEL expressions in double
// braces.
//
//	Issue {{body.issue.number}}: {{body.issue.title}}
//	{{body.pull_request.changed_files}}                       a string that is one expression keeps its type: 3
//	{{body.issue.body ?? 'no text'}}                          what stands there where the left has no value: null, or a field that is not there
//	{{body.thread_ts ?? dyn(null)}}                           null leaves the parameter out
//	{{'{{'}} is how two braces are written                    {{ is how two braces are written
//
// Expressions can name:
//
//	body             the event's JSON, read where it is named; a form's fields; null if the event has no body
//	headers          the request headers that were kept, by name in lower case
//	event.id         the provider's id of the event, or the hash of its body
//	event.delivery   the provider's id of the delivery, where that is not the event's; else empty
//	event.source     /<team>/<source>
//	event.type       such as com.github.issues.opened
//	event.entity     the entity's key, its parts encoded and joined with /
//	event.parts      the entity's parts as they are, a list of texts
//	event.version    the version as text that sorts; empty if the event has none
//	event.time       the provider's time, else the intake's
//	event.title      what the entity is called, such as an issue's title; empty where the provider does not say
//	event.late       true where newer versions have run
//	event.deleted    true where the event ends its entity
//	event.reason     the gate's reason for its decision on the event
//	sender.id        who made it happen, by the provider's own id; empty where it does not say
//	sender.login     the sender's name
//	sender.kind      human, automation or own, by the provider's word; empty where it does not say
//	sender.trust     owner, member, collaborator, contributor, first_time or none; empty where the provider does not say
//	chain.depth, chain.agents    what other agents have called one another before
//	action.id        the action's id, the same on every attempt
//	action.name      the action's name
//	action.to        its destination, as the file names it
//	action.attempt   1 for the first
//
// A template is compiled and type-checked when the configuration is. What fails all the same when it meets an event (a
// value that is missing and has no ??, a body that is no JSON, too many steps) fails again at every attempt: the action is dead at
// once, by class template, and the error says which parameter, which expression and where, and quotes nothing of the
// event.
package template
