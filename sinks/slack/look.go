package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/stream/sink"
)

// Bounds of the look for an earlier message. Slack may give less to a page than it is asked for.
const (
	pageSize = 100
	maxPages = 10
	skew     = 5 * time.Minute // between our clock and Slack's
)

// page is one of conversations.history or conversations.replies.
type page struct {
	Messages []struct {
		TS       string
		Metadata struct {
			EventType    string          `json:"event_type"`
			EventPayload json.RawMessage `json:"event_payload"` // others' payloads have other shapes
		}
	}
	ResponseMetadata struct {
		NextCursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// posted looks for the message that an earlier attempt may have posted within a span of time.
func (s *Sink) posted(ctx context.Context, m message, in sink.Span) (out sink.Outcome, found bool, err error) {
	method := "conversations.history"
	query := url.Values{
		"channel": {m.Channel}, "include_all_metadata": {"true"}, "limit": {strconv.Itoa(pageSize)},
		"oldest": {strconv.FormatInt(max(0, in.From.Add(-skew).Unix()), 10)}, "inclusive": {"true"},
	}
	if !in.To.IsZero() {
		query.Set("latest", strconv.FormatInt(in.To.Add(skew).Unix(), 10))
	}
	if m.ThreadTS != "" {
		method = "conversations.replies"
		query.Set("ts", m.ThreadTS)
	}
	seen := 0
	for range maxPages {
		answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodGet, Path: []string{method}, Query: query})
		if err != nil {
			return sink.Outcome{}, false, api.Untouched(err)
		}
		var p page
		if err := s.judge(method, answer, &p); err != nil {
			return answer.Outcome, false, api.Untouched(err)
		}
		seen += len(p.Messages)
		if ts, ok := p.find(m.Metadata); ok {
			return sink.Outcome{Code: answer.Code, Response: fmt.Appendf(nil, "message %s of an earlier attempt is there", clip(ts))}, true, nil
		}
		next := p.ResponseMetadata.NextCursor
		if next == "" {
			return sink.Outcome{}, false, nil
		}
		query.Set("cursor", next)
	}
	return sink.Outcome{}, false, api.Untouched(s.Failed(sink.ClassRejected,
		"whether an earlier attempt has posted cannot be told: the channel has more than %d messages of that time; look there, then `dlq resolve` the action, or `dlq replay --outcome-unknown` it", seen))
}

func (p page) find(m metadata) (ts string, found bool) {
	for _, got := range p.Messages {
		var pay payload
		if got.Metadata.EventType == m.EventType && json.Unmarshal(got.Metadata.EventPayload, &pay) == nil && pay == m.EventPayload {
			return got.TS, true
		}
	}
	return "", false
}
