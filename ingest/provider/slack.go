package provider

import (
	"bytes"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(slack())

// slack: an entity is a thread (or a message that may become one); every event says what happened in it. What belongs to no thread has its
// channel as entity, or the user it is about, or the workspace; a step of a workflow has the workflow's execution. Times are texts
// `seconds.micros`; events without one have the second of `event_time`. An app that is installed for an organization may get no team_id.
//
// Slack waits 3 s, and for url_verification too. The answer to a command or an interaction is shown to the person who made it: with another
// status than 200 Slack shows an error, and a modal that got a body stays open, so that it is sent again, as another event.
// Sources: https://docs.slack.dev/reference/events, https://docs.slack.dev/interactivity/handling-user-interaction, slack-go/slack security.go and slackevents, slackapi/bolt-python tests/scenario_tests.
func slack() preset {
	const team = "/team_id|/enterprise_id"
	clocks := []clock{
		{from: "/event/event_ts?", kind: schemas.Timestamp, name: "event", resolution: time.Microsecond},
		{from: "/event_time?", kind: schemas.Timestamp, name: "event", resolution: time.Second},
	}
	event := func(entity ...string) mapping {
		return mapping{id: "/event_id", typ: []string{"/event/type"}, entity: append([]string{team}, entity...), clocks: clocks}
	}
	message := func(thread string) mapping {
		m := event("/event/channel", thread)
		m.typ = []string{"/event/type", "/event/subtype?"}
		return m
	}
	reaction := event("/event/item/channel?", "/event/item/ts|/event/item/file|/event/item/file_comment?")
	edited := message("/event/message/thread_ts|/event/message/ts")
	assistant := event("/event/assistant_thread/channel_id", "/event/assistant_thread/thread_ts")
	return preset{
		name: "slack", title: "Slack",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Slack-Signature", Prefix: "v0=",
			TimestampHeader: "X-Slack-Request-Timestamp", Signed: "v0:{timestamp}:{body}"},
		maxBody: 1 << 20, deadline: 3 * time.Second,
		retries: "3: at once, after 1 min and after 5 min", retryHorizon: 6 * time.Minute,
		prefix:      "com.slack.",
		selects:     []string{"/type", "/event/type?", "/event/subtype?"},
		formPayload: "payload", payloadRule: "interaction", formRule: "command", emptyAnswer: true,
		headers:   []string{"x-slack-retry-num", "x-slack-retry-reason"},
		says:      []string{"message*", "app_mention"},
		challenge: slackChallenge,
		// An outer type that we do not know.
		fallback: mapping{id: "/event_id|sha256:body", typ: []string{"/type"}, entity: []string{team + "?"},
			sender: sender{id: "/event/bot_id|/event/message/bot_id|/event/user|/event/user/id|/event/message/user|/event/user_id",
				automation: &condition{from: "/event/bot_id|/event/message/bot_id", there: true},
				others:     "bot/{/event/bot_id}|bot/{/event/message/bot_id}|app/{/event/app_id}|app/{/event/message/app_id}|/event/user|/event/message/user",
				mark:       &condition{from: "/event/metadata/event_type|/event/message/metadata/event_type", is: []string{"forebay"}}}},
		rules: map[string]mapping{
			"event_callback": event("/event/channel|/event/channel/id|/event/channel_id|/event/user|/event/user/id|/event/user_id?",
				"/event/thread_ts|/event/ts?"),
			"event_callback/app_mention":                      event("/event/channel", "/event/thread_ts|/event/ts"),
			"event_callback/assistant_thread_started":         assistant,
			"event_callback/assistant_thread_context_changed": assistant,
			"event_callback/function_executed":                event("/event/workflow_execution_id|/event/function_execution_id"),
			"event_callback/link_shared":                      event("/event/channel", "/event/thread_ts|/event/message_ts"),
			"event_callback/message":                          message("/event/thread_ts|/event/ts"),
			"event_callback/message/message_changed":          edited,
			"event_callback/message/message_replied":          edited,
			"event_callback/message/message_deleted":          message("/event/previous_message/thread_ts|/event/previous_message/ts|/event/deleted_ts"),
			"event_callback/reaction_added":                   reaction,
			"event_callback/reaction_removed":                 reaction,
			"app_rate_limited":                                {entity: []string{team}},
			"command": {id: "sha256:body", typ: []string{"=command"}, // the body has a trigger_id, so equal bodies are one command
				entity: []string{"form:team_id", "form:channel_id?"}, sender: sender{id: "form:user_id", login: "form:user_name"}},
			"interaction": {id: "sha256:body", typ: []string{"/type"},
				entity: []string{"/team/id|/enterprise/id?", "/channel/id?",
					"/message/thread_ts|/message/ts|/container/thread_ts|/container/message_ts|/view/root_view_id|/view/id?"},
				sender: sender{id: "/user/id", login: "/user/username|/user/name"}},
		},
	}
}

var slackHandshake, _ = scan.Compile("/type", "/challenge")

// slackChallenge answers url_verification with the challenge.
func slackChallenge(h handshake) (*Answer, bool) {
	if !bytes.Contains(h.Body, []byte("url_verification")) {
		return nil, false
	}
	values, err := slackHandshake.Scan(h.Body, nil)
	if err != nil || values[0].Text() != "url_verification" || values[1].Kind != scan.String {
		return nil, false
	}
	return answerJSON(map[string]string{"challenge": values[1].Text()})
}
