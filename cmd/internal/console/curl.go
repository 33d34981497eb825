package console

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// inlineBody is how long a body is at most that stands in the command itself.
const inlineBody = 16 << 10

// sentAttributes are what destinations get of an event's attributes; sinks/http/AGENTS.md lists them.
var sentAttributes = []string{"specversion", "id", "source", "type", "time", "subject", "partitionkey", "recordedtime", "dataschema", "entityversion", "versionkind", "versionclock",
	"payloadkind", "entitydeleted", "backfill", "deliveryid", "senderid", "senderlogin", "senderkind", "sendertrust", "conversation", "agentchain", "agentdepth", "agenttraceid", "entitytitle", "traceparent", "tracestate"}

// curl returns a command that sends an event to an agent on this machine as a destination of type http does, without signature and key. A
// body that is long, or that a page cannot show as it is, is read from a file, which the command download makes before.
func curl(download string, raw *api.InboxRecord) string {
	var b strings.Builder
	data := "--data-raw " + inQuotes(string(raw.Body))
	if len(raw.Body) > inlineBody || string(visible(raw.Body)) != string(raw.Body) {
		b.WriteString(download + "\n")
		data = "--data-binary @body"
	}
	b.WriteString("curl http://127.0.0.1:8000/")
	header := func(name, value string) { b.WriteString(" \\\n  -H " + inQuotes(name+": "+value)) }
	for _, h := range raw.Headers {
		if name, is := strings.CutPrefix(h.Key, "ce_"); is && slices.Contains(sentAttributes, name) {
			header("ce-"+name, percentEncoded(h.Value))
		}
	}
	if raw.ContentType != "" && string(visible([]byte(raw.ContentType))) == raw.ContentType {
		header("Content-Type", raw.ContentType)
	}
	return b.String() + " \\\n  " + data
}

// percentEncoded returns an attribute as CloudEvents writes it into a header: space, ", % and what is no printable ASCII are encoded.
func percentEncoded(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_%+=:,./-]+$`)

// inQuotes returns a word as a shell takes it.
func inQuotes(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
