package provider

import (
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(discord())

// discord: an entity is the user, the entitlement or the channel that it is about, of an application. Webhook events have a time of their own,
// in UTC and without a zone, and come in any order; the numbers of interactions grow. All of them say what happened.
//
// Webhook events have no id, so it is made of the body. An interaction is answered at once that its answer comes later (within 15 min, by the
// token in the body), since Discord tells the user of a failure after 3 s; one that completes a text gets no choices. Discord sends what is
// wrongly signed while the URL is entered, and wants 401. It repeats webhook events for up to 10 min, and interactions never.
// The secret is the application's public key.
// Sources: https://docs.discord.com/developers/events/webhook-events, https://docs.discord.com/developers/interactions/overview,
// https://docs.discord.com/developers/interactions/receiving-and-responding.
func discord() preset {
	return preset{
		name: "discord", title: "Discord",
		verify:  verify.Params{Scheme: verify.SchemeEd25519, Tolerance: 15 * time.Minute}, // more than it repeats for: whether it signs anew is not known
		maxBody: 1 << 20, deadline: 3 * time.Second,
		retries: "webhook events for up to 10 min, interactions never", retryHorizon: 10 * time.Minute,
		prefix: "com.discord.", names: []string{},
		challenge: discordPing, accepted: discordAccepted,
		fallback: mapping{
			id: "/id|sha256:body", typ: []string{"/event/type|interaction.{/type}"},
			entity: []string{"/application_id", "/event/data/user/id|/event/data/id|/channel_id|/member/user/id|/user/id?"},
			clocks: []clock{{from: "/event/timestamp?", kind: schemas.Timestamp, name: "event", resolution: time.Microsecond, utc: true},
				{from: "/id?", kind: schemas.Monotonic, name: "interaction"}},
			sender: sender{id: "/member/user/id|/user/id|/event/data/user/id", login: "/member/user/username|/user/username|/event/data/user/username",
				automation: &condition{from: "/member/user/bot|/user/bot|/event/data/user/bot", is: []string{"true"}}},
			title: "/data/name|/event/data/guild/name",
		},
	}
}

var discordForm, _ = scan.Compile("/type", "/event", "/id")

// discordType returns the type of an interaction, or of an outer webhook event.
func discordType(h handshake) (typ string, interaction bool) {
	values, err := discordForm.Scan(h.Body, nil)
	if err != nil || values[0].Kind != scan.Number {
		return "", false
	}
	return values[0].Text(), values[2].Kind != scan.Absent
}

// discordPing answers PING, which is 1 of interactions and 0 of webhook events.
func discordPing(h handshake) (*Answer, bool) {
	switch typ, interaction := discordType(h); {
	case interaction && typ == "1":
		return answerJSON(map[string]int{"type": 1})
	case !interaction && typ == "0":
		return &Answer{Status: http.StatusNoContent}, true
	}
	return nil, false
}

// discordAccepted is the answer to what is durable: of an interaction, that its answer comes later (5; 6 where a message stays as it is), or
// no choices (8).
func discordAccepted(h handshake) *Answer {
	typ, interaction := discordType(h)
	if !interaction {
		return &Answer{Status: http.StatusNoContent}
	}
	var later any = map[string]int{"type": 5}
	switch typ {
	case "3":
		later = map[string]int{"type": 6}
	case "4":
		later = map[string]any{"type": 8, "data": map[string]any{"choices": []string{}}}
	}
	answer, _ := answerJSON(later)
	return answer
}
