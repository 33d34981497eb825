package provider

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(cloudEvents())

// cloudEvents: events in binary, structured and batched mode. Whatever the mode, `event` of a source reads attributes as headers (header:ce-subject) and
// the event's data as body. An id is unique inside its source, so the event's is both. An entity is the partition key, the subject or the
// source; a sequence orders the events of one source, as text unless its type is Integer, else their times do. Unknown attributes are kept.
//
// A sender proves itself with a bearer token, or with Standard Webhooks (verify.scheme), and may ask with OPTIONS whether it may send, at a rate: it may,
// since what it sends is verified. Its callback is never called.
// Sources: https://github.com/cloudevents/spec cloudevents/bindings/http-protocol-binding.md, formats/json-format.md, http-webhook.md,
// cloudevents/conformance features/http-protocol-binding.feature.
func cloudEvents() preset {
	return preset{
		name: "cloudevents", title: "CloudEvents",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "Authorization", Prefix: "Bearer "},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "the sender's",
		retries: "as the sender does; a day is assumed", retryHorizon: day,
		unpack: unpackCloudEvents,
		asks:   map[string]bool{http.MethodOptions: false}, challenge: cloudEventsConsent,
		headers: []string{"ce-source", "ce-subject", "webhook-request-origin"},
		fallback: mapping{
			scope: "header:ce-source", id: "header:ce-id",
			typ: []string{"header:ce-type"}, entity: []string{"header:ce-partitionkey|header:ce-subject|header:ce-source"},
			clocks: []clock{{from: "header:" + sequenceHeader + "?", kind: schemas.Monotonic, name: "sequence", by: "header:ce-source", text: true},
				{from: "header:ce-time?", kind: schemas.Timestamp, name: "time", by: "header:ce-source", resolution: time.Nanosecond}},
		},
	}
}

// sequenceHeader has the sequence as text that sorts. No request has it: it is made of the attribute.
const sequenceHeader = "Forebay-Sequence"

// ownAttributes are CloudEvents attributes that have a meaning here, or that this program writes: none is an extension of the sender's.
var ownAttributes = strings.Fields("id source specversion type time subject datacontenttype dataschema partitionkey traceparent tracestate deliveryid " +
	"senderid senderlogin senderkind sendertrust conversation agentchain agentdepth agenttraceid entitytitle recordedtime entityversion versionkind versionclock versionfirst payloadkind entitydeleted backfill " +
	"secretnumber bodyhash " + schemas.EncodingAttribute)

// extensions returns the attributes that the sender has added.
func extensions(h http.Header) map[string]string {
	var found map[string]string
	for name, values := range h {
		attribute, ok := strings.CutPrefix(name, "Ce-")
		if attribute = strings.ToLower(attribute); !ok || len(values) != 1 || slices.Contains(ownAttributes, attribute) || !schemas.IsAttributeName(attribute) {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[attribute] = values[0]
	}
	return found
}

var errTooMany = errors.New("too many events, or no list")

// unpackCloudEvents returns each event of a delivery in binary mode, with attributes as they are meant: not percent-encoded. What is no event of
// version 1.0 comes without attributes, so that it is quarantined alone. The JSON formats are read without their compression; data in binary mode
// keeps it, as any body does.
func unpackCloudEvents(r *verify.Request, maxBody int64) ([]verify.Request, error) {
	media, text := mediaType(r), r.Body
	if formatted := media == mediaBatch || media == mediaStructured; formatted && schemas.Zipped(text) {
		var err error
		if text, err = schemas.Unzip(text, maxBody); err != nil {
			return nil, unusable(BadEncoding, "the body cannot be unpacked: %v", err)
		}
	}
	switch {
	case media == mediaBatch:
		var events []verify.Request
		list := false
		err := scan.Each(text, func(key string, v scan.Value) error {
			if list = key == ""; !list || len(events) == MaxElements {
				return errTooMany
			}
			events = append(events, structured(r, v.Raw()))
			return nil
		})
		switch {
		case errors.Is(err, errTooMany):
			return nil, unusable(TooLong, "the batch has more than %d events, or is no list", MaxElements)
		case err != nil:
			return nil, scanReason(err)
		}
		return events, nil
	case media == mediaStructured:
		return []verify.Request{structured(r, text)}, nil
	case strings.HasPrefix(media, "application/cloudevents"):
		return nil, unusable(NotJSON, "the event is in another format than JSON")
	}
	attributes := map[string]string{}
	for name, values := range r.Header {
		if attribute, ok := strings.CutPrefix(name, "Ce-"); ok && len(values) == 1 {
			text, err := url.PathUnescape(values[0])
			if err != nil {
				text = values[0]
			}
			attributes[strings.ToLower(attribute)] = text
		}
	}
	return []verify.Request{binary(r, attributes, r.Header.Get("Content-Type"), r.Body, r.Body)}, nil
}

// binary returns an event in binary mode, or the raw bytes without attributes where they are those of no event.
func binary(r *verify.Request, attributes map[string]string, contentType string, data, raw []byte) verify.Request {
	out := *r
	out.Header = http.Header{}
	for name, values := range r.Header {
		if !strings.HasPrefix(name, "Ce-") && name != sequenceHeader {
			out.Header[name] = values
		}
	}
	if out.Body = raw; attributes["specversion"] != "1.0" {
		return out
	}
	out.Body = data
	for name, text := range attributes {
		out.Header.Set("Ce-"+name, text)
	}
	if contentType == "" {
		delete(out.Header, "Content-Type")
	} else {
		out.Header.Set("Content-Type", contentType)
	}
	if sequence := attributes["sequence"]; sequence != "" {
		if n, err := strconv.ParseInt(sequence, 10, 32); err == nil && n >= 0 && attributes["sequencetype"] == "Integer" {
			sequence = "0000000000"[len(strconv.FormatInt(n, 10)):] + strconv.FormatInt(n, 10)
		}
		out.Header.Set(sequenceHeader, sequence)
	}
	if trace := attributes["traceparent"]; trace != "" { // in which the event was made; the request's own is of this hop
		out.Header.Set("Traceparent", trace)
		out.Header.Set("Tracestate", attributes["tracestate"])
	}
	return out
}

// structured returns an event of the JSON format in binary mode.
func structured(r *verify.Request, raw []byte) verify.Request {
	attributes, data := map[string]string{}, map[string]scan.Value{}
	err := scan.Each(raw, func(key string, v scan.Value) error {
		_, twice := attributes[key]
		switch text := v.Text(); {
		case twice || data[key].Kind != scan.Absent:
			return errNoEvent
		case key == "data" || key == "data_base64":
			data[key] = v
		case !schemas.IsAttributeName(key) || v.Kind == scan.Object || v.Kind == scan.Array:
			return errNoEvent
		case v.Kind != scan.Null:
			attributes[key] = text
		}
		return nil
	})
	contentType := attributes["datacontenttype"]
	if contentType == "" {
		contentType = "application/json"
	}
	body := data["data"].Raw()
	if text, ok := data["data"].Content(); ok && !jsonType(contentType) {
		body = []byte(text)
	}
	if encoded := data["data_base64"]; encoded.Kind != scan.Absent {
		text, _ := encoded.Content()
		decoded, bad := base64.StdEncoding.DecodeString(text)
		if bad != nil || data["data"].Kind != scan.Absent {
			err = errNoEvent
		}
		body = decoded
	}
	if err != nil {
		attributes = nil
	}
	if body == nil {
		body = []byte{}
	}
	return binary(r, attributes, contentType, body, raw)
}

var errNoEvent = errors.New("no event")

func jsonType(contentType string) bool {
	media := mediaTypeOf(contentType)
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}

// cloudEventsConsent answers the question whether a sender may send.
func cloudEventsConsent(h handshake) (*Answer, bool) {
	origin := h.Header.Get("WebHook-Request-Origin")
	if h.Method != http.MethodOptions || origin == "" {
		return nil, false
	}
	header := http.Header{"Allow": {"POST"}, "Webhook-Allowed-Origin": {origin}}
	if h.Header.Get("WebHook-Request-Rate") != "" {
		header.Set("WebHook-Allowed-Rate", "*") // beyond the source's rate it is told 429 and Retry-After
	}
	return &Answer{Status: http.StatusOK, Header: header}, true
}
