// Package slack posts messages with Slack's chat.postMessage.
//
//	POST <base_url>/chat.postMessage
//	authorization: Bearer <token>
//	{"channel": ..., "text": ..., "blocks": ..., "thread_ts": ...,
//	 "metadata": {"event_type": "forebay", "event_payload": {"action_id": "act_..."}}}
//
// Slack has no idempotency key. So an attempt that may not be the first looks for the message of an earlier one by its
// metadata, in conversations.history (in a thread, conversations.replies) at the times of earlier attempts, and is done where
// it finds it. It looks five seconds after an attempt that may have posted, at the earliest. What remains: a call that Slack
// carries out even later, and a message that somebody has deleted in between.
//
// Apps that are not of Slack's Marketplace may ask conversations.history and conversations.replies once a minute, for 15 messages
// at most (docs.slack.dev, since May 2025; apps that a workspace has made for itself are free of that). For them a retry in a
// busy channel needs an attempt for every 15 messages since the first one: Slack answers 429 with a Retry-After, which holds
// the destination for all messages, and the next attempt goes on with the next page. These attempts count and wait as others do: with the
// default retry that is hours beyond 60 messages, and beyond 90 the action is dead as throttled, for an operator to look; ten pages, 150
// messages, are read at most. Looks spend the rate of the destination. So: an app of the workspace's own, or of the Marketplace; else a
// channel of Forebay's own, in which little else is said, or `retry: {attempts: 12, max: 1m}`.
//
// A question for approval that has ended changes its message with chat.update, by the channel and the timestamp that the answer to the message gave;
// where that answer was lost, by a look. A message that is gone is left alone. What a workspace lets nobody edit (edit_window_closed) stays as it was, and
// the log says so. An incoming webhook is a destination of type http: it cannot change what it has said, and says another thing.
//
// The token is a bot's. It needs chat:write, and channels:history (groups:history for private channels, im:history for
// direct ones) for the look; without it a retry is dead by class denied rather than posted twice, unless an operator has
// said that it may be (`dlq replay --outcome-unknown`).
//
// What templates put into text, and into text objects of type mrkdwn, is escaped: no title of an event can call @channel.
// Literal parts are Slack's mrkdwn.
package slack
