// Package github acts on repositories by GitHub's REST API, each destination in one way:
//
//	do        call                                            declared    looked up before a retry
//	issue     POST /repos/{repo}/issues                       idempotent  marker in the body of recent issues
//	comment   POST /repos/{repo}/issues/{issue}/comments      idempotent  marker in the body of recent comments
//	labels    POST /repos/{repo}/issues/{issue}/labels        idempotent  nothing: adding a label twice adds it once
//	dispatch  POST /repos/{repo}/dispatches                   unsafe      nothing: an outcome that is unknown is an operator's
//
// GitHub has no idempotency key. Bodies end with a hidden marker, <!-- forebay:act_... -->, and an attempt that may not
// be the first looks for it among what was made at the times of earlier ones, five seconds after one that may have acted at the
// earliest; where it finds it, the action is done. What remains: a call that GitHub carries out, or lists, even later, and a
// marker that somebody has cut out of the body in between. What was made twice so is found by its marker in the body's source, and
// closed or deleted by hand: nothing else of Forebay rests on it.
// An @mention that comes out of an event is broken with a space of no width, however its @ is written: it calls nobody.
// A dispatch carries the action's id in client_payload.forebay, for the workflow to know it by.
//
// The token is a fine-grained one with Issues: write (issue, comment, labels) or Contents: write (dispatch). What
// GitHub says of its rate limits, also of those on creating content, holds the destination and is no denial: the table is limits.
package github
