package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
)

// fixture is a delivery to copy, for tests of a mapping or of an agent.
type fixture struct {
	Text string // the file
	Send string // the command that sends it, signed again
}

// fixtureOf returns an event's delivery as a file, without its signature, which is not kept. A long body stays out: nobody copies that from a page.
func fixtureOf(i *api.InboxItem, raw *api.InboxRecord) fixture {
	source := strings.TrimPrefix(i.Source, "/")
	if source == i.Source {
		source = i.Team + "/" + i.Source
	}
	h := http.Header{}
	if raw.ContentType != "" {
		h.Set("Content-Type", raw.ContentType)
	}
	for _, kept := range raw.Headers {
		if name, is := strings.CutPrefix(kept.Key, "http_"); is {
			h.Set(name, kept.Value)
		}
	}
	if raw.Bytes > inlineBody || len(raw.Body) < raw.Bytes {
		words := []string{"forebay inbox raw " + inQuotes(api.EventName(i).String()) + " > body\nforebay send " + inQuotes(source) + " -c forebay.yaml --file body"}
		for _, name := range slices.Sorted(maps.Keys(h)) {
			words = append(words, "--header "+inQuotes(name+"="+h.Get(name)))
		}
		return fixture{Send: strings.Join(words, " \\\n  ")}
	}
	f := delivery.File{Source: source, Received: i.ReceivedAt, Method: http.MethodPost}
	f.SetHeader(h)
	f.SetContent(raw.Body)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil { // texts alone: it cannot fail
		return fixture{}
	}
	return fixture{Text: ascii(b.String()), Send: "forebay send " + inQuotes(source) + " -c forebay.yaml --delivery delivery.json"}
}

// ascii writes what is no printable ASCII in a JSON text as \\uXXXX: what a page shows is then what is copied.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
