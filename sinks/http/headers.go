package httpsink

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// setEvent writes the attributes of e as headers. Nothing of the original request's headers goes out: they are the
// provider's word to us. Names are written as net/http would write them, so that it need not make each of them again.
func setEvent(h http.Header, e *schemas.Event) {
	for name, value := range e.Extensions { // first: an extension never overwrites an attribute
		setText(h, http.CanonicalHeaderKey("Ce-"+name), value)
	}
	setText(h, "Ce-Specversion", "1.0")
	setText(h, "Ce-Id", e.ID)
	setText(h, "Ce-Deliveryid", e.DeliveryID)
	setText(h, "Ce-Senderid", e.Sender.ID)
	setText(h, "Ce-Senderlogin", e.Sender.Login)
	setText(h, "Ce-Senderkind", string(e.Sender.Kind))
	setText(h, "Ce-Sendertrust", string(e.Sender.Trust))
	if e.Conversation {
		setText(h, "Ce-Conversation", "true")
	}
	setText(h, "Ce-Entitytitle", e.Title)
	setText(h, "Ce-Source", e.Source)
	setText(h, "Ce-Type", e.Type)
	setText(h, "Ce-Time", timeText(e.Time))
	setText(h, "Ce-Subject", string(e.Entity))
	setText(h, "Ce-Partitionkey", string(e.Entity))
	setText(h, "Ce-Recordedtime", timeText(e.RecordedTime))
	setText(h, "Ce-Dataschema", e.DataSchema)
	setText(h, "Ce-Entityversion", e.Version.Sortable())
	setText(h, "Ce-Versionkind", string(e.Version.Kind))
	setText(h, "Ce-Versionclock", e.Version.Clock)
	setText(h, "Ce-Payloadkind", string(e.Payload))
	if e.Deleted {
		setText(h, "Ce-Entitydeleted", "true")
	}
	if e.Backfill {
		setText(h, "Ce-Backfill", "true")
	}
	setText(h, "Ce-Traceparent", e.TraceParent)
	setText(h, "Ce-Tracestate", e.TraceState)
}

// setText sets a header under a canonical name to the value, escaped; an empty value is left out.
func setText(h http.Header, name, value string) {
	if value != "" {
		h[name] = []string{escape(value)}
	}
}

// setLater writes how the destination may finish later.
func setLater(h http.Header, later *sink.Later) {
	if later == nil {
		return
	}
	h.Set("Forebay-Result-Url", later.URL+"/result")
	h.Set("Forebay-Action-Token", later.Token.Reveal())
	h.Set("Forebay-Deadline", seconds(later.Deadline))
	if later.Heartbeat > 0 {
		h.Set("Forebay-Heartbeat-Url", later.URL+"/heartbeat")
		h.Set("Forebay-Heartbeat", seconds(later.Heartbeat))
	}
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// escape percent-encodes as the CloudEvents HTTP binding says: space, double quote, percent and everything outside
// U+0021 to U+007E, byte by byte of its UTF-8. So no value, whatever it holds, ends its header.
func escape(s string) string {
	const digits = "0123456789ABCDEF"
	n := 0
	for i := range len(s) {
		if special(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*n)
	for i := range len(s) {
		c := s[i]
		if !special(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func special(c byte) bool { return c <= ' ' || c == '"' || c == '%' || c >= 0x7f }

// printable reports whether a content type can stand in a header as it is.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
