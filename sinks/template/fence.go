package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut is the mark behind a text that was cut.
const Cut = "… (cut)"

// Shorten returns a text of at most so many characters, the mark included; 0 is no bound.
func Shorten(text string, most int) string {
	if most <= 0 || len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-utf8.RuneCountInString(Cut)]) + Cut
}

// saidByEvents are the variables whose texts whoever causes an event can choose.
var saidByEvents = []string{"body", "headers", "event.id", "event.delivery", "event.deliveryid", "event.type", "event.title", "event.entity", "event.parts", "event.subject",
	"entity.key", "sender.id", "sender.login", "chain.agents"}

// untrusted reports whether a part's expression names what an event says.
func (p part) untrusted() bool {
	for _, x := range p.xs {
		if slices.ContainsFunc(saidByEvents, x.Reads) {
			return true
		}
	}
	return false
}

func (t *text) untrusted() bool { return slices.ContainsFunc(t.parts, part.untrusted) }

// maxFenced is how many characters of an event's text are given to what may take it for instructions.
const maxFenced = 10_000

var (
	comments = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
	fences   = regexp.MustCompile(`(?i)</?untrusted[^>]*>?`)
)

// Hides reports whether a character has no place in a line of text: a control character, or one that changes the direction of text or has no
// width.
func Hides(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// stripped returns a value without what hides in its texts, the keys of its objects among them: HTML comments, control characters but for tabs
// and line ends, and characters that change the direction of text or have no width. Texts are cut. Of keys that become one, each keeps its value
// under a name: whoever causes an event can neither hide a value behind another nor end the action.
func stripped(v any) any {
	switch v := v.(type) {
	case string:
		return strippedText(v)
	case []any:
		for i := range v {
			v[i] = stripped(v[i])
		}
	case map[string]any:
		return strippedKeys(v)
	}
	return v
}

func strippedText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\t' && r != '\n' && Hides(r) {
			return -1
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
	return Shorten(comments.ReplaceAllString(text, ""), maxFenced)
}

// strippedKeys returns an object with stripped keys and values. A key that stays as it is keeps its name; another one that becomes the
// same has a number behind it: "key (2)".
func strippedKeys(object map[string]any) map[string]any {
	clean := make(map[string]any, len(object))
	changed := map[string]string{}
	for key, v := range object {
		if own := strippedText(key); own != key {
			changed[key] = own
			continue
		}
		clean[key] = stripped(v)
	}
	numbers := map[string]int{} // the last one of each name: a great many keys may become one
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		own := changed[key]
		name := own
		for _, taken := clean[name]; taken; _, taken = clean[name] {
			numbers[own]++
			name = fmt.Sprintf("%s (%d)", own, numbers[own]+1)
		}
		clean[name] = stripped(object[key])
	}
	return clean
}

// fenced returns an event's text between marks that it cannot end by itself. The action's id is in them.
func fenced(text, id string) string {
	for was := ""; was != text; {
		was, text = text, fences.ReplaceAllString(text, "")
	}
	return "\n<untrusted " + id + ">\n" + text + "\n</untrusted " + id + ">\n"
}
