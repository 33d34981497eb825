package provider_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
)

var update = flag.Bool("update", false, "write PRESETS.md")

// TestPageIsTheData: PRESETS.md says what the presets say; -update writes it.
func TestPageIsTheData(t *testing.T) {
	t.Parallel()
	const path = "PRESETS.md"
	index, err := os.ReadFile(vectors + "/index.json")
	if err != nil {
		t.Fatal(err)
	}
	want := page(string(index))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, string(got)); diff != "" {
		t.Errorf("PRESETS.md (+) differs from the presets (-); `go test ./ingest/provider -update` writes it:\n%s", diff)
	}
}

const pageHead = `# Presets

What Forebay knows of each provider. This page is made of the presets' files by ` + "`go test ./ingest/provider -update`" + `, and a test holds it to
them; ` + "`forebay sources presets NAME`" + ` prints the same, ` + "`-o json`" + ` for programs.

Values are JSON Pointers into the body, ` + "`header:NAME`" + ` or ` + "`form:NAME`" + `; "a else b" is the first that is there, and what stands in brackets may be
missing. The entity's values are joined: what has the same entity is in order, and what fails keeps back all of it. A version compares by
its values from left to right, within one clock. A snapshot behind a newer event of its clock is stale and does not run. A delta always runs:
behind a newer event it is marked late. Subscriptions may want it otherwise (` + "`stale`" + `).

An event's identity is made of what the signature covers. Where that is the body alone (event id ` + "`sha256:body`" + `), two events with the same body,
byte for byte, are one: the second is a duplicate, and does not run. What is listed under "the same body" may meet that.

CloudEvents are taken in binary, structured and batched mode. What has a list of events is answered ` + "`{\"id\":null,\"events\":4,\"quarantined\":0}`" + `: so many
were recorded, and so many of its elements went to quarantine, alone.
`

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// page writes PRESETS.md; index is that of the vectors' bodies.
func page(index string) string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("\n| provider | preset | signed | fresh | event id | ack deadline | bodies in the tests |\n|---|---|---|---|---|---|---|\n")
	for _, i := range provider.Presets() {
		if i.Name == "generic" { // which knows nothing
			continue
		}
		fmt.Fprintf(&b, "| [%s](#%s) | `%s` | %s | %s | `%s` | %s | %d |\n", i.Title, anchor(i.Title), i.Name, cmp.Or(i.Signed, "nothing: a token"), strings.TrimPrefix(freshness(i), "and "), strings.ReplaceAll(i.ID, "|", "` else `"),
			short(i.Deadline), strings.Count(index, `"provider": "`+i.Name+`"`))
	}
	for _, i := range provider.Presets() {
		if i.Name == "generic" { // which knows nothing
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", i.Title)
		fmt.Fprintf(&b, "- preset: `%s`\n- signed: %s\n", i.Name, i.SignedText(freshness(i)))
		fmt.Fprintf(&b, "- a captured delivery: %s\n", i.CapturedText())
		fmt.Fprintf(&b, "- ack deadline: %s%s\n- answers that it takes: %s\n- retries: %s (horizon: %s)\n", short(i.Deadline), noted(i.DeadlineNote), cmp.Or(i.Takes, "not confirmed"), i.Retries, short(i.RetryHorizon))
		fmt.Fprintf(&b, "- largest body: %d MiB\n- event id: `%s`\n", i.MaxBody>>20, i.ID)
		if i.DeliveryID != "" {
			fmt.Fprintf(&b, "- delivery id, not signed: `%s`\n", i.DeliveryID)
		}
		for _, line := range [][2]string{{"sender", i.SenderText()}, {"title", i.TitleText()}, {"conversation", i.ConversationText()}, {"chain", i.ChainText()}, {"`own` takes, beside senders' ids", i.OwnText()}} {
			if line[1] != "" {
				fmt.Fprintf(&b, "- %s: %s\n", line[0], line[1])
			}
		}
		if text := i.RepeatsText(); text != "" {
			fmt.Fprintf(&b, "- the same body again is one event, also of: %s\n", text)
		}
		named, columns := "`"+i.Fallback.Type+"`", "| event "
		if i.TypesDiffer() {
			named, columns = "as the table says", "| event | type "
		}
		columns += "| entity | version | clock | payload | deleted |\n"
		fmt.Fprintf(&b, "- event type: %s%s\n\n%s%s|\n", named, noted(i.TypeNames), columns, strings.Repeat("|---", strings.Count(columns, "|")-1))
		for _, t := range i.Texts() {
			if i.TypesDiffer() {
				t.Event += " | `" + t.Type + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", t.Event, t.Entity, t.Version, cmp.Or(t.Clock, "-"), t.Payload, cmp.Or(t.Deleted, "-"))
		}
	}
	return strings.ReplaceAll(b.String(), "*.", `\*.`)
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// short writes a duration without the zeros behind it.
func short(s provider.Seconds) string {
	text := s.Std().String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func freshness(i provider.Info) string {
	if i.Tolerance == 0 {
		return "and no time"
	}
	return "at most " + short(i.Tolerance) + " from our clock"
}
