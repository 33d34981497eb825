package producer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// The headers of a quarantined delivery. Its value is the raw body, its key is null: nothing is known of its entity.
const (
	headerKind     = "forebay_kind"
	headerReason   = "forebay_reason"
	headerDetail   = "forebay_detail"
	headerMethod   = "forebay_method"
	headerURL      = "forebay_url" // only where it is signed
	headerSecret   = "forebay_secretnumber"
	headerCaller   = "forebay_caller"  // only where one of several could have sent it: JSON
	headerElement  = "forebay_element" // only of an element of a list: its number, from 1
	headerTeam     = "forebay_team"
	headerSource   = "forebay_source"
	headerReceived = "forebay_received" // RFC 3339 with nanoseconds, UTC
	requestPrefix  = "http_"
)

// QuarantineRecord returns the record that Quarantine appends: the delivery's body as received, all else in headers.
func (*Producer) QuarantineRecord(topic string, d *ingest.Delivery) *kgo.Record {
	headers := make([]kgo.RecordHeader, 0, 8+len(d.Headers))
	add := func(name, value string) {
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	add(headerKind, d.Kind)
	add(headerReason, d.Reason)
	if d.Detail != "" {
		add(headerDetail, d.Detail)
	}
	add(headerMethod, d.Method)
	if d.URL != "" {
		add(headerURL, d.URL)
	}
	if d.Secret > 0 {
		add(headerSecret, strconv.Itoa(d.Secret))
	}
	if d.Caller.Name != "" {
		text, _ := json.Marshal(d.Caller) //nolint:errchkjson // texts alone
		add(headerCaller, string(text))
	}
	if d.Element > 0 {
		add(headerElement, strconv.Itoa(d.Element))
	}
	add(headerTeam, d.Team)
	add(headerSource, d.Source)
	add(headerReceived, d.Received.UTC().Format(time.RFC3339Nano))
	for _, h := range d.Headers {
		add(requestPrefix+h.Name, h.Value)
	}
	body := d.Body
	if body == nil {
		body = []byte{}
	}
	return &kgo.Record{Topic: topic, Value: body, Headers: headers}
}

// HasHeader reports whether a quarantined delivery was kept with a header, whose name is in lower case, of this value.
func HasHeader(r *kgo.Record, name, value string) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == requestPrefix+name && string(h.Value) == value })
}

// Request returns the delivery as the request that it was.
func (i *Item) Request() *verify.Request {
	r := &verify.Request{Method: i.Method, URL: i.URL, Header: http.Header{}, Body: i.Body, Secret: i.Secret, Caller: i.Caller}
	for _, h := range i.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	return r
}

// Quarantined reads a record of a quarantine topic; a mark has a Kind of its own. It never fails: operators read the topic when something has gone wrong.
func Quarantined(r *kgo.Record) Item {
	item := Item{Partition: r.Partition, Offset: r.Offset, Bytes: len(r.Value), Delivery: ingest.Delivery{
		Kind: header(r, headerKind), Reason: header(r, headerReason), Detail: header(r, headerDetail), Method: header(r, headerMethod),
		URL: header(r, headerURL), Team: header(r, headerTeam), Source: header(r, headerSource), Body: r.Value, Received: r.Timestamp.UTC(),
	}}
	if t, err := time.Parse(time.RFC3339Nano, header(r, headerReceived)); err == nil {
		item.Received = t.UTC()
	}
	item.Secret, _ = strconv.Atoi(header(r, headerSecret)) // 0: not known
	if text := header(r, headerCaller); text != "" && json.Unmarshal([]byte(text), &item.Caller) != nil {
		item.Caller = verify.Caller{} // not known: then it cannot be redriven
	}
	item.Element, _ = strconv.Atoi(header(r, headerElement))
	for _, h := range r.Headers {
		if name, ok := strings.CutPrefix(h.Key, requestPrefix); ok {
			item.Headers = append(item.Headers, schemas.Header{Name: name, Value: string(h.Value)})
		}
	}
	return item
}

// header returns the last header of a name that a record has; empty if it has none.
func header(r *kgo.Record, name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
