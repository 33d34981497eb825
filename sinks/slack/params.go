package slack

import (
	"errors"
	"regexp"
	"strings"

	"github.com/forebay-io/forebay/sinks/template"
)

var (
	channelForm = regexp.MustCompile(`^[CDG][A-Z0-9]{6,30}$`)
	stampForm   = regexp.MustCompile(`^[0-9]{1,12}\.[0-9]{1,9}$`)
)

// Params declares the parameters of a message.
func Params() []template.Param {
	return []template.Param{
		{Name: "channel", Doc: "Id of the channel, such as C0123456789; retries look for the message there, which Slack allows by id only.", Kind: template.Text, Required: true, Check: form(channelForm, "is not the id of a channel, such as C0123456789")},
		{Name: "text", Doc: "The message, or what notifications show of it where there are blocks.", Kind: template.Text, Required: true, Escape: escape, Max: most},
		{Name: "blocks", Doc: "Block Kit blocks.", Kind: template.List, Escape: escape, Max: most},
		{Name: "thread_ts", Doc: "Timestamp of the message to answer in its thread.", Kind: template.Text, Check: form(stampForm, "is not the timestamp of a message, such as 1503435956.000247")},
	}
}

func form(f *regexp.Regexp, problem string) func(string) error {
	return func(text string) error {
		if !f.MatchString(text) {
			return errors.New(problem)
		}
		return nil
	}
}

var control = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// most is how many characters Slack takes: of a message, of a markdown block, and of the text of a section.
func most(around map[string]any, name string) int {
	switch kind, _ := around["type"].(string); {
	case name == "text" && around == nil:
		return 40_000
	case name == "text" && kind == "markdown":
		return 12_000
	case name == "text" && (kind == "mrkdwn" || kind == "plain_text"):
		return 3_000
	}
	return 0
}

// fit cuts the texts of blocks of which Slack takes fewer characters than of other text objects: of a header, a section's fields and a button
// (docs.slack.dev, reference/block-kit).
func fit(blocks any) {
	switch v := blocks.(type) {
	case []any:
		for _, e := range v {
			fit(e)
		}
	case map[string]any:
		switch v["type"] {
		case "header":
			shorten(v["text"], 150)
		case "button":
			shorten(v["text"], 75)
		case "section":
			fields, _ := v["fields"].([]any)
			for _, e := range fields {
				shorten(e, 2000)
			}
		}
		for _, e := range v {
			fit(e)
		}
	}
}

// shorten cuts a text object's text.
func shorten(object any, most int) {
	if o, ok := object.(map[string]any); ok {
		if text, ok := o["text"].(string); ok {
			o["text"] = template.Shorten(text, most)
		}
	}
}

// escape makes texts of events harmless where Slack reads mrkdwn: in text, in text objects of that type and in markdown blocks.
func escape(around map[string]any, name string) func(string) string {
	if name != "text" {
		return nil
	}
	if kind, _ := around["type"].(string); around == nil || kind == "mrkdwn" || kind == "markdown" || strings.Contains(kind, "{{") {
		return control.Replace
	}
	return nil
}
