package github

import (
	"errors"
	"html"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/sinks/template"
)

// Do is what a destination does.
type Do string

const (
	Issue    Do = "issue"
	Comment  Do = "comment"
	Labels   Do = "labels"
	Dispatch Do = "dispatch"
)

// Dos returns all values of do.
func Dos() []string {
	return []string{string(Issue), string(Comment), string(Labels), string(Dispatch)}
}

var (
	repoForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}$`)
	numberForm = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)
)

// form returns the check of a parameter whose text has to match f.
func form(f *regexp.Regexp, problem string) func(string) error {
	return func(text string) error {
		if !f.MatchString(text) {
			return errors.New(problem)
		}
		return nil
	}
}

// escape makes texts of events harmless where GitHub reads Markdown: whoever opens an issue could have everybody called whom its text
// mentions, by us and with our rights. Literal parts are the template's own and mention whom they say.
// An instruction to a bot is a /command at the beginning of a line; a text may stand there, so its first line counts.
func escape(map[string]any, string) func(string) string {
	return func(text string) string { return commands.ReplaceAllString(unmention(text), "$1\u200b/$2") }
}

// commands finds them behind all white space that bots trim, which includes what Unicode and Python call so.
var commands = regexp.MustCompile(`((?:^|[\n\v\f\r\x1c-\x1e\x{85}\x{2028}\x{2029}])[\s\v\x1c-\x1f\x{85}\x{feff}\pZ]*)/([A-Za-z])`)

// The most characters that GitHub takes of a body and of a title. A body ends with the marker.
const (
	maxBody  = 65_536 - 200
	maxTitle = 256
)

func atMost(n int) func(map[string]any, string) int {
	return func(map[string]any, string) int { return n }
}

var (
	// ats are an @ as it is, and references to characters, among them to @. Raw HTML takes numbers without the semicolon.
	ats = regexp.MustCompile(`@|&(?:commat;|#[0-9]+;?|#[xX][0-9a-fA-F]+;?)`)
	// unfinished is what may be the beginning of such a reference, which goes on behind the text.
	unfinished = regexp.MustCompile(`&(?:#[0-9]*|#[xX][0-9a-fA-F]*|c|co|com|comm|comma|commat)?$`)
)

// unmention puts a space of no width behind each @ that may begin a mention, as GitHub's own bots do. GitHub looks for mentions in the
// rendered text: what begins one there is an @ however it is written, behind anything but an ASCII letter or digit (user@example.com).
// The template may go on behind the text: so an @ at its end counts, and so does what may be the beginning of a reference to one.
func unmention(text string) string {
	const zeroWidth = "\u200b"
	var b strings.Builder
	done := 0
	for _, at := range ats.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		if html.UnescapeString(text[at[0]:at[1]]) != "@" || endsInWord(text[:at[0]]) || strings.TrimLeft(rest, " \t\r\n") != rest {
			continue
		}
		b.WriteString(text[done:at[1]] + zeroWidth)
		done = at[1]
	}
	b.WriteString(text[done:])
	if unfinished.MatchString(text[done:]) {
		b.WriteString(zeroWidth)
	}
	return b.String()
}

// endsInWord reports whether a text ends in an ASCII letter or digit when it is rendered. The underscore is left out, for it may be of
// an emphasis; so is the end of a reference without a semicolon (&nbsp, &#32).
func endsInWord(text string) bool {
	rest := strings.TrimRight(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return rest != text && !strings.HasSuffix(rest, "&") && !strings.HasSuffix(rest, "&#")
}

// Params declares the parameters of a destination that does this; if that is not known, all that there are.
func Params(do Do) []template.Param {
	repo := template.Param{Name: "repo", Doc: "Owner and name of the repository, such as octo-org/hello.", Kind: template.Text, Required: true, Check: form(repoForm, "is not the owner and name of a repository, such as octo-org/hello")}
	issue := template.Param{Name: "issue", Doc: "Number of the issue or pull request.", Kind: template.Text, Required: true, Check: form(numberForm, "is not the number of an issue")}
	switch do {
	case Issue:
		return []template.Param{
			repo, {Name: "title", Doc: "The issue's title; cut after 256 characters.", Kind: template.Text, Required: true, Max: atMost(maxTitle)}, {Name: "body", Doc: "Its text, in Markdown; an @mention or a /command that comes from the event calls nobody. Cut where GitHub would refuse it.", Kind: template.Text, Escape: escape, Max: atMost(maxBody)},
			{Name: "labels", Doc: "Its labels.", Kind: template.Texts}, {Name: "assignees", Doc: "Logins of whom it is assigned to.", Kind: template.Texts},
		}
	case Comment:
		return []template.Param{repo, issue, {Name: "body", Doc: "The comment, in Markdown; an @mention or a /command that comes from the event calls nobody. Cut where GitHub would refuse it.", Kind: template.Text, Required: true, Escape: escape, Max: atMost(maxBody)}}
	case Labels:
		return []template.Param{repo, issue, {Name: "labels", Doc: "Labels to add; an empty list adds none.", Kind: template.Texts, Required: true}}
	case Dispatch:
		return []template.Param{
			repo, {Name: "event_type", Doc: "Name of the event that workflows know by on.repository_dispatch.types.", Kind: template.Text, Required: true},
			{Name: "client_payload", Doc: "Object for the workflow; at most nine keys, beside forebay, which holds the action's id.", Kind: template.Object},
		}
	}
	var all []template.Param
	for _, do := range Dos() {
		for _, p := range Params(Do(do)) {
			p.Required = false
			if !slices.ContainsFunc(all, func(other template.Param) bool { return other.Name == p.Name }) {
				all = append(all, p)
			}
		}
	}
	return all
}
