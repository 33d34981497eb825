package producer

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
)

// The headers of a quarantined delivery. Its value is the raw body, its key is null: nothing is known of its entity.
const (
	headerKind     = "forebay_kind"
	headerReason   = "forebay_reason"
	headerDetail   = "forebay_detail"
	headerMethod   = "forebay_method"
	headerURL      = "forebay_url" // only where it is signed
	headerTeam     = "forebay_team"
	headerSource   = "forebay_source"
	headerReceived = "forebay_received" // RFC 3339 with nanoseconds, UTC
	requestPrefix  = "http_"
)

// quarantineRecord returns the record of a quarantined delivery: the body as received, all else in headers.
func quarantineRecord(topic string, d *ingest.Delivery) *kgo.Record {
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

// parseQuarantine reads a record of a quarantine topic. It never fails: operators read the topic when something has gone wrong.
func parseQuarantine(r *kgo.Record) Item {
	item := Item{Partition: r.Partition, Offset: r.Offset, Bytes: len(r.Value), Delivery: ingest.Delivery{Body: r.Value, Received: r.Timestamp.UTC()}}
	for _, h := range r.Headers {
		value := string(h.Value)
		switch h.Key {
		case headerKind:
			item.Kind = value
		case headerReason:
			item.Reason = value
		case headerDetail:
			item.Detail = value
		case headerMethod:
			item.Method = value
		case headerURL:
			item.URL = value
		case headerTeam:
			item.Team = value
		case headerSource:
			item.Source = value
		case headerReceived:
			if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
				item.Received = t.UTC()
			}
		default:
			if name, ok := strings.CutPrefix(h.Key, requestPrefix); ok {
				item.Headers = append(item.Headers, schemas.Header{Name: name, Value: value})
			}
		}
	}
	return item
}
