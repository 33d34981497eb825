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

// reply is what is read of an answer: chat.postMessage's, or a page of conversations.history or conversations.replies.
type reply struct {
	OK      *bool
	Error   string
	Needed  string
	Channel string
	next    string   // the cursor of the next page
	seen    int      // messages
	want    metadata // of the message that is looked for
	found   bool
	ts      string // of that message, or of the one that was posted
}

// read takes it out of an answer.
func (r *reply) read(l *api.List) error {
	return l.Object(func(key string) error {
		switch key {
		case "ok":
			return l.Decode(&r.OK)
		case "error":
			return l.Decode(&r.Error)
		case "needed":
			return l.Decode(&r.Needed)
		case "channel":
			return l.Decode(&r.Channel)
		case "ts":
			return l.Decode(&r.ts)
		case "messages":
			return l.Each(func() error { return r.message(l) })
		case "response_metadata":
			var meta struct {
				NextCursor string `json:"next_cursor"`
			}
			err := l.Decode(&meta)
			r.next = meta.NextCursor
			return err
		}
		return l.Skip()
	})
}

// message reads one, and looks whether it is the one that is looked for.
func (r *reply) message(l *api.List) error {
	var got struct {
		TS       string
		Metadata struct {
			EventType    string          `json:"event_type"`
			EventPayload json.RawMessage `json:"event_payload"` // others' payloads have other shapes
		}
	}
	if err := l.Decode(&got); err != nil {
		return err
	}
	r.seen++
	var pay payload
	if got.Metadata.EventType == r.want.EventType && json.Unmarshal(got.Metadata.EventPayload, &pay) == nil && pay == r.want.EventPayload {
		r.found, r.ts = true, got.TS
	}
	return nil
}

// reach is how far a look has come.
type reach struct {
	next        string        // the cursor of the page that comes next
	pages, seen int           // that were read
	all         bool          // there is no more to be read, and nothing was found
	ahead       time.Duration // of Slack's clock, by which it asks
}

// since has a query ask for a span of time by Slack's clock.
func (r reach) since(query url.Values, in sink.Span) {
	in = api.Wider(in, r.ahead)
	query.Set("oldest", strconv.FormatInt(max(0, in.From.Add(-skew).Unix()), 10))
	if !in.To.IsZero() {
		query.Set("latest", strconv.FormatInt(in.To.Add(skew).Unix(), 10))
	}
}

// posted looks for the message that an earlier attempt may have posted within a span of time.
func (s *Sink) posted(ctx context.Context, a sink.Action, m message, in sink.Span) (out sink.Outcome, found bool, err error) {
	method := "conversations.history"
	query := url.Values{
		"channel": {m.Channel}, "include_all_metadata": {"true"}, "limit": {strconv.Itoa(pageSize)}, "inclusive": {"true"},
	}
	if m.ThreadTS != "" {
		method = "conversations.replies"
		query.Set("ts", m.ThreadTS)
	}
	at := s.looks.At(a, in)
	for ; !at.all && at.pages < maxPages; s.looks.Reach(a, in, at) {
		at.since(query, in)
		if at.next != "" {
			query.Set("cursor", at.next)
		}
		if a.Looks != nil {
			a.Looks()
		}
		page := reply{want: m.Metadata}
		answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodGet, Path: []string{method}, Query: query, Read: page.read})
		if err != nil {
			return sink.Outcome{}, false, api.Untouched(err)
		}
		if page.found {
			s.looks.Forget(a)
			return sink.Outcome{Code: answer.Code, Response: fmt.Appendf(nil, "message %s of an earlier attempt is there", clip(page.ts)), Made: made(m.Channel, page.ts)}, true, nil
		}
		if err := s.judge(method, answer, page); err != nil {
			if page.Error == "invalid_cursor" {
				s.looks.Forget(a)
			}
			out, err := api.Ended(answer, api.Untouched(err))
			return out, false, err
		}
		if at.pages == 0 && at.ahead == 0 && answer.Ahead != 0 {
			at = reach{ahead: answer.Ahead} // the same again, by its clock
			continue
		}
		at = reach{page.next, at.pages + 1, at.seen + page.seen, page.next == "", at.ahead}
	}
	if at.all {
		return sink.Outcome{}, false, nil
	}
	s.looks.Forget(a) // whoever runs it again later may find fewer
	return sink.Outcome{}, false, api.Untouched(s.Failed(sink.ClassRejected,
		"whether an earlier attempt has posted cannot be told: the channel has more than %d messages of that time; look there, then `dlq resolve` the action, or `dlq replay --outcome-unknown` it", at.seen))
}
