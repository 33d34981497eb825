// Package slack posts messages with Slack's chat.postMessage.
//
//	POST <base_url>/chat.postMessage
//	authorization: Bearer <token>
//	{"channel": ..., "text": ..., "blocks": ..., "thread_ts": ...,
//	 "metadata": {"event_type": "forebay", "event_payload": {"action_id": "act_..."}}}
//
// Slack has no idempotency key. So an attempt that may not be the first looks for the message of an earlier one by its
// metadata, in conversations.history (in a thread, conversations.replies) at the times of earlier attempts, and is done where
// it finds it. What remains: a call that Slack carries out only after the look that followed it, and a message that
// somebody has deleted in between.
//
// The token is a bot's. It needs chat:write, and channels:history (groups:history for private channels, im:history for
// direct ones) for the look; without it a retry is dead by class denied rather than posted twice, unless an operator has
// said that it may be (`dlq replay --outcome-unknown`).
//
// What templates put into text, and into text objects of type mrkdwn, is escaped: no title of an event can call @channel.
// Literal parts are Slack's mrkdwn.
package slack
