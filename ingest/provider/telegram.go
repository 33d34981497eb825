package provider

import (
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(telegram())

// telegram: an update has one field beside its number, whose name is its type and whose chat is its entity; what belongs to no chat has the
// person, the poll or the connection. All updates of a bot are numbered, with holes in each chat: that is their only clock, so all are deltas. After a
// week without updates the next number is any: what is older by it is late then, and not lost.
//
// A sender is who wrote, pressed or answered. A post in a channel, and what an administrator writes as the group, has nobody or a program of
// Telegram's in that place.
//
// Nothing is signed: the header carries the secret_token of setWebhook (1 to 256 of A-Z, a-z, 0-9, _ and -). Telegram waits up to 60 s for an answer, and keeps
// an update for up to 24 h.
// Sources: https://core.telegram.org/bots/api#update, https://core.telegram.org/bots/api#setwebhook, vercel/chat issue 799, tdlib/telegram-bot-api issue 211.
func telegram() preset {
	const chat = "/chat/id"
	objects := map[string]string{
		"message": chat, "edited_message": chat, "channel_post": chat, "edited_channel_post": chat,
		"business_message": chat, "edited_business_message": chat, "deleted_business_messages": chat, "business_connection": "/id",
		"message_reaction": chat, "message_reaction_count": chat,
		"my_chat_member": chat, "chat_member": chat, "chat_join_request": chat, "chat_boost": chat, "removed_chat_boost": chat,
		"callback_query": "/message/chat/id|/callback_query/from/id", // of a message that was sent inline there is no chat
		"inline_query":   "/from/id", "chosen_inline_result": "/from/id",
		"shipping_query": "/from/id", "pre_checkout_query": "/from/id", "purchased_paid_media": "/from/id",
		"poll": "/id", "poll_answer": "/poll_id",
	}
	number := []clock{{from: "/update_id", kind: schemas.Monotonic}}
	rules, there := map[string]mapping{}, []string{}
	for _, name := range sortedKeys(objects) {
		at := func(pointers ...string) string { return "/" + name + strings.Join(pointers, "|/"+name) }
		rules[name] = mapping{typ: []string{"=" + name}, entity: []string{"/" + name + objects[name]}, clocks: number,
			sender: sender{id: at("/from/id", "/user/id"), login: at("/from/username", "/user/username", "/from/first_name", "/user/first_name"),
				automation: &condition{from: at("/from/is_bot", "/user/is_bot"), is: []string{"true"}}},
			title: at("/chat/title", "/message/chat/title", "/chat/username", "/chat/first_name", "/question")}
		there = append(there, "="+name+"{/"+name+"}")
	}
	return preset{
		name: "telegram", title: "Telegram",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "X-Telegram-Bot-Api-Secret-Token"},
		maxBody: 1 << 20, deadline: 60 * time.Second,
		retries: "until it is taken, for up to 24 h", retryHorizon: day,
		prefix:   "org.telegram.",
		says:     []string{"message", "edited_message", "channel_post", "edited_channel_post", "business_message", "edited_business_message"},
		selects:  []string{strings.Join(there, "|") + "?"},
		fallback: mapping{id: "/update_id", typ: []string{"=update"}, clocks: number},
		rules:    rules,
	}
}
